# Day-ahead electricity load: direct multi-horizon MLP on sliding windows of an hourly series.
import argparse
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
import keras

parser = argparse.ArgumentParser()
parser.add_argument("--past", type=int, default=96)
parser.add_argument("--ahead", type=int, default=24)
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--hours", type=int, default=17000)
args = parser.parse_args()
SPAN = args.past + args.ahead


def make_series(hours):
    rng = np.random.default_rng(0)
    t = np.arange(hours)
    load = 1.0 + 0.3 * np.sin(2 * np.pi * t / 24) + 0.1 * np.sin(2 * np.pi * t / 168)
    temp = 0.5 * np.sin(2 * np.pi * t / 8760) + 0.05 * rng.normal(size=hours)
    load = load - 0.4 * temp + 0.03 * rng.normal(size=hours)
    return np.stack([load, temp], 1).astype("float32")


def split(w):
    return w[..., :args.past, :], w[..., args.past:, 0]


def windows(series):
    ds = tf.data.Dataset.from_tensor_slices(series)
    ds = ds.window(SPAN, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(SPAN, drop_remainder=True))
    ds = ds.batch(args.batch, drop_remainder=True)
    ds = ds.map(split, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


series = make_series(args.hours)
train = windows(series)
net = keras.Sequential([
    keras.layers.Input((args.past, 2)),
    keras.layers.Flatten(),
    keras.layers.Dense(128, activation="gelu"),
    keras.layers.Dense(128, activation="gelu"),
    keras.layers.Dense(args.ahead),
])
net.compile(keras.optimizers.Adam(1e-3), "huber")
net.fit(train, epochs=2, verbose=2)
print("weights", net.count_params())
