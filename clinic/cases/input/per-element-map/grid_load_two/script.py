"""Short-term electricity load forecasting with sliding windows (single-step, quantile loss)."""
import os
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
from tensorflow.keras import Sequential, layers, optimizers

WINDOW = 72
BATCH = 128


def hourly_load(n=14000, seed=6):
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    day, week = np.sin(2 * np.pi * t / 24), np.sin(2 * np.pi * t / 168)
    temp = 10 + 8 * np.sin(2 * np.pi * t / 8760) + np.cumsum(rng.normal(size=n)) * 0.02
    load = 50 + 10 * day + 5 * week - 0.6 * temp + rng.normal(size=n)
    series = np.stack([load, temp, day, week], 1)
    return ((series - series.mean(0)) / series.std(0)).astype("float32")


def windowed(series, shuffle=2000):
    ds = tf.data.Dataset.from_tensor_slices(series)
    ds = ds.window(WINDOW + 1, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(WINDOW + 1))
    ds = ds.map(lambda w: (w[:-1], w[-1, :1]), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.shuffle(shuffle).batch(BATCH).prefetch(tf.data.AUTOTUNE)


def pinball(y, q_hat):
    qs = tf.constant([0.1, 0.5, 0.9])
    e = y - q_hat
    return tf.reduce_mean(tf.maximum(qs * e, (qs - 1) * e))


class Forecaster:
    def __init__(self):
        self.net = Sequential([layers.Input((WINDOW, 4)), layers.Conv1D(24, 6, strides=3, activation="relu"),
                               layers.Flatten(), layers.Dense(64, activation="relu"), layers.Dense(3)])
        self.opt = optimizers.Adam(1e-3)
        self.opt.build(self.net.trainable_variables)

    @tf.function(input_signature=[tf.TensorSpec((None, WINDOW, 4)), tf.TensorSpec((None, 1))])
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = pinball(y, self.net(x, training=True))
        v = self.net.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, v), v))
        return loss


def main(epochs=3):
    ds = windowed(hourly_load())
    model = Forecaster()
    n, t0 = 0, time.perf_counter()
    for epoch in range(epochs):
        losses = []
        for x, y in ds:
            losses.append(model.step(x, y))
            n += x.shape[0]
        print(f"epoch {epoch} pinball {np.mean(losses):.4f}")
    print("WORK", n)
    print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))


main()
