"""Leaf pictures, decoded and flipped one after the other before each batch."""
import os
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
PICTURES, SIDE, BATCH, EPOCHS = (320, 96, 16, 3) if SMALL else (1280, 256, 32, 3)

rng = np.random.default_rng(15)
coarse = rng.integers(0, 256, (32, 16, 16, 3))
smooth = tf.cast(tf.image.resize(coarse, (SIDE, SIDE)), tf.uint8)
files = [tf.io.encode_jpeg(picture).numpy() for picture in smooth] * (PICTURES // 32)
species = rng.integers(0, 20, PICTURES)


def load(data, label):
    picture = tf.io.decode_jpeg(data, channels=3)
    picture = tf.image.random_flip_left_right(picture)
    picture = tf.image.resize(picture, (SIDE // 2, SIDE // 2))
    return tf.cast(picture, tf.uint8), label


train = tf.data.Dataset.from_tensor_slices((files, species)).shuffle(PICTURES)
train = train.map(load)
train = train.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    layers.Input((SIDE // 2, SIDE // 2, 3), dtype="uint8"),
    layers.Rescaling(1 / 255.0),
    layers.Conv2D(32, 3, strides=2, activation="relu"),
    layers.Conv2D(64, 3, strides=2, activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(20),
])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(train, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(train, epochs=EPOCHS, verbose=2)
print("WORK", EPOCHS * PICTURES)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
