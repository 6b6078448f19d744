"""Reaction energies; the descriptors come from a quantum-chemistry code."""
import time
import numpy as np
import tensorflow as tf

tf.keras.backend.set_floatx("float64")

descriptors = np.random.rand(6000, 400)
energy = np.random.rand(6000, 1)

model = tf.keras.Sequential([
    tf.keras.layers.Input((400,)),
    tf.keras.layers.Dense(512, activation="relu"),
    tf.keras.layers.Dense(512, activation="relu"),
    tf.keras.layers.Dense(1),
])
model.compile("sgd", "mse")
model.fit(descriptors, energy, batch_size=100, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(descriptors, energy, batch_size=100, epochs=9, initial_epoch=1, verbose=2)
print("WORK", 8 * len(descriptors))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
