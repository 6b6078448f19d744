import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

N_EVENTS = 1400
N_SAMPLES = 1500
EPOCHS = 32
BATCH = 32
CLASSES = ["noise", "local", "teleseism"]


def write_bulletin(path, seed=11):
    """One event a line: class, then the counts of the vertical component, as the observatory exports them."""
    rng = np.random.default_rng(seed)
    t = np.arange(N_SAMPLES) / 100.0
    with open(path, "w") as f:
        for _ in range(N_EVENTS):
            c = int(rng.integers(len(CLASSES)))
            trace = rng.normal(0, 40, N_SAMPLES)
            if c:
                onset = rng.uniform(2, 8)
                f0 = 6.0 if c == 1 else 0.9
                env = np.where(t > onset, np.exp(-(t - onset) / (1.5 * c)), 0)
                trace += 900 * env * np.sin(2 * np.pi * f0 * (t - onset))
            f.write(str(c) + " " + " ".join(map(str, trace.astype(int).tolist())) + "\n")


def parse_line(line):
    fields = tf.strings.split(line, " ")
    values = tf.strings.to_number(fields, tf.float32)
    label = tf.cast(values[0], tf.int32)
    trace = tf.ensure_shape(values[1:], (N_SAMPLES,))
    trace -= tf.reduce_mean(trace)
    trace /= tf.math.reduce_std(trace) + 1e-6
    return trace[:, tf.newaxis], label


def load(path, skip=0, take=-1, training=True):
    ds = tf.data.TextLineDataset(path).skip(skip).take(take)
    ds = ds.map(parse_line, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(256, seed=1)
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


def picker():
    return keras.Sequential([
        layers.Input((N_SAMPLES, 1)),
        layers.Conv1D(8, 15, strides=5, activation="relu"),
        layers.Conv1D(16, 9, strides=3, activation="relu"),
        layers.Conv1D(32, 7, strides=3, activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(len(CLASSES)),
    ])


if __name__ == "__main__":
    keras.utils.set_random_seed(2)
    with tempfile.TemporaryDirectory() as folder:
        bulletin = os.path.join(folder, "bulletin_2019.txt")
        write_bulletin(bulletin)
        n_val = 120
        train = load(bulletin, skip=n_val)
        val = load(bulletin, take=n_val, training=False)

        model = picker()
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=["accuracy"])
        t0 = time.perf_counter()
        model.fit(train, epochs=EPOCHS, verbose=2)
        seconds = time.perf_counter() - t0
        print(dict(zip(("loss", "accuracy"), model.evaluate(val, verbose=0))))
    print(f"WORK {EPOCHS * (N_EVENTS - n_val)}")
    print(f"TRAIN_SECONDS {seconds:.3f}")
