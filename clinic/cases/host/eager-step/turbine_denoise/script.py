"""Denoising autoencoder over turbine vibration windows with a spectral term in the loss."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import jax.numpy as jnp
import keras
import numpy as np
from keras import layers

SMALL = os.environ.get("SMALL") == "1"
WINDOW, BATCH, ROWS = (128, 32, 256) if SMALL else (1024, 1024, 16384)
STEPS = 8 if SMALL else 90

rng = np.random.default_rng(3)
t = np.arange(WINDOW, dtype="float32")
clean = np.sin(t * rng.uniform(0.01, 0.4, (ROWS, 1)).astype("float32"))
clean = jax.device_put(clean)

model = keras.Sequential([keras.Input((WINDOW,))])
for width in (512, 64, 512):
    model.add(layers.Dense(width, use_bias=False))
    model.add(layers.BatchNormalization())
    model.add(layers.Activation("gelu"))
model.add(layers.Dense(WINDOW))
optimizer = keras.optimizers.AdamW(2e-3)
optimizer.build(model.trainable_variables)


def loss_fn(tv, ntv, noisy, target):
    out, ntv = model.stateless_call(tv, ntv, noisy, training=True)
    wave = jnp.mean((out - target) ** 2)
    spectrum = jnp.mean(jnp.abs(jnp.abs(jnp.fft.rfft(out)) - jnp.abs(jnp.fft.rfft(target))))
    return wave + 0.01 * spectrum, ntv


grad_fn = jax.value_and_grad(loss_fn, has_aux=True)


def train_step(state, rows, key):
    tv, ntv, ov = state
    target = clean[rows]
    noisy = target + 0.3 * jax.random.normal(key, target.shape)
    (loss, ntv), grads = grad_fn(tv, ntv, noisy, target)
    tv, ov = optimizer.stateless_apply(ov, grads, tv)
    return (tv, ntv, ov), loss


state = tuple([v.value for v in group] for group in
              (model.trainable_variables, model.non_trainable_variables, optimizer.variables))
keys = jax.random.split(jax.random.key(0), STEPS)
marks, history = [], []
for i in range(STEPS):
    rows = rng.integers(0, ROWS, BATCH).astype("int32")
    state, loss = train_step(state, rows, keys[i])
    history.append(loss)
    marks.append(time.perf_counter())
jax.block_until_ready(state)
end = time.perf_counter()
print("loss", float(history[0]), "->", float(history[-1]))
print(f"steady_ms={(end - marks[4]) / (STEPS - 5) * 1e3:.3f}")
