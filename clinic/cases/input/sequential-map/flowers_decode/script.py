"""Small flower classifier trained from a folder of JPEG photos."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

FOLDER = os.path.join(tempfile.gettempdir(), "flowers_jpg")
N, BATCH, EPOCHS = 320, 16, 19


def make_photos():
    os.makedirs(FOLDER, exist_ok=True)
    rng = np.random.default_rng(3)
    paths = [os.path.join(FOLDER, f"{i:04d}.jpg") for i in range(N)]
    for p in paths:
        if not os.path.exists(p):
            small = rng.integers(0, 255, (24, 24, 3)).astype("float32")
            big = tf.image.resize(small, (360, 360))
            tf.io.write_file(p, tf.io.encode_jpeg(tf.cast(big, tf.uint8)))
    return paths, rng.integers(0, 5, N)


def load(path, label):
    img = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    img = tf.image.random_crop(img, (300, 300, 3))
    img = tf.image.random_flip_left_right(img)
    img = tf.image.resize(img, (96, 96)) / 255.0
    return img, label


paths, labels = make_photos()
ds = tf.data.Dataset.from_tensor_slices((paths, labels))
ds = ds.shuffle(N, seed=1)
ds = ds.map(load)
ds = ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential([
    keras.layers.Input((96, 96, 3)),
    keras.layers.Conv2D(8, 3, strides=4, activation="relu"),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(5, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

model.fit(ds, epochs=1, verbose=2)
start = time.perf_counter()
model.fit(ds, epochs=EPOCHS, initial_epoch=1, verbose=2)
seconds = time.perf_counter() - start
print("WORK %d" % (N * (EPOCHS - 1)))
print("TRAIN_SECONDS %.3f" % seconds)
