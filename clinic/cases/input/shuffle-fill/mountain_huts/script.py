"""Occupancy of mountain huts from webcam thumbnails. Short epochs, so that the curve can be watched."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIDE = 32
POOL = 12_000
BATCH = 48
STEPS = 25
EPOCHS = 7

rng = np.random.default_rng(77)
base = rng.integers(0, 255, (POOL, SIDE, SIDE, 3), dtype=np.uint8)
guests = rng.integers(0, 5, POOL).astype("int32")
for k in range(5):
    base[guests == k, 4 * k:4 * k + 6, 8:24] //= 3


def develop(image, label):
    image = tf.cast(image, tf.float32) / 255.0
    image = tf.image.resize(image, (64, 64))
    image = tf.image.adjust_contrast(image, 1.3)
    return tf.image.per_image_standardization(image), label


thumbs = tf.data.Dataset.from_tensor_slices((base, guests))
thumbs = thumbs.map(develop, num_parallel_calls=tf.data.AUTOTUNE)
thumbs = thumbs.shuffle(8000, seed=7)
thumbs = thumbs.batch(BATCH).take(STEPS).prefetch(tf.data.AUTOTUNE)


def hut_net():
    inp = keras.Input((64, 64, 3))
    x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(inp)
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv2D(48, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(5)(x))


model = hut_net()
model.compile(
    optimizer="adam",
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(thumbs, epochs=EPOCHS, verbose=2)
