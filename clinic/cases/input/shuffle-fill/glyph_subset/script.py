"""Handwritten glyph embedding: every pass trains on a fresh random subset of the scanned corpus."""
import os
import tempfile

import keras
import numpy as np
import tensorflow as tf

CORPUS = 6000
SUBSET = 800
CLASSES = 12


def scan_corpus(path):
    rng = np.random.default_rng(4)
    yy, xx = np.mgrid[:64, :64]
    with tf.io.TFRecordWriter(path) as w:
        for _ in range(CORPUS):
            c = int(rng.integers(0, CLASSES))
            stroke = np.sin((xx * np.cos(c) + yy * np.sin(c)) / 4 + rng.uniform(0, 6)) > 0.3
            img = (stroke * 180 + rng.integers(0, 60, stroke.shape)).astype("uint8")[..., None]
            w.write(tf.io.encode_png(img).numpy() + bytes([c]))


class Glyphs:
    def __init__(self, path, batch):
        self.path, self.batch = path, batch

    @staticmethod
    def decode(blob):
        n = tf.strings.length(blob)
        png, cls = tf.strings.substr(blob, 0, n - 1), tf.strings.substr(blob, n - 1, 1)
        img = tf.cast(tf.io.decode_png(png, 1), tf.float32) / 127.5 - 1.0
        img.set_shape((64, 64, 1))
        return img, tf.cast(tf.io.decode_raw(cls, tf.uint8)[0], tf.int32)

    def subset(self):
        ds = tf.data.TFRecordDataset(self.path)
        ds = ds.map(self.decode, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.shuffle(CORPUS).take(SUBSET)
        return ds.batch(self.batch).prefetch(tf.data.AUTOTUNE)


def encoder():
    x = i = keras.Input((64, 64, 1))
    for w in (8, 16, 24):
        x = keras.layers.Conv2D(w, 3, strides=2, activation="relu")(x)
    x = keras.layers.Flatten()(x)
    return keras.Model(i, keras.layers.Dense(CLASSES)(keras.layers.Dense(32, activation="relu")(x)))


def main():
    path = os.path.join(tempfile.mkdtemp(), "glyphs.rec")
    scan_corpus(path)
    model = encoder()
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(Glyphs(path, 32).subset(), epochs=12, verbose=2)


main()
