# Predict the fill weight of the next crate from the shift logs of a bottling line.
import argparse
import glob
import os
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf

COLUMNS = 12
HEADER = ",".join(f"sensor_{i}" for i in range(COLUMNS)) + ",fill_weight\n"


def dump_logs(folder, crates, rows_each, seed=0):
    """The line computer leaves one log per crate."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=COLUMNS)
    for crate in range(crates):
        x = rng.normal(size=(rows_each, COLUMNS))
        y = np.tanh(x @ true) + 0.05 * rng.normal(size=rows_each)
        with open(os.path.join(folder, f"crate_{crate:05d}.csv"), "w") as f:
            f.write(HEADER)
            for row, target in zip(x, y):
                f.write(",".join(f"{v:.3f}" for v in row) + f",{target:.4f}\n")


class Deadline(keras.callbacks.Callback):
    """Stops when the slot on the shared machine is over."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds
        self.batches = 0

    def on_train_begin(self, logs=None):
        self.began = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1
        if time.perf_counter() - self.began > self.seconds:
            self.model.stop_training = True


def split_columns(lines):
    fields = tf.io.decode_csv(lines, [0.0] * (COLUMNS + 1))
    return tf.stack(fields[:-1], axis=1), fields[-1]


def crate_dataset(folder, batch):
    files = sorted(glob.glob(os.path.join(folder, "crate_*.csv")))
    np.random.default_rng(1).shuffle(files)
    data = tf.data.Dataset.from_tensor_slices(files)
    data = data.flat_map(lambda name: tf.data.TextLineDataset(name).skip(1))
    data = data.batch(batch, drop_remainder=True)
    data = data.map(split_columns, num_parallel_calls=tf.data.AUTOTUNE)
    return data.prefetch(tf.data.AUTOTUNE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--crates", type=int, default=2400)
    parser.add_argument("--rows", type=int, default=5)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=11.0)
    args = parser.parse_args()

    keras.utils.set_random_seed(0)
    folder = tempfile.mkdtemp(prefix="bottling_")
    dump_logs(folder, args.crates, args.rows)
    data = crate_dataset(folder, args.batch)

    model = keras.Sequential([
        keras.Input((COLUMNS,)),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(1),
    ])
    model.compile(optimizer="adam", loss="mse")

    deadline = Deadline(args.seconds)
    began = time.perf_counter()
    model.fit(data, epochs=1000, verbose=0, callbacks=[deadline])
    seconds = time.perf_counter() - began
    print("WORK", deadline.batches * args.batch)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
