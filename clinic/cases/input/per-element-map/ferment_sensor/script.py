"""Off-flavour detection in a fermentation hall: one row of sensor values per tank and minute."""
import argparse

import keras
import numpy as np
import tensorflow as tf

CHANNELS = 24


class TankHistory:
    def __init__(self, rows, seed):
        gen = np.random.default_rng(seed)
        self.values = gen.gamma(2.0, 1.5, size=(rows, CHANNELS)).astype("float32")
        score = self.values[:, :4].sum(axis=1) - self.values[:, 4:8].sum(axis=1)
        self.flag = (score + gen.normal(0, 1, rows) > 0).astype("float32")
        self.mean = self.values.mean(axis=0)
        self.std = self.values.std(axis=0)

    def dataset(self, batch):
        mean, std = tf.constant(self.mean), tf.constant(self.std)

        def scale(row, flag):
            row = (row - mean) / std
            row = tf.clip_by_value(row, -4.0, 4.0)
            return row, flag

        ds = tf.data.Dataset.from_tensor_slices((self.values, self.flag))
        ds = ds.shuffle(4096, seed=2)
        ds = ds.map(scale, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.batch(batch, drop_remainder=True)
        return ds.prefetch(2)


def build():
    inputs = keras.Input((CHANNELS,))
    x = keras.layers.Dense(64, activation="gelu")(inputs)
    x = keras.layers.Dense(32, activation="gelu")(x)
    out = keras.layers.Dense(1, activation="sigmoid")(x)
    return keras.Model(inputs, out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=102_400)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()

    hall = TankHistory(args.rows, seed=4)
    model = build()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=["AUC"])
    model.fit(hall.dataset(args.batch), epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()
