"""Coral condition from reef photographs."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(1)
CODES = {"A": 0, "B": 1, "C": 2}
rng = np.random.default_rng(1)
PHOTOS = rng.integers(0, 255, (480, 64, 64, 3)).astype("uint8")
TAGS = np.array(["ABC"[i % 3] + "-%03d" % i for i in range(480)])


def lookup(tags):
    return np.array([CODES[t.decode()[0]] for t in tags], "int32")


def prepare(photo, tag):
    code = tf.numpy_function(lookup, [tag], tf.int32)
    code.set_shape([None])
    return tf.cast(photo, tf.float32) / 255.0, code


reef = (tf.data.Dataset.from_tensor_slices((PHOTOS, TAGS)).shuffle(480, seed=1)
        .batch(16, drop_remainder=True).map(prepare, num_parallel_calls=2).prefetch(2))
model = keras.Sequential([
    layers.Conv2D(32, 3, padding="same", activation="relu"),
    layers.Conv2D(48, 3, padding="same", strides=2, activation="relu"),
    layers.Conv2D(64, 3, padding="same", strides=2, activation="relu"),
    layers.GlobalAveragePooling2D(), layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(reef, epochs=6, verbose=2)
