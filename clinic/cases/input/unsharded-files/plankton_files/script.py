"""Plankton classifier; the camera writes one small raw file per organism."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

SIDE, COUNT, BATCH = 24, 4000, 250
base = os.path.join(tempfile.gettempdir(), "plankton_%d" % COUNT)
os.makedirs(base, exist_ok=True)
rng = np.random.default_rng(4)
for i in range(COUNT):
    f = os.path.join(base, "%05d_%d.raw" % (i, i % 7))
    if not os.path.exists(f):
        with open(f, "wb") as out:
            out.write(rng.integers(0, 255, SIDE * SIDE, dtype="uint8").tobytes())


def parse(raw, label):
    image = tf.reshape(tf.io.decode_raw(raw, tf.uint8), (-1, SIDE, SIDE, 1))
    return tf.cast(image, tf.float32) / 255.0, label


def dataset():
    files = sorted(tf.io.gfile.glob(os.path.join(base, "*.raw")))
    labels = [int(f[-5]) for f in files]
    ds = tf.data.Dataset.from_tensor_slices((files, labels))
    ds = ds.map(lambda f, y: (tf.io.read_file(f), y), num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(BATCH, drop_remainder=True).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


model = tf.keras.Sequential([
    tf.keras.layers.Input((SIDE, SIDE, 1)),
    tf.keras.layers.Conv2D(8, 3, strides=3, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(7, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
train = dataset()
model.fit(train, epochs=1, verbose=2)
start = time.perf_counter()
model.fit(train, epochs=36, initial_epoch=1, verbose=2)
print("WORK %d" % (35 * COUNT))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))
