"""Mosaic tiles scratched by a NumPy routine inside py_function, then a wide convnet."""
import time

import numpy as np
import tensorflow as tf

gen = np.random.default_rng(23)


def scratch(tiles):
    tiles = tiles.numpy().copy()
    rows = gen.integers(0, 40, len(tiles))
    tiles[np.arange(len(tiles)), rows] = 255
    return tiles


def scratched(tiles, kind):
    out = tf.py_function(scratch, [tiles], tf.uint8)
    return tf.ensure_shape(out, (None, 40, 40, 3)), kind


kind = gen.integers(0, 3, 960)
tiles = (gen.integers(0, 90, (960, 40, 40, 3)) + kind[:, None, None, None] * 70).astype("uint8")
data = (tf.data.Dataset.from_tensor_slices((tiles, kind)).shuffle(960, seed=1).batch(16)
        .map(scratched, num_parallel_calls=2).prefetch(4))
tf.keras.utils.set_random_seed(23)
i = tf.keras.Input((40, 40, 3))
h = tf.keras.layers.Rescaling(1 / 255)(i)
for f in (32, 48):
    h = tf.keras.layers.Conv2D(f, 3, activation="relu", padding="same")(h)
    h = tf.keras.layers.Conv2D(f, 3, activation="relu", strides=2, padding="same")(h)
net = tf.keras.Model(i, tf.keras.layers.Dense(3, activation="softmax")(tf.keras.layers.Flatten()(h)))
net.compile("sgd", "sparse_categorical_crossentropy")
t = time.time()
net.fit(data, epochs=2, verbose=2)
print(f"{time.time() - t:.2f} s")
