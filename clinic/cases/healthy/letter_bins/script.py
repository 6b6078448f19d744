"""Sorts letters into the bins of a sorting office by the features of their addresses."""
import time

import keras
import numpy as np
from keras import layers

BINS, FEATURES = 40, 256


def letters(n, seed=3):
    rng = np.random.default_rng(seed)
    towns = np.random.default_rng(2).normal(size=(BINS, FEATURES))
    town = rng.integers(0, BINS, n)
    return (0.25 * towns[town] + rng.normal(size=(n, FEATURES))).astype("float32"), town


inputs = keras.Input((FEATURES,))
x = layers.Dense(1024, activation="relu")(inputs)
x = layers.Dense(1024, activation="relu")(x)
x = layers.Dense(1024, activation="relu")(x)
model = keras.Model(inputs, layers.Dense(BINS, activation="softmax")(x))
model.compile(keras.optimizers.SGD(0.02), "sparse_categorical_crossentropy")

address, town = letters(25600)
start = time.time()
model.fit(address, town, batch_size=256, epochs=3, verbose=2)
print("WORK", 3 * len(address))
print("TRAIN_SECONDS %.3f" % (time.time() - start))
