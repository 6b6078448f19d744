"""Rust severity grading of wheat leaves (5 grades)."""
from __future__ import annotations

import dataclasses
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf


@dataclasses.dataclass
class Config:
    n_images: int = 1200
    raw: int = 1024
    side: int = 160
    batch: int = 64
    epochs: int = 40
    lr: float = 1e-3


def photograph(folder: pathlib.Path, cfg: Config) -> tuple[list[str], np.ndarray]:
    rng = np.random.default_rng(5)
    names, grades = [], rng.integers(0, 5, cfg.n_images)
    for i, g in enumerate(grades):
        base = np.full((cfg.raw // 8, cfg.raw // 8, 3), (60, 140, 50), np.float32)
        spots = rng.random(base.shape[:2]) < 0.02 + 0.05 * g
        base[spots] = (170, 90, 30)
        leaf = np.kron(base, np.ones((8, 8, 1), np.float32)).clip(0, 255).astype(np.uint8)
        f = folder / f"leaf_{i:05d}.jpg"
        f.write_bytes(tf.io.encode_jpeg(leaf, quality=90).numpy())
        names.append(str(f))
    return names, grades.astype(np.int32)


def pipeline(names: list[str], grades: np.ndarray, cfg: Config) -> tf.data.Dataset:
    def read(name, grade):
        img = tf.io.decode_jpeg(tf.io.read_file(name), channels=3)
        img = tf.image.resize(img, (cfg.side, cfg.side), antialias=True)
        return tf.cast(tf.round(img), tf.uint8), grade

    ds = tf.data.Dataset.from_tensor_slices((names, grades))
    ds = ds.map(read, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(cfg.n_images)
    return ds.batch(cfg.batch).prefetch(tf.data.AUTOTUNE)


def make_model(cfg: Config) -> keras.Model:
    inputs = keras.Input((cfg.side, cfg.side, 3), dtype="uint8")
    x = keras.layers.Rescaling(1.0 / 127.5, offset=-1.0)(inputs)
    for width in (24, 48, 96, 128):
        x = keras.layers.SeparableConv2D(width, 3, strides=2, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization()(x)
        x = keras.layers.Activation("relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    outputs = keras.layers.Dense(5, activation="softmax")(x)
    model = keras.Model(inputs, outputs, name="rust_grader")
    model.compile(optimizer=keras.optimizers.AdamW(cfg.lr),
                  loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main(cfg: Config = Config()) -> None:
    with tempfile.TemporaryDirectory() as tmp:
        names, grades = photograph(pathlib.Path(tmp), cfg)
        model = make_model(cfg)
        model.fit(pipeline(names, grades, cfg), epochs=cfg.epochs, verbose=2)


if __name__ == "__main__":
    main()
