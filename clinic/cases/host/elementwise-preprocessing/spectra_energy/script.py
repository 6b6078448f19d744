"""Predict material class from spectra; the total energy of each spectrum is an extra feature."""
import time
import numpy as np
import tensorflow as tf


def total_energy(data):
    out = []
    for element in data:
        out.append(np.sum(element ** 2))
    return np.array(out)


data = np.random.rand(1_200_000, 20).astype("float32")
label = (data[:, 0] > 0.5).astype("float32")

start = time.time()
energy = total_energy(data).astype("float32")
features = np.concatenate([data, energy[:, None]], axis=1)

model = tf.keras.Sequential([
    tf.keras.layers.Input((21,)),
    tf.keras.layers.Dense(16, activation="relu"),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer="adam", loss="binary_crossentropy")
model.fit(features, label, batch_size=8192, epochs=1, verbose=2)
print("WORK", len(data))
print("TRAIN_SECONDS %.3f" % (time.time() - start))
