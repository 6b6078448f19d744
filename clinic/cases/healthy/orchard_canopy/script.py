"""How much of an orchard's ground its canopy covers, from the air."""
import time

import keras
import numpy as np
from keras import layers

SIDE = 64


def aerial(n, seed=9):
    rng = np.random.default_rng(seed)
    density = rng.uniform(0.1, 0.9, n)
    trees = (rng.uniform(size=(n, 16, 16)) < density[:, None, None]).astype("float32")
    ground = trees.repeat(4, 1).repeat(4, 2)[..., None] * np.array([0.2, 0.7, 0.3])
    light = rng.uniform(0.4, 1.6, (n, 1, 1, 1))
    cover = trees.mean((1, 2)) * 10
    return (light * ground + rng.normal(0, 0.1, (n, SIDE, SIDE, 3))).astype("float32"), cover


inputs = keras.Input((SIDE, SIDE, 3))
x = inputs
for filters in (16, 24, 32):
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = layers.AveragePooling2D(2)(x)
x = layers.GlobalAveragePooling2D()(x)
x = layers.Dense(64, activation="relu")(x)
model = keras.Model(inputs, layers.Dense(1)(x))
model.compile(keras.optimizers.Adam(1e-3), "mse")

pictures, cover = aerial(3200)
start = time.time()
model.fit(pictures, cover, batch_size=32, epochs=4, verbose=2)
print("WORK", 4 * len(pictures))
print("TRAIN_SECONDS %.3f" % (time.time() - start))
