"""Compressive strength of concrete from its mix: a small table, many epochs."""

import time

import keras
import numpy as np

keras.utils.set_random_seed(3)
rng = np.random.default_rng(3)
mixes = rng.uniform(0.0, 1.0, (206, 8)).astype("float32")
strength = (mixes @ rng.normal(size=8) + 0.1 * rng.normal(size=206)).astype("float32")

model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])
begun = time.perf_counter()
history = model.fit(mixes, strength, batch_size=64, epochs=220, verbose=0)
print(f"mean absolute error {history.history['mae'][-1]:.3f}")
print(f"WORK {220 * len(mixes)}")
print(f"TRAIN_SECONDS {time.perf_counter() - begun:.3f}")
