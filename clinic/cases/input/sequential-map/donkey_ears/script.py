"""Donkey or mule, from photographs of the ears: JPEG files, random windows out of them, small conv net."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(3)
SIDE, WINDOW, FILES, ROUNDS, BATCH = 1300, 1100, 54, 36, 12


def shoot(folder):
    rng = np.random.default_rng(3)
    paths, kinds = [], []
    for i in range(FILES):
        kind = i % 2
        rough = rng.random((6 + 10 * kind, 6 + 10 * kind, 3)).astype("float32")
        picture = tf.image.resize(rough, (SIDE, SIDE), "nearest") * 255
        path = os.path.join(folder, "mule_%03d.jpg" % i if kind else "donkey_%03d.jpg" % i)
        tf.io.write_file(path, tf.io.encode_jpeg(tf.cast(picture, tf.uint8)))
        paths.append(path)
        kinds.append(kind)
    return paths, kinds


def window(path, kind):
    corner = tf.random.uniform([2], 0, SIDE - WINDOW, dtype=tf.int32)
    box = tf.concat([corner, [WINDOW, WINDOW]], 0)
    photo = tf.image.decode_and_crop_jpeg(tf.io.read_file(path), box, channels=3)
    photo = tf.image.resize(photo, (56, 56), antialias=True)
    return tf.ensure_shape(photo, (56, 56, 3)) / 255.0, kind


def net():
    return keras.Sequential([
        keras.Input((56, 56, 3)),
        keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ])


with tempfile.TemporaryDirectory() as folder:
    paths, kinds = shoot(folder)
    ds = tf.data.Dataset.from_tensor_slices((paths, kinds))
    ds = ds.shuffle(FILES, seed=5).repeat(ROUNDS)
    ds = ds.map(window)
    ds = ds.batch(BATCH)
    ds = ds.prefetch(tf.data.AUTOTUNE)
    model = net()
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    model.fit(ds, epochs=1, verbose=2)
    print("WORK", FILES * ROUNDS)
    print("TRAIN_SECONDS %.3f" % (time.time() - t0))
