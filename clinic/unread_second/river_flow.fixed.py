import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers

WINDOW = 180


def synth_catchments(n_basins, days, seed):
    rng = np.random.default_rng(seed)
    rain = rng.gamma(0.4, 6.0, (n_basins, days))
    temp = 10 + 9 * np.sin(np.arange(days) / 365 * 2 * np.pi) + rng.normal(0, 2, (n_basins, days))
    pet = np.clip(temp * 0.15 + rng.normal(0, 0.2, (n_basins, days)), 0, None)
    forcing = np.stack([rain, temp, pet], -1).astype("float32")
    kernel = np.exp(-np.arange(30) / 7.0)
    flow = np.stack([np.convolve(r, kernel)[:days] for r in rain]).astype("float32")
    forcing = (forcing - forcing.mean((0, 1))) / forcing.std((0, 1))
    flow = (flow - flow.mean()) / flow.std()
    return forcing, flow


def window_index(n_basins, days):
    basin, start = np.meshgrid(np.arange(n_basins), np.arange(days - WINDOW - 1), indexing="ij")
    return np.stack([basin.ravel(), start.ravel()], 1).astype("int32")


def make_dataset(forcing, flow, batch_size):
    index = window_index(*flow.shape)

    forcing_t, flow_t = tf.constant(forcing), tf.constant(flow)

    def windows(idx):
        b, s = idx[:, 0], idx[:, 1]
        steps = s[:, None] + tf.range(WINDOW)[None]
        where = tf.stack([tf.repeat(b[:, None], WINDOW, 1), steps], -1)
        return tf.gather_nd(forcing_t, where), tf.gather_nd(flow_t, tf.stack([b, s + WINDOW], -1))

    ds = tf.data.Dataset.from_tensor_slices(index).shuffle(len(index))
    ds = ds.batch(batch_size, drop_remainder=True)
    ds = ds.map(windows, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def build(units):
    inputs = keras.Input((WINDOW, 3))
    x = layers.Conv1D(units, 5, strides=2, activation="relu")(inputs)
    x = layers.Conv1D(units, 5, strides=2, activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(1)(layers.Dense(units, activation="relu")(x)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--basins", type=int, default=40)
    p.add_argument("--days", type=int, default=2500)
    p.add_argument("--batch-size", type=int, default=512)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--units", type=int, default=64)
    args = p.parse_args()
    forcing, flow = synth_catchments(args.basins, args.days, seed=3)
    model = build(args.units)
    model.compile("adam", loss="mse")
    history = model.fit(make_dataset(forcing, flow, args.batch_size), epochs=args.epochs, verbose=2)
    print("final mse", history.history["loss"][-1])


if __name__ == "__main__":
    main()
