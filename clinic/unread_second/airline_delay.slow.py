"""Arrival delay regression on a flight table."""
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf
from keras import layers

NUMERIC = ["dep_hour", "distance", "taxi_out", "wind", "temp", "visibility"]


@dataclass
class Config:
    rows: int = 600_000
    batch_size: int = 4096
    epochs: int = 6
    hidden: list = field(default_factory=lambda: [256, 128, 64])
    lr: float = 1e-3


def load_table(cfg, seed=7):
    rng = np.random.default_rng(seed)
    table = {name: rng.gamma(2.0, 3.0, cfg.rows).astype("float32") for name in NUMERIC}
    table["carrier"] = rng.integers(0, 18, cfg.rows).astype("int32")
    table["origin"] = rng.integers(0, 320, cfg.rows).astype("int32")
    delay = (0.8 * table["taxi_out"] + 0.3 * table["wind"] - 0.1 * table["visibility"]
             + rng.normal(0, 2, cfg.rows)).astype("float32")
    return table, delay


def statistics(table):
    mean = np.array([table[n].mean() for n in NUMERIC], "float32")
    std = np.array([table[n].std() for n in NUMERIC], "float32")
    return tf.constant(mean), tf.constant(std)


def make_dataset(table, delay, cfg):
    mean, std = statistics(table)

    def features(row, target):
        numeric = tf.stack([row[n] for n in NUMERIC], axis=-1)
        numeric = (numeric - mean) / std
        angle = row["dep_hour"] * (2.0 * np.pi / 24.0)
        clock = tf.stack([tf.sin(angle), tf.cos(angle)], axis=-1)
        return {
            "numeric": tf.concat([numeric, clock], axis=-1),
            "carrier": row["carrier"],
            "origin": row["origin"],
        }, tf.math.asinh(target)

    ds = tf.data.Dataset.from_tensor_slices((table, delay))
    ds = ds.shuffle(20_000)
    ds = ds.map(features, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(cfg.batch_size, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def build(cfg):
    numeric = keras.Input((len(NUMERIC) + 2,), name="numeric")
    carrier = keras.Input((), dtype="int32", name="carrier")
    origin = keras.Input((), dtype="int32", name="origin")
    x = layers.Concatenate()([
        numeric,
        layers.Embedding(18, 8)(carrier),
        layers.Embedding(320, 16)(origin),
    ])
    for units in cfg.hidden:
        x = layers.Dense(units, activation="relu")(x)
    return keras.Model({"numeric": numeric, "carrier": carrier, "origin": origin}, layers.Dense(1)(x))


if __name__ == "__main__":
    cfg = Config()
    table, delay = load_table(cfg)
    model = build(cfg)
    model.compile(keras.optimizers.Adam(cfg.lr), loss="huber", metrics=["mae"])
    model.fit(make_dataset(table, delay, cfg), epochs=cfg.epochs, verbose=2)
