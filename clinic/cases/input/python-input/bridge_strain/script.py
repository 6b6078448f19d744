"""Cracked girders from strain gauges: the logger of the bridge saves each crossing of a test lorry as an NPZ file."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SAMPLES, GAUGES, CROSSINGS, BATCH, EPOCHS = 200, 6, 1600, 32, 8


def log_crossings(folder):
    rng = np.random.default_rng(21)
    t = np.linspace(0, 1, SAMPLES)[:, None]
    for number in range(CROSSINGS):
        cracked = rng.integers(0, 2)
        shape = np.exp(-((t - rng.uniform(0.3, 0.7)) ** 2) / (0.02 + 0.01 * cracked))
        strain = shape * rng.uniform(0.8, 1.2, GAUGES) + rng.normal(0, 0.2, (SAMPLES, GAUGES))
        np.savez(
            f"{folder}/crossing_{number:05d}.npz",
            strain=strain.astype("float32"), speed=np.float32(rng.uniform(10, 80)), cracked=np.int64(cracked),
        )


def crossings(folder):
    files = sorted(os.path.join(folder, name) for name in os.listdir(folder))

    def read():
        for file in files:
            with np.load(file) as crossing:
                yield crossing["strain"] * (crossing["speed"] / 50.0), crossing["cracked"]

    signature = (tf.TensorSpec((SAMPLES, GAUGES), tf.float32), tf.TensorSpec((), tf.int64))
    data = tf.data.Dataset.from_generator(read, output_signature=signature)
    return data.shuffle(400, seed=5).batch(BATCH).prefetch(tf.data.AUTOTUNE)


with tempfile.TemporaryDirectory() as folder:
    log_crossings(folder)
    data = crossings(folder)
    model = tf.keras.Sequential([
        layers.Input((SAMPLES, GAUGES)),
        layers.Conv1D(16, 9, strides=4, activation="relu"),
        layers.Conv1D(32, 5, strides=2, activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(2),
    ])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(data, epochs=1, verbose=2)
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS, verbose=2)
    print("WORK", EPOCHS * CROSSINGS)
    print(f"TRAIN_SECONDS {time.perf_counter() - start:.3f}")
