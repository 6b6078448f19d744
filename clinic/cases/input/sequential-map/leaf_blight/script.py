"""Leaf blight grading: a small separable CNN on field photographs."""
import argparse
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras


def write_photos(root, n, side, rng):
    paths, grades = [], []
    yy, xx = np.mgrid[0:side, 0:side] / side
    for i in range(n):
        grade = int(rng.integers(0, 4))
        base = np.stack([0.2 + 0.1 * grade * np.sin(9 * xx), 0.5 + 0.2 * yy, 0.2 + 0 * xx], -1)
        img = np.clip(base + rng.normal(0, 0.05, base.shape), 0, 1)
        p = os.path.join(root, f"plot_{i:04d}.jpg")
        tf.io.write_file(p, tf.io.encode_jpeg((img * 255).astype("uint8"), quality=90))
        paths.append(p)
        grades.append(grade)
    return paths, grades


class Reader:
    def __init__(self, size, workers):
        self.size = size
        self.workers = workers

    def _load(self, path, grade):
        img = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
        img = tf.image.resize(img, (self.size, self.size), method="area")
        return img / 255.0, grade

    def stream(self, paths, grades, batch, train):
        ds = tf.data.Dataset.from_tensor_slices((paths, grades))
        if train:
            ds = ds.shuffle(len(paths)).repeat()
        ds = ds.map(self._load, num_parallel_calls=self.workers)
        return ds.batch(batch).prefetch(2)


def build(size):
    x = inp = keras.Input((size, size, 3))
    for f in (8, 16, 32):
        x = keras.layers.SeparableConv2D(f, 3, strides=2, padding="same", activation="relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, keras.layers.Dense(4)(x))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--photos", type=int, default=240)
    ap.add_argument("--size", type=int, default=48)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--steps", type=int, default=210)
    ap.add_argument("--workers", type=int, default=1)
    args = ap.parse_args()
    rng = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as root:
        paths, grades = write_photos(root, args.photos, 360, rng)
        reader = Reader(args.size, args.workers)
        train = reader.stream(paths, grades, args.batch, True)
        model = build(args.size)
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        h = model.fit(train, epochs=3, steps_per_epoch=args.steps // 3, verbose=2)
        print("final loss", h.history["loss"][-1])


if __name__ == "__main__":
    main()
