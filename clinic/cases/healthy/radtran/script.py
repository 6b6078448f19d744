"""Emulator of a column radiative-transfer scheme: 60-level profiles in, heating rates out."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

LEVELS = 60
BATCH = 1024
EPOCHS = 4
BATCHES_PER_FILE = 4
FILES = 4


def profile_files(seed):
    """Plays the part of the archive's reader: one array pair per 'file'."""
    rng = np.random.default_rng(seed)
    files = []
    p = np.linspace(1, 0.01, LEVELS)
    for _ in range(FILES):
        n = BATCH * BATCHES_PER_FILE
        temp = 220 + 75 * p + rng.normal(0, 3, (n, 1)) + rng.normal(0, 1, (n, LEVELS))
        vapour = np.exp(-4 * (1 - p)) * rng.lognormal(0, 0.4, (n, 1))
        cloud = np.maximum(0, rng.normal(-0.4, 0.5, (n, LEVELS)))
        tau = np.cumsum(vapour + cloud, axis=1) / LEVELS
        rate = np.gradient((temp / 255) ** 4 * np.exp(-tau), axis=1) * 20
        x = np.concatenate([(temp - 260) / 30, vapour, cloud], axis=1).astype("float32")
        files.append((x, rate.astype("float32")))
    return files


def batches(files):
    for x, y in files:
        for start in range(0, len(x), BATCH):
            yield x[start:start + BATCH], y[start:start + BATCH]


def dataset(files):
    spec = (tf.TensorSpec((BATCH, 3 * LEVELS), tf.float32), tf.TensorSpec((BATCH, LEVELS), tf.float32))
    return tf.data.Dataset.from_generator(lambda: batches(files), output_signature=spec).prefetch(2)


def emulator():
    inp = keras.Input((3 * LEVELS,))
    h = layers.Dense(1024, activation="relu")(inp)
    for _ in range(3):
        h = layers.Dense(1024, activation="relu")(h)
    return keras.Model(inp, layers.Dense(LEVELS)(h))


def main():
    keras.utils.set_random_seed(12)
    files = profile_files(12)
    model = emulator()
    model.compile(optimizer=keras.optimizers.SGD(0.02, momentum=0.9), loss="mse")
    t0 = time.perf_counter()
    history = model.fit(dataset(files), epochs=EPOCHS, verbose=2)
    seconds = time.perf_counter() - t0
    print("heating-rate RMSE", np.sqrt(history.history["loss"][-1]))
    print("WORK", EPOCHS * FILES * BATCHES_PER_FILE * BATCH)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
