"""Soil spectra to 512 properties: a wide residual network in plain JAX, bfloat16 with float32 master weights."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

SMALL = os.environ.get("SMALL") == "1"
WIDTH, DEPTH, BATCH, ROWS = (128, 2, 64, 512) if SMALL else (4096, 6, 16_384, 65_536)
STEPS = 12 if SMALL else 300
BANDS, TARGETS = 1024, 512

k = jax.random.split(jax.random.key(0), DEPTH + 4)
spectra = jax.random.normal(k[-1], (ROWS, BANDS), jnp.bfloat16)
targets = jnp.tanh(spectra[:, :TARGETS])


def he(key, n, m):
    return jax.random.normal(key, (n, m)) / np.sqrt(n)


params = {"lift": he(k[-2], BANDS, WIDTH), "mix": [he(k[i], WIDTH, WIDTH) for i in range(DEPTH)],
          "drop": he(k[-3], WIDTH, TARGETS)}
momentum = jax.tree.map(jnp.zeros_like, params)


def loss_fn(p, x, y):
    p = jax.tree.map(lambda w: w.astype(jnp.bfloat16), p)
    h = x @ p["lift"]
    for w in p["mix"]:
        h = h + 0.3 * jax.nn.relu(h @ w)
    return jnp.mean((h @ p["drop"] - y).astype(jnp.float32) ** 2)


@partial(jax.jit, donate_argnums=(0, 1))
def update(p, m, key):
    rows = jax.random.randint(key, (BATCH,), 0, ROWS)
    loss, g = jax.value_and_grad(loss_fn)(p, spectra[rows], targets[rows])
    m = jax.tree.map(lambda a, b: 0.9 * a + b, m, g)
    p = jax.tree.map(lambda a, b: a - 1e-3 * b, p, m)
    return p, m, loss


keys = list(jax.random.split(jax.random.key(1), STEPS))
stamps, curve = [], []
for key in keys:
    params, momentum, loss = update(params, momentum, key)
    curve.append(loss)
    stamps.append(time.perf_counter())
jax.block_until_ready(params)
end = time.perf_counter()
print("loss", float(curve[0]), float(curve[-1]))
print(f"steady_ms={(end - stamps[3]) / (STEPS - 4) * 1e3:.3f}")
