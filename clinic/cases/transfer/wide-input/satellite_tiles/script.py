"""Land use from satellite tiles; the pixels become float32 on the host."""
import os
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
COUNT, SIDE, BATCH, EPOCHS = (128, 64, 16, 6) if SMALL else (1280, 224, 128, 25)

rng = np.random.default_rng(0)
tiles = rng.integers(0, 256, (COUNT, SIDE, SIDE, 3), dtype=np.uint8)
use = rng.integers(0, 6, COUNT)


def scale(tile, label):
    return tf.cast(tile, tf.float32) / 255.0, label


train = tf.data.Dataset.from_tensor_slices((tiles, use)).batch(BATCH)
train = train.map(scale, num_parallel_calls=tf.data.AUTOTUNE)
train = train.cache().prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    layers.Input((SIDE, SIDE, 3)),
    layers.Conv2D(24, 7, strides=4, activation="relu"),
    layers.Conv2D(48, 3, strides=2, activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(6),
])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(train, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(train, epochs=EPOCHS, verbose=2)
print("WORK", EPOCHS * COUNT)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
