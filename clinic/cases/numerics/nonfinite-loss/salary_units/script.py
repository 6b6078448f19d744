"""Salary regression on raw survey columns (age, postcode, yearly hours, ...)."""
import time
import numpy as np
import keras

rng = np.random.default_rng(9)
n = 12_000
survey = np.stack([rng.uniform(18, 70, n), rng.uniform(10_000, 99_999, n), rng.uniform(0, 2400, n), rng.uniform(0, 20, n)], 1).astype("float32")
salary = (survey @ np.array([300, 0.01, 14, 900]) / 1000).astype("float32")

model = keras.Sequential([
    keras.Input((4,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(1),
])
model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")

t0 = time.perf_counter()
model.fit(survey, salary, batch_size=20, epochs=6, verbose=2)
print("WORK", 6 * n)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
