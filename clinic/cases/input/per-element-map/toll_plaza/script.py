import argparse
import tempfile
import time

import numpy as np
import tensorflow as tf

COLUMNS = 14


def write_csv(path, rows):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, COLUMNS))
    wait = np.maximum(0, 3 + x[:, 0] * 2 - x[:, 3] + rng.normal(size=rows) * 0.1)
    with open(path, "w") as f:
        f.write(",".join("c%d" % i for i in range(COLUMNS)) + ",wait\n")
        for row, w in zip(x, wait):
            f.write(",".join("%.3f" % v for v in row) + ",%.3f\n" % w)


def parse(line):
    fields = tf.io.decode_csv(line, [[0.0]] * (COLUMNS + 1))
    features = tf.stack(fields[:-1], axis=-1)
    hour = tf.math.floormod(features[..., 1:2] * 24.0, 24.0)
    cyc = tf.concat([tf.sin(hour * 0.2618), tf.cos(hour * 0.2618)], -1)
    return tf.concat([features, cyc], -1), fields[-1]


def build():
    inp = tf.keras.Input((COLUMNS + 2,))
    h = tf.keras.layers.Dense(64, activation="relu")(inp)
    h = tf.keras.layers.Dense(32, activation="relu")(h)
    out = tf.keras.layers.Dense(1)(h)
    return tf.keras.Model(inp, out)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=20480)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--epochs", type=int, default=8)
    a = p.parse_args()
    tf.keras.utils.set_random_seed(1)

    tmp = tempfile.NamedTemporaryFile(suffix=".csv")
    write_csv(tmp.name, a.rows)
    ds = (
        tf.data.TextLineDataset(tmp.name)
        .skip(1)
        .shuffle(2048, seed=2)
        .map(parse, num_parallel_calls=2)
        .batch(a.batch)
        .prefetch(tf.data.AUTOTUNE)
    )
    model = build()
    model.compile(optimizer=tf.keras.optimizers.Adam(2e-3), loss="huber")
    t = time.perf_counter()
    model.fit(ds, epochs=a.epochs, verbose=2)
    print("seconds", round(time.perf_counter() - t, 2))


if __name__ == "__main__":
    main()
