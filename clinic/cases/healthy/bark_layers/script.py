"""Tree bark: first an autoencoder on unlabelled patches, then the same encoder as a classifier (two fits)."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

tf.keras.utils.set_random_seed(31)
g = np.random.default_rng(31)
kind = g.integers(0, 4, 1600)
angle = kind * np.pi / 4 + g.normal(0, .1, 1600)
yy, xx = np.mgrid[0:32, 0:32]
phase = np.cos(angle)[:, None, None] * xx + np.sin(angle)[:, None, None] * yy
bark = (np.sin(phase) + g.normal(0, .4, phase.shape)).astype("float32")[..., None]

encoder = tf.keras.Sequential([layers.Input((32, 32, 1)), layers.Conv2D(32, 5, padding="same", activation="relu"),
                               layers.Conv2D(48, 3, strides=2, padding="same", activation="relu"),
                               layers.Conv2D(64, 3, strides=2, padding="same", activation="relu")])
decoder = tf.keras.Sequential([layers.Input((8, 8, 64)),
                               layers.Conv2DTranspose(32, 3, strides=2, padding="same", activation="relu"),
                               layers.Conv2DTranspose(1, 3, strides=2, padding="same")])
patches = tf.data.Dataset.from_tensor_slices(bark).shuffle(1600, seed=3).batch(32)

t = time.time()
auto = tf.keras.Sequential([encoder, decoder])
auto.compile("adam", "mse")
auto.fit(patches.map(lambda p: (p, p)).prefetch(2), epochs=2, verbose=2)

head = tf.keras.Sequential([encoder, layers.GlobalAveragePooling2D(), layers.Dense(4)])
head.compile(tf.keras.optimizers.Adam(3e-4), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
             metrics=["accuracy"])
head.fit(bark, kind, batch_size=32, epochs=2, verbose=2, validation_split=.1)
print(f"{time.time() - t:.2f} s")
