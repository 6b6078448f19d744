"""Bearing fault classes from short vibration snippets on three axes, one measurement and axis a
file, as the logger writes them."""
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras import Sequential, layers

SAMPLES, CLASSES, BATCH = 256, 5, 128
AXES = "xyz"


def measurements(n=8_000):
    rng = np.random.default_rng(9)
    y = rng.integers(0, CLASSES, n)
    t = np.arange(SAMPLES) / SAMPLES
    wave = np.sin(2 * np.pi * (8 + 6 * y)[:, None] * t + rng.uniform(0, 6, (n, 1)))
    x = wave[:, None] * rng.uniform(0.2, 1, (n, 3, 1)) + rng.normal(0, 0.7, (n, 3, SAMPLES))
    return x.astype("<f4"), y


def record(folder):
    x, y = measurements()
    order = np.random.default_rng(0).permutation(len(x))
    for s, part in enumerate(np.array_split(order, 4)):
        with tf.io.TFRecordWriter(f"{folder}/part{s}.tfrecord") as out:
            for i in part:
                out.write(bytes([y[i]]) + x[i].tobytes())


def dataset(folder):
    names = sorted(f"{folder}/{name}" for name in os.listdir(folder))
    ds = tf.data.TFRecordDataset(names, num_parallel_reads=4)
    ds = ds.batch(BATCH, drop_remainder=True)

    def unpack(raw):
        k = tf.reshape(tf.io.decode_raw(tf.strings.substr(raw, 0, 1), tf.uint8), (BATCH,))
        raw = tf.strings.substr(raw, 1, 3 * SAMPLES * 4)
        x = tf.reshape(tf.io.decode_raw(raw, tf.float32), (BATCH, 3, SAMPLES))
        return tf.transpose(x, (0, 2, 1)), tf.cast(k, tf.int64)

    return ds.map(unpack, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


with tempfile.TemporaryDirectory() as folder:
    record(folder)
    model = Sequential([layers.Input((SAMPLES, 3)),
                        layers.Conv1D(8, 16, strides=8, activation="relu"),
                        layers.Conv1D(16, 4, strides=2, activation="relu"),
                        layers.GlobalAveragePooling1D(),
                        layers.Dense(CLASSES)])
    model.compile(optimizer="adam",
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    model.fit(dataset(folder), epochs=6, verbose=2)
