"""Classify lichen species from field photographs that came through very different phone cameras."""
import argparse
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

CLASSES = 6
SIDE = 256


def make_photos(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    coarse = rng.integers(0, 160, (n, SIDE // 8, SIDE // 8, 3), dtype=np.uint8)
    photos = coarse.repeat(8, axis=1).repeat(8, axis=2)
    photos[..., 0] += (labels * 12).astype(np.uint8)[:, None, None]
    photos ^= rng.integers(0, 8, (SIDE, SIDE, 3), dtype=np.uint8)
    return photos, labels.astype(np.int32)


def camera_effects(photo, label):
    photo = tf.image.random_flip_left_right(photo)
    photo = tf.image.random_jpeg_quality(photo, 40, 95)
    photo = tf.image.central_crop(photo, 0.85)
    photo = tf.image.resize(photo, (48, 48)) / 255.0
    return photo, label


def training_data(photos, labels, batch):
    ds = tf.data.Dataset.from_tensor_slices((photos, labels))
    ds = ds.shuffle(len(photos))
    ds = ds.map(camera_effects)
    ds = ds.batch(batch, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def build():
    return keras.Sequential([
        layers.Input((48, 48, 3)),
        layers.Conv2D(12, 5, strides=4, padding="same", activation="relu"),
        layers.Conv2D(24, 3, strides=2, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(CLASSES),
    ])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--photos", type=int, default=320)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--epochs", type=int, default=14)
    args = p.parse_args()

    keras.utils.set_random_seed(3)
    photos, labels = make_photos(args.photos, 5)
    ds = training_data(photos, labels, args.batch)
    model = build()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    t0 = time.perf_counter()
    hist = model.fit(ds, epochs=args.epochs, verbose=0)
    spent = time.perf_counter() - t0
    print("accuracy", round(hist.history["accuracy"][-1], 3))
    print("WORK", args.epochs * (args.photos // args.batch) * args.batch)
    print("TRAIN_SECONDS", round(spent, 3))


if __name__ == "__main__":
    main()
