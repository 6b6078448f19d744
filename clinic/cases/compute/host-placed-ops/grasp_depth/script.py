"""Regression of grasp depths with a robust loss whose scale is the median absolute deviation."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import jax.numpy as jnp
import keras
import numpy as np
from keras import layers

SMALL = os.environ.get("SMALL") == "1"
ROWS, FEATURES, JOINTS, BATCH, EPOCHS = (256, 32, 8, 64, 2) if SMALL else (204_800, 128, 128, 4096, 6)

rng = np.random.default_rng(14)
features = rng.standard_normal((ROWS, FEATURES), dtype="float32")
depth = features @ rng.standard_normal((FEATURES, JOINTS), dtype="float32")
depth += (rng.random(depth.shape) < 0.05) * 20.0
depth = depth.astype("float32")


def mad(residual):
    residual = np.asarray(residual)
    centre = np.median(residual, axis=0)
    return (1.4826 * np.median(np.abs(residual - centre), axis=0)).astype("float32")


def tukey(y_true, y_pred):
    residual = y_pred - y_true
    fixed = jax.lax.stop_gradient(residual)
    out = jax.ShapeDtypeStruct((fixed.shape[1],), jnp.float32)
    scale = jax.pure_callback(mad, out, fixed)
    u = jnp.clip(residual / (4.685 * scale + 1e-6), -1.0, 1.0)
    return jnp.mean(1.0 - (1.0 - u ** 2) ** 3, axis=-1)


model = keras.Sequential([
    keras.Input((FEATURES,)),
    layers.Dense(1024, activation="relu"),
    layers.Dense(1024, activation="relu"),
    layers.Dense(JOINTS),
])
model.compile(keras.optimizers.Adam(1e-3), loss=tukey)


class Tempo(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.since, self.count = time.perf_counter(), 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1

    def on_epoch_end(self, epoch, logs=None):
        self.each = (time.perf_counter() - self.since) / self.count


tempo = Tempo()
model.fit(features, depth, batch_size=BATCH, epochs=EPOCHS, verbose=2, callbacks=[tempo])
print(f"steady_ms={tempo.each * 1e3:.3f}")
