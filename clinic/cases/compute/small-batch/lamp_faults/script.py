import time

import numpy as np
from keras import Sequential, layers, utils

utils.set_random_seed(33)
rng = np.random.default_rng(33)
X = rng.normal(size=(12000, 40)).astype("float32")
w = rng.normal(size=40)
fault = (X @ w + 0.3 * rng.normal(size=12000) > 0).astype("float32")

net = Sequential([
    layers.Dense(64, activation="relu"),
    layers.Dropout(0.1),
    layers.Dense(64, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
net.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])

t = time.time()
net.fit(X, fault, batch_size=4, epochs=2, verbose=2)
print("training time", round(time.time() - t, 2))
