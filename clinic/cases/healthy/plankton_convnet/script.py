"""Plankton pictures as bytes, shuffled and batched ahead; a convnet in bfloat16 that keeps the card busy."""
import os
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
SIDE, WIDTH, BATCH, EPOCHS = (24, 8, 16, 3) if SMALL else (96, 128, 128, 12)
tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")

rng = np.random.default_rng(22)
pictures = rng.integers(0, 256, (12 * BATCH, SIDE, SIDE, 3), dtype=np.uint8)
kind = rng.integers(0, 16, 12 * BATCH)


def flip(picture, label):
    return tf.image.random_flip_left_right(picture), label


data = tf.data.Dataset.from_tensor_slices((pictures, kind)).shuffle(12 * BATCH)
data = data.map(flip, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH, drop_remainder=True)
data = data.prefetch(tf.data.AUTOTUNE)

inputs = tf.keras.Input((SIDE, SIDE, 3), dtype="uint8")
x = layers.Rescaling(1 / 255.0)(inputs)
for width in (WIDTH, 2 * WIDTH, 4 * WIDTH):
    x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D()(x)
outputs = layers.Dense(16, dtype="float32")(layers.GlobalAveragePooling2D()(x))
model = tf.keras.Model(inputs, outputs)
model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(data, epochs=EPOCHS, verbose=2)
print("WORK", EPOCHS * len(pictures))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
