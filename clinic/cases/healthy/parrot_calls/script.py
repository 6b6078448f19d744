"""Parrot calls made on the fly by a Python generator, heard by a two-layer GRU."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(4)
T = np.arange(48)[None, :, None]


def calls(seed=4):
    g = np.random.default_rng(seed)
    while True:
        bird = g.integers(0, 4, 32)
        pitch = 1 + bird[:, None, None] + g.normal(0, .2, (32, 1, 1))
        x = np.sin(T * pitch / 6 + np.arange(12) / 3) + g.normal(0, .3, (32, 48, 12))
        yield x.astype("float32"), bird.astype("int32")


spec = (tf.TensorSpec((32, 48, 12)), tf.TensorSpec((32,), tf.int32))
flock = tf.data.Dataset.from_generator(calls, output_signature=spec).prefetch(tf.data.AUTOTUNE)
model = tf.keras.Sequential([
    tf.keras.Input((48, 12)),
    tf.keras.layers.GRU(64, return_sequences=True), tf.keras.layers.GRU(64),
    tf.keras.layers.Dense(4, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(flock, steps_per_epoch=45, epochs=2, verbose=2)
print(f"heard in {time.time() - t0:.2f} s")
