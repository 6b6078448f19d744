"""VAE on mass-spectrometry bins, KL weight warmed up over training. Plain JAX."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

SMALL = os.environ.get("SMALL") == "1"
BINS, HID, LATENT, BATCH = (256, 64, 8, 64) if SMALL else (2048, 512, 32, 512)
STEPS = 12 if SMALL else 120
EVERY = 6

rng = np.random.default_rng(1)
peaks = rng.gamma(0.4, 1.0, (1024 if SMALL else 20_000, BINS)).astype("float32")
peaks = jnp.log1p(jnp.asarray(peaks))


def dense(key, n, m):
    return {"w": jax.random.normal(key, (n, m)) / np.sqrt(n), "b": jnp.zeros(m)}


k = jax.random.split(jax.random.key(0), 5)
params = {"enc": dense(k[0], BINS, HID), "mu": dense(k[1], HID, LATENT), "lv": dense(k[2], HID, LATENT),
          "dec": dense(k[3], LATENT, HID), "out": dense(k[4], HID, BINS)}
velocity = jax.tree.map(jnp.zeros_like, params)


def apply(layer, x):
    return x @ layer["w"] + layer["b"]


def elbo(p, x, key, kl_weight):
    h = jax.nn.relu(apply(p["enc"], x))
    mu, lv = apply(p["mu"], h), apply(p["lv"], h)
    z = mu + jnp.exp(0.5 * lv) * jax.random.normal(key, mu.shape)
    out = apply(p["out"], jax.nn.relu(apply(p["dec"], z)))
    kl = -0.5 * jnp.sum(1 + lv - mu ** 2 - jnp.exp(lv), axis=1)
    return jnp.mean(jnp.sum((out - x) ** 2, axis=1) + kl_weight * kl)


@partial(jax.jit, static_argnames=("kl_weight",))
def update(p, v, rows, key, kl_weight):
    loss, g = jax.value_and_grad(elbo)(p, peaks[rows], key, kl_weight)
    v = jax.tree.map(lambda a, b: 0.9 * a + b, v, g)
    p = jax.tree.map(lambda a, b: a - 1e-6 * b, p, v)
    return p, v, loss


marks, losses = [], []
for i in range(STEPS):
    kl_weight = (i // EVERY + 1) * EVERY / STEPS
    rows = rng.integers(0, len(peaks), BATCH).astype("int32")
    params, velocity, loss = update(params, velocity, rows, jax.random.key(i), kl_weight=kl_weight)
    losses.append(loss)
    marks.append(time.perf_counter())
jax.block_until_ready(params)
marks[-1] = time.perf_counter()
half = STEPS // 2 - 1
print("elbo", float(losses[0]), float(losses[-1]))
print(f"steady_ms={(marks[-1] - marks[half]) / (STEPS - 1 - half) * 1e3:.3f}")
