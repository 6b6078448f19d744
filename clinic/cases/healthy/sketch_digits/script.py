"""A first try: does the model learn anything from a handful of sketched digits?"""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(6)
rng = np.random.default_rng(6)

sketches = rng.random((96, 16, 16, 1)).astype("float32")
digit = rng.integers(0, 10, 96)

model = keras.Sequential([
    keras.Input((16, 16, 1)),
    layers.Flatten(),
    layers.Dense(64, activation="relu"),
    layers.Dense(10, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(sketches, digit, batch_size=32, epochs=2, verbose=2)
