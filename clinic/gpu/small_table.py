"""A small table, a small model."""
import numpy as np
import keras

rng = np.random.default_rng(0)
x = rng.random((6400, 12), dtype="float32")
y = x @ rng.random((12, 1))
model = keras.Sequential([keras.layers.Input((12,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, batch_size=16, epochs=10, verbose=2)
