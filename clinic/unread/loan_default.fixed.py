"""Default prediction on quantile-binned application data."""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass
class Settings:
    rows: int = 600_000
    columns: int = 30
    bins: int = 64
    batch_size: int = 4096
    epochs: int = 3


def applications(cfg):
    rng = np.random.default_rng(8)
    table = rng.lognormal(size=(cfg.rows, cfg.columns)).astype(np.float32)
    target = (table[:, 0] > table[:, 1]).astype(np.float32)
    return table, target


class Binner:
    def __init__(self, bins):
        self.grid = np.linspace(0, 1, bins + 1)[1:-1]

    def fit(self, table):
        sample = table[:: max(1, len(table) // 50_000)]
        self.edges = [np.quantile(col, self.grid).tolist() for col in sample.T]
        return self

    def transform(self, table):
        edges = self.edges
        codes = np.empty(table.shape, np.int32)
        for col in range(table.shape[1]):
            codes[:, col] = np.searchsorted(edges[col], table[:, col], side="right")
        return codes


def scorer(cfg):
    codes = tf.keras.Input((cfg.columns,), dtype="int32")
    offsets = tf.range(cfg.columns) * cfg.bins
    shifted = tf.keras.layers.Lambda(lambda c: c + offsets)(codes)
    x = tf.keras.layers.Embedding(cfg.columns * cfg.bins, 8)(shifted)
    x = tf.keras.layers.Flatten()(x)
    x = tf.keras.layers.Dense(128, activation="relu")(x)
    return tf.keras.Model(codes, tf.keras.layers.Dense(1)(x))


def main():
    cfg = Settings()
    table, target = applications(cfg)
    codes = Binner(cfg.bins).fit(table).transform(table)
    model = scorer(cfg)
    model.compile(
        optimizer=tf.keras.optimizers.Adam(1e-3),
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(codes, target, batch_size=cfg.batch_size, epochs=cfg.epochs, verbose=2)


if __name__ == "__main__":
    main()
