"""Parcel damage detector, training entry point."""
import argparse
import os
import random
import tempfile

import numpy as np
import tensorflow as tf


def set_determinism(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    tf.random.set_seed(seed)


def write_photos(folder: str, n: int) -> tuple[list[str], list[int]]:
    rng = np.random.default_rng(0)
    paths, labels = [], []
    for i in range(n):
        lab = i % 2
        small = rng.integers(60, 200, (48, 64, 3), dtype=np.uint8)
        img = small.repeat(10, 0).repeat(10, 1)
        if lab:
            img[200:260, 250:420] = 20
        p = os.path.join(folder, f"parcel_{i:05d}.jpg")
        tf.io.write_file(p, tf.io.encode_jpeg(img, quality=90))
        paths.append(p)
        labels.append(lab)
    return paths, labels


def load(path, label):
    img = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    img = tf.image.random_crop(img, (440, 600, 3))
    img = tf.image.resize(img, (192, 256))
    return tf.cast(img, tf.uint8), label


def loader(paths, labels, batch: int) -> tf.data.Dataset:
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    ds = ds.shuffle(len(paths))
    ds = ds.map(load, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(batch, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def detector() -> tf.keras.Model:
    i = tf.keras.Input((192, 256, 3), dtype="uint8")
    x = tf.keras.layers.Rescaling(1 / 255.0)(i)
    for f in (16, 32, 64, 64):
        x = tf.keras.layers.Conv2D(f, 3, strides=2, padding="same", activation="relu")(x)
    x = tf.keras.layers.GlobalAveragePooling2D()(x)
    return tf.keras.Model(i, tf.keras.layers.Dense(1)(x))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--photos", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()

    set_determinism(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        paths, labels = write_photos(folder, args.photos)
        model = detector()
        model.compile(
            optimizer=tf.keras.optimizers.Adam(1e-3),
            loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
            metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0)],
        )
        model.fit(loader(paths, labels, args.batch), epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()
