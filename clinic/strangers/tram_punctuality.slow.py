import argparse

import numpy as np
import tensorflow as tf
import keras


def departures(count, seed):
    rng = np.random.default_rng(seed)
    table = {
        "line": rng.integers(1, 19, count).astype("int32"),
        "hour": rng.integers(5, 24, count).astype("int32"),
        "rain_mm": rng.exponential(1.0, count).astype("float32"),
        "boarding": rng.poisson(12, count).astype("float32"),
        "headway": rng.uniform(4, 15, count).astype("float32"),
    }
    delay = 0.4 * table["rain_mm"] + 0.05 * table["boarding"] + rng.normal(0, 0.2, count)
    return table, delay.astype("float32")


def rush(row, delay):
    row = dict(row)
    hour = row.pop("hour")
    row["rush"] = tf.cast(((hour >= 7) & (hour < 10)) | ((hour >= 16) & (hour < 19)), tf.float32)
    row["clock"] = tf.sin(tf.cast(hour, tf.float32) * (np.pi / 12))
    return row, delay


def stack(row, delay):
    numbers = tf.stack([row["rain_mm"], row["boarding"] / 12.0, row["headway"] / 10.0,
                        row["rush"], row["clock"]])
    return {"line": row["line"], "numbers": numbers}, delay


def pipeline(table, delay, batch):
    ds = tf.data.Dataset.from_tensor_slices((table, delay))
    ds = ds.shuffle(4096, seed=2)
    for transform in (rush, stack):
        ds = ds.map(transform, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.repeat().batch(batch).prefetch(tf.data.AUTOTUNE)


def build():
    line = keras.Input((), dtype="int32", name="line")
    numbers = keras.Input((5,), name="numbers")
    merged = keras.layers.Concatenate()([keras.layers.Embedding(20, 4)(line), numbers])
    hidden = keras.layers.Dense(32, activation="gelu")(merged)
    model = keras.Model({"line": line, "numbers": numbers}, keras.layers.Dense(1)(hidden))
    model.compile("adam", "mae")
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    keras.utils.set_random_seed(21)
    table, delay = departures(30_000, 4)
    model = build()
    model.fit(pipeline(table, delay, args.batch), steps_per_epoch=args.steps, epochs=args.epochs,
              verbose=2)
