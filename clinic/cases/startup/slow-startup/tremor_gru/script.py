"""Parkinson tremor severity from wrist accelerometer; a quick study run on a few hundred windows."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import keras
from keras import layers

rng = np.random.default_rng(15)
T = 50
t = np.arange(T) / 50.0
sev = rng.uniform(0, 4, 1200)
x = (sev[:, None, None] * np.sin(2 * np.pi * 5 * t)[None, :, None] * rng.normal(1, 0.2, (1200, 1, 3))
     + rng.normal(0, 1, (1200, T, 3))).astype("float32")
sev = sev.astype("float32")


def severity_model(units=(32,)):
    inp = h = layers.Input((T, 3))
    for i, u in enumerate(units):
        h = layers.GRU(u, return_sequences=i + 1 < len(units), unroll=True)(h)
    return keras.Model(inp, layers.Dense(1)(h))


model = severity_model()
model.compile(keras.optimizers.Adam(3e-3), "mse", metrics=["mae"])
model.fit(x, sev, batch_size=16, epochs=1, verbose=2)
