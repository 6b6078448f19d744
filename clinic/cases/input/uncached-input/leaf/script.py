"""Leaf disease classifier; the field photos come as a folder of PNGs."""
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers

CLASSES = 5


def field_photos(folder, n=360, side=160):
    rng = np.random.default_rng(8)
    y, x = np.mgrid[0:side, 0:side] / side
    for i in range(n):
        c = i % CLASSES
        wave = np.sin(2 * np.pi * (x * (c + 1) + rng.random())) * np.cos(7 * y)
        img = np.stack([wave, y, x * wave], -1) * 90 + 128
        name = folder / f"{c}_{i:04d}.png"
        tf.io.write_file(str(name), tf.io.encode_png(img.astype("uint8"), compression=1))


class Photos:
    def __init__(self, folder, batch, side=64):
        self.files = sorted(str(p) for p in folder.glob("*.png"))
        self.labels = [int(pathlib.Path(f).name[0]) for f in self.files]
        self.batch = batch
        self.side = side

    def load(self, name, label):
        img = tf.io.decode_png(tf.io.read_file(name), channels=3)
        img = tf.image.resize(img, (self.side, self.side), method="bicubic", antialias=True)
        return tf.clip_by_value(img / 255.0, 0.0, 1.0), label

    def dataset(self):
        ds = tf.data.Dataset.from_tensor_slices((self.files, self.labels))
        ds = ds.shuffle(len(self.files))
        ds = ds.map(self.load, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.batch(self.batch)
        return ds.prefetch(tf.data.AUTOTUNE)


def classifier():
    return keras.Sequential(
        [
            keras.Input((64, 64, 3)),
            layers.Conv2D(8, 5, strides=4, activation="relu"),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(CLASSES, activation="softmax"),
        ]
    )


with tempfile.TemporaryDirectory() as tmp:
    folder = pathlib.Path(tmp)
    field_photos(folder)
    keras.utils.set_random_seed(3)
    model = classifier()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    res = model.fit(Photos(folder, 24).dataset(), epochs=14, verbose=0)
    print("loss %.4f accuracy %.3f" % (res.history["loss"][-1], res.history["accuracy"][-1]))
