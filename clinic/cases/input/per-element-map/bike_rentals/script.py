import argparse
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

COLUMNS = ["hour", "weekday", "month", "temp", "feels", "humidity", "wind", "holiday", "rain", "count"]
DEFAULTS = [[0.0]] * len(COLUMNS)


def make_csv(path, rows):
    rng = np.random.default_rng(0)
    t = np.round(rng.random((rows, len(COLUMNS))), 3)
    t[:, -1] = np.round(3 * t[:, 0] + 2 * t[:, 3] - t[:, 5], 3)
    with open(path, "w") as f:
        f.write(",".join(COLUMNS) + "\n")
        f.writelines(",".join(map(str, r)) + "\n" for r in t.tolist())


def parse_line(line):
    fields = tf.io.decode_csv(line, DEFAULTS)
    features = dict(zip(COLUMNS, fields))
    target = features.pop("count")
    return tf.stack(list(features.values()), axis=-1), target


def csv_dataset(path, batch_size):
    ds = tf.data.TextLineDataset(path).skip(1)
    ds = ds.shuffle(5000)
    ds = ds.map(parse_line, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(batch_size)
    return ds.prefetch(tf.data.AUTOTUNE)


def make_model(width):
    return keras.Sequential([
        keras.layers.Input((len(COLUMNS) - 1,)),
        keras.layers.Dense(width, activation="relu"),
        keras.layers.Dense(width, activation="relu"),
        keras.layers.Dense(1),
    ])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=64000)
    ap.add_argument("--batch-size", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--width", type=int, default=128)
    args = ap.parse_args()

    workdir = tempfile.mkdtemp()
    path = os.path.join(workdir, "hourly.csv")
    make_csv(path, args.rows)

    model = make_model(args.width)
    model.compile(optimizer=keras.optimizers.RMSprop(1e-3), loss="mse", metrics=["mae"])
    data = csv_dataset(path, args.batch_size)

    start = time.perf_counter()
    model.fit(data, epochs=args.epochs, verbose=2)
    secs = time.perf_counter() - start

    os.remove(path)
    os.rmdir(workdir)
    print("WORK", args.rows * args.epochs)
    print("TRAIN_SECONDS %.2f" % secs)


if __name__ == "__main__":
    main()
