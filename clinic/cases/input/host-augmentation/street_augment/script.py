"""Street pictures whose colours are changed by the processor, on all its cores."""
import os
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
PICTURES, SIDE, BATCH, EPOCHS = (192, 64, 16, 4) if SMALL else (1280, 224, 64, 5)

rng = np.random.default_rng(16)
pictures = rng.integers(0, 256, (PICTURES, SIDE, SIDE, 3), dtype=np.uint8)
scene = rng.integers(0, 8, PICTURES)


def change(picture, label):
    picture = tf.image.random_hue(picture, 0.1)
    picture = tf.image.random_saturation(picture, 0.7, 1.3)
    picture = tf.image.random_contrast(picture, 0.8, 1.2)
    return picture, label


train = tf.data.Dataset.from_tensor_slices((pictures, scene)).shuffle(PICTURES)
train = train.map(change, num_parallel_calls=tf.data.AUTOTUNE)
train = train.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    layers.Input((SIDE, SIDE, 3), dtype="uint8"),
    layers.Rescaling(1 / 255.0),
    layers.Conv2D(32, 5, strides=4, activation="relu"),
    layers.Conv2D(64, 3, strides=2, activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(8),
])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(train, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(train, epochs=EPOCHS, verbose=2)
print("WORK", EPOCHS * PICTURES)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
