"""Grades of saffron from the spectrum of its threads."""
import time
import numpy as np
import keras

keras.utils.set_random_seed(6)
rng = np.random.default_rng(6)
spectra = rng.normal(size=(5, 64))
grade = rng.integers(0, 5, 12_000)
threads = (spectra[grade] + 2.5 * rng.normal(size=(12_000, 64))).astype("float32")

model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(5),
])
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=2e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
t0 = time.time()
model.fit(threads, grade, batch_size=128, epochs=20, verbose=2)
print("WORK", 20 * len(threads))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
