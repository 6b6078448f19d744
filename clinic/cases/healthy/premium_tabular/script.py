"""Insurance premiums from policy tables: a wide MLP at a large batch, arrays straight into fit."""
import numpy as np
import keras
from keras import layers

rng = np.random.default_rng(0)
ROWS, COLS = 120_000, 64
table = rng.normal(size=(ROWS, COLS)).astype("float32")
risk = np.tanh(table[:, :8].sum(1)) + 0.3 * table[:, 9] * table[:, 10]
premium = (risk + 0.1 * rng.normal(size=ROWS)).astype("float32")

model = keras.Sequential([keras.Input((COLS,)), layers.Normalization(mean=0.0, variance=1.0)])
for width in (384, 384, 256):
    model.add(layers.Dense(width, activation="relu"))
model.add(layers.Dense(1))
model.compile(keras.optimizers.Adam(1e-3), "mse", metrics=["mae"])
model.fit(table, premium, batch_size=2048, epochs=5, validation_split=0.05,
          validation_batch_size=4096, verbose=2)
