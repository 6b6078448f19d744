"""Rain-type classifier on weather radar patches; every epoch sees a random part of the archive."""
import os
import shutil
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIDE = 64
RECORD = SIDE * SIDE + 1          # the patch, then one byte of class
ARCHIVE = 12000
BATCH = 64
PATCHES_PER_EPOCH = 40 * BATCH
EPOCHS = 6


def write_archive(path, rng):
    patterns = rng.gamma(1.5, 25.0, (200, SIDE, SIDE))
    patterns[100:] = (patterns[100:] + np.roll(patterns[100:], 1, 1) + np.roll(patterns[100:], 1, 2)) / 3
    patterns = np.clip(patterns, 0, 255).astype("uint8").reshape(200, -1)
    pick = rng.integers(0, 200, ARCHIVE)
    rows = np.empty((ARCHIVE, RECORD), "uint8")
    rows[:, :-1] = patterns[pick]
    rows[:, -1] = pick >= 100
    rows.tofile(path)


def decode(record):
    raw = tf.io.decode_raw(record, tf.uint8)
    patch = tf.cast(tf.reshape(raw[:-1], (SIDE, SIDE, 1)), tf.float32) / 255.0
    return patch, tf.cast(raw[-1], tf.float32)


def speckle(patch, label):
    patch = patch * tf.exp(0.15 * tf.random.normal((SIDE, SIDE, 1)))
    patch = tf.math.log1p(20.0 * patch)
    patch = tf.image.random_flip_left_right(patch)
    patch = tf.image.random_flip_up_down(patch)
    return patch, label


def training_set(path):
    return (tf.data.FixedLengthRecordDataset(path, RECORD)
            .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
            .map(speckle, num_parallel_calls=tf.data.AUTOTUNE)
            .shuffle(ARCHIVE)
            .take(PATCHES_PER_EPOCH)
            .batch(BATCH, drop_remainder=True)
            .prefetch(tf.data.AUTOTUNE))


class RainNet(keras.Model):
    def __init__(self, width=8):
        super().__init__()
        self.convs = [layers.Conv2D(width * 2 ** i, 3, strides=2, padding="same", activation="relu")
                      for i in range(3)]
        self.pool = layers.GlobalAveragePooling2D()
        self.head = layers.Dense(1)

    def call(self, x, training=False):
        for conv in self.convs:
            x = conv(x)
        return self.head(self.pool(x))


def main():
    keras.utils.set_random_seed(17)
    folder = tempfile.mkdtemp(prefix="radar_")
    try:
        path = os.path.join(folder, "archive.bin")
        write_archive(path, np.random.default_rng(17))
        net = RainNet()
        net.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True),
                    metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)])
        t0 = time.perf_counter()
        net.fit(training_set(path), epochs=EPOCHS, verbose=2)
        t1 = time.perf_counter()
    finally:
        shutil.rmtree(folder)
    print("WORK %d" % (EPOCHS * PATCHES_PER_EPOCH))
    print("TRAIN_SECONDS %.3f" % (t1 - t0))


main()
