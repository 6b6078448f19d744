"""Rind photographs of ageing cheese to one of six ripeness stages."""
import time

import keras
import numpy as np
from keras import layers

STAGES, SIDE = 6, 48


def rinds(n, seed=17):
    rng = np.random.default_rng(seed)
    stage = rng.integers(0, STAGES, n)
    coarse = rng.normal(size=(n, 12, 12, 3)).repeat(4, 1).repeat(4, 2)
    fine = rng.normal(size=(n, SIDE, SIDE, 3))
    share = (stage / (STAGES - 1))[:, None, None, None]
    return (share * coarse + (1 - share) * fine).astype("float32"), stage


def block(x, filters):
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return layers.MaxPooling2D()(x)


inputs = keras.Input((SIDE, SIDE, 3))
x = block(inputs, 24)
x = block(x, 48)
x = block(x, 64)
x = layers.Flatten()(x)
x = layers.Dense(128, activation="relu")(x)
model = keras.Model(inputs, layers.Dense(STAGES, activation="softmax")(x))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

images, stage = rinds(3520)
start = time.time()
model.fit(images, stage, batch_size=32, epochs=1, verbose=2)
print("WORK", len(images))
print("TRAIN_SECONDS %.3f" % (time.time() - start))
