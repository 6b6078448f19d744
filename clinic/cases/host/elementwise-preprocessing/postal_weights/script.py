# Which parcels will be returned? A network over the counter's own measurements.
import time

import keras
import numpy as np
from keras import layers

ROWS = 220_000
COLS = 24
start = time.time()
rng = np.random.default_rng(8)
raw = rng.gamma(2.0, 40.0, size=(ROWS, COLS)).astype("float32")
raw[rng.random(raw.shape) < 0.03] = -1.0        # the counter writes -1 when the scale was not read

coef = rng.normal(0, 1, COLS)
score = np.log1p(np.clip(raw, 0, None)) @ coef
returned = (score > np.median(score)).astype("float32")

medians = np.median(raw, axis=0)
low = np.percentile(raw, 1, axis=0)
high = np.percentile(raw, 99, axis=0)

table = np.zeros((ROWS, COLS), dtype="float32")
for i in range(ROWS):
    for j in range(COLS):
        v = raw[i, j]
        if v < 0:
            v = medians[j]
        v = min(max(v, low[j]), high[j])
        table[i, j] = (v - low[j]) / (high[j] - low[j])
print(f"table ready after {time.time() - start:.1f} s")

keras.utils.set_random_seed(1)
model = keras.Sequential([
    keras.Input((COLS,)),
    layers.Dense(256, activation="relu"),
    layers.Dense(256, activation="relu"),
    layers.Dense(128, activation="relu"),
    layers.Dropout(0.1),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(1e-3),
              loss="binary_crossentropy",
              metrics=["accuracy"])

t0 = time.time()
history = model.fit(table, returned, batch_size=512, epochs=2, shuffle=True, verbose=2)
print(f"fit took {time.time() - t0:.1f} s, last loss {history.history['loss'][-1]:.4f}")
print(f"whole run {time.time() - start:.1f} s")
