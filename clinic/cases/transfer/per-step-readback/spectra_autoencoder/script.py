"""Autoencoder for mass spectra; keeps a moving profile of the residual in every m/z bin."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import jax.numpy as jnp
import numpy as np

SMALL = os.environ.get("SMALL") == "1"
BATCH = 64 if SMALL else 4096
BINS = 256 if SMALL else 2048
HIDDEN = 128 if SMALL else 8192
CODE = 32 if SMALL else 512
BATCHES = 4 if SMALL else 12
STEPS = 12 if SMALL else 750
WARM = 3 if SMALL else 20


def measure_spectra(seed=6):
    rng = np.random.default_rng(seed)
    peaks = rng.random((48, BINS), dtype="float32") ** 8
    mixture = rng.random((BATCHES * BATCH, 48), dtype="float32") ** 3
    noise = 0.02 * rng.standard_normal((BATCHES * BATCH, BINS), dtype="float32")
    return mixture @ peaks + noise


def dense(rng, n_in, n_out):
    w = rng.standard_normal((n_in, n_out), dtype="float32") * (1.5 / n_in) ** 0.5
    return {"w": jnp.asarray(w), "b": jnp.zeros(n_out)}


def reconstruct(params, x):
    h = x
    for i, layer in enumerate(params):
        h = h @ layer["w"] + layer["b"]
        if i < len(params) - 1:
            h = jax.nn.gelu(h)
    return h


def loss_fn(params, x):
    residual = reconstruct(params, x) - x
    return jnp.square(residual).mean(), jnp.abs(residual)


@jax.jit
def train_step(params, m, v, spectra, step):
    x = jax.lax.dynamic_slice_in_dim(spectra, (step % BATCHES) * BATCH, BATCH)
    (loss, residual), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, x)
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, grads)
    params = jax.tree.map(lambda p, a, b: p - 1e-4 * a / (jnp.sqrt(b) + 1e-6), params, m, v)
    return params, m, v, loss, residual


def main():
    rng = np.random.default_rng(0)
    spectra = jnp.asarray(measure_spectra())
    sizes = [BINS, HIDDEN, CODE, HIDDEN, BINS]
    params = [dense(rng, a, b) for a, b in zip(sizes[:-1], sizes[1:])]
    m = jax.tree.map(jnp.zeros_like, params)
    v = jax.tree.map(jnp.zeros_like, params)
    profile = np.zeros(BINS, "float32")
    for step in range(WARM + STEPS):
        if step == WARM:
            jax.block_until_ready(params)
            began = time.perf_counter()
        params, m, v, loss, residual = train_step(params, m, v, spectra, step)
        profile = 0.99 * profile + 0.01 * np.asarray(residual).mean(axis=0)
    jax.block_until_ready(params)
    took = time.perf_counter() - began
    print("worst bins:", np.argsort(np.asarray(profile))[-5:])
    print(f"steady_ms={1e3 * took / STEPS:.3f} loss={float(loss):.5f}")


if __name__ == "__main__":
    main()
