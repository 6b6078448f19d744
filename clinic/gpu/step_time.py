"""A small table, a small model: what a step takes, timed by the script itself."""
import time
import numpy as np
import keras

rng = np.random.default_rng(0)
x = rng.random((6400, 12), dtype="float32")
y = x @ rng.random((12, 1))
model = keras.Sequential([keras.layers.Input((12,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, batch_size=16, epochs=3, verbose=0)
took = []
for _ in range(12):
    begun = time.perf_counter()
    model.fit(x, y, batch_size=16, epochs=1, verbose=0)
    took.append((time.perf_counter() - begun) / 400)
print("STEP_MS", 1e3 * sorted(took)[len(took) // 2])
