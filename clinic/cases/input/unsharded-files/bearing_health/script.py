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
    for k in range(CLASSES):
        os.makedirs(f"{folder}/state_{k}")
    for i in range(len(x)):
        for axis, trace in zip(AXES, x[i]):
            with open(f"{folder}/state_{y[i]}/m{i:06d}_{axis}.f32", "wb") as f:
                f.write(trace.tobytes())


def dataset(folder):
    names, states = [], []
    for k in range(CLASSES):
        for name in sorted({entry[:7] for entry in os.listdir(f"{folder}/state_{k}")}):
            names.append(f"{folder}/state_{k}/{name}")
            states.append(k)
    order = np.random.default_rng(0).permutation(len(names))
    ds = tf.data.Dataset.from_tensor_slices((np.array(names)[order], np.array(states)[order]))

    def fetch(name, k):
        return tf.strings.join([tf.io.read_file(name + f"_{axis}.f32") for axis in AXES]), k

    ds = ds.map(fetch, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(BATCH, drop_remainder=True)

    def unpack(raw, k):
        x = tf.reshape(tf.io.decode_raw(raw, tf.float32), (BATCH, 3, SAMPLES))
        return tf.transpose(x, (0, 2, 1)), k

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
