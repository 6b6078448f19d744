import dataclasses

import keras
import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Config:
    rows: int = 500_000
    columns: int = 24
    batch_size: int = 2048
    epochs: int = 4
    mask_rate: float = 0.05


def export_lines(cfg):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4000, cfg.columns)).round(3)
    clicked = (values[:, :4].sum(axis=1) > 0).astype(int)
    lines = [
        ",".join(map(str, row)) + f",{label}" for row, label in zip(values.tolist(), clicked)
    ]
    return np.array(lines)[rng.integers(0, len(lines), cfg.rows)]


def make_parser(cfg):
    defaults = [[0.0]] * cfg.columns + [[0]]

    def parse(record):
        *features, label = tf.io.decode_csv(record, defaults)
        features = tf.stack(features, axis=-1)
        keep = tf.random.uniform(tf.shape(features)) >= cfg.mask_rate
        return tf.where(keep, features, 0.0), label

    return parse


def make_dataset(cfg, lines):
    parse = make_parser(cfg)
    return (
        tf.data.Dataset.from_tensor_slices(lines)
        .shuffle(20_000)
        .batch(cfg.batch_size, drop_remainder=True)
        .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )


def make_model(cfg):
    return keras.Sequential(
        [
            keras.Input((cfg.columns,)),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(1),
        ]
    )


def main():
    cfg = Config()
    dataset = make_dataset(cfg, export_lines(cfg))
    model = make_model(cfg)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.AUC(from_logits=True)],
    )
    model.fit(dataset, epochs=cfg.epochs, verbose=2)


if __name__ == "__main__":
    main()
