"""Train a sprite classifier from a TFRecord file."""
from __future__ import annotations

import dataclasses
import os
import tempfile

import numpy as np
import tensorflow as tf


@dataclasses.dataclass
class Config:
    num_examples: int = 30_000
    size: int = 96
    classes: int = 12
    batch_size: int = 256
    epochs: int = 8
    learning_rate: float = 3e-4


def _feature(png: bytes, label: int) -> tf.train.Example:
    return tf.train.Example(features=tf.train.Features(feature={
        "png": tf.train.Feature(bytes_list=tf.train.BytesList(value=[png])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }))


def write_records(path: str, cfg: Config) -> None:
    rng = np.random.default_rng(42)
    pool = []
    for i in range(600):
        label = i % cfg.classes
        img = rng.integers(0, 60, (cfg.size, cfg.size, 3), dtype=np.uint8)
        a = 6 * label
        img[a:a + 20, a:a + 20] += 150
        pool.append((tf.io.encode_png(img).numpy(), label))
    with tf.io.TFRecordWriter(path) as w:
        for i in rng.integers(0, len(pool), cfg.num_examples):
            w.write(_feature(*pool[i]).SerializeToString())


def parse(record):
    ex = tf.io.parse_single_example(record, {
        "png": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_png(ex["png"], channels=3)
    img = tf.image.random_crop(img, (64, 64, 3))
    return img, ex["label"]


def input_fn(path: str, cfg: Config) -> tf.data.Dataset:
    ds = tf.data.TFRecordDataset(path)
    ds = ds.shuffle(cfg.num_examples, reshuffle_each_iteration=True)
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(cfg.batch_size, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def build(cfg: Config) -> tf.keras.Model:
    inputs = tf.keras.Input((64, 64, 3), dtype="uint8")
    x = tf.keras.layers.Rescaling(1 / 127.5, offset=-1.0)(inputs)
    for filters in (32, 64, 128):
        x = tf.keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = tf.keras.layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
    x = tf.keras.layers.GlobalMaxPooling2D()(x)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(cfg.classes)(x))


def main() -> None:
    cfg = Config()
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "sprites.tfrecord")
        write_records(path, cfg)
        model = build(cfg)
        model.compile(
            tf.keras.optimizers.Adam(cfg.learning_rate),
            tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        model.fit(input_fn(path, cfg), epochs=cfg.epochs, verbose=2)


if __name__ == "__main__":
    main()
