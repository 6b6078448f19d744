"""Beta-VAE on sensor snapshots with a slowly rising KL weight, in plain JAX."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

SMALL = os.environ.get("SMALL") == "1"
BATCH = 64 if SMALL else 4096
STORED = 4 if SMALL else 20
PER_EPOCH = 4 if SMALL else 50
EPOCHS = 5 if SMALL else 21
SENSORS = 128 if SMALL else 1024
HIDDEN = [128, 64] if SMALL else [4096, 2048]
LATENT = 16 if SMALL else 64
RISE = 24


def snapshots(seed=14):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((BATCH * STORED, 12), dtype="float32")
    mixing = rng.standard_normal((12, SENSORS), dtype="float32")
    x = np.tanh(factors @ mixing / 3)
    x += 0.1 * rng.standard_normal(x.shape, dtype="float32")
    return x


def layers(rng, sizes):
    return [{"w": jnp.asarray(rng.normal(0, a ** -0.5, (a, b)), jnp.float32), "b": jnp.zeros(b)}
            for a, b in zip(sizes[:-1], sizes[1:])]


def mlp(params, h):
    for layer in params[:-1]:
        h = jax.nn.silu(h @ layer["w"] + layer["b"])
    return h @ params[-1]["w"] + params[-1]["b"]


def loss_fn(params, x, key, beta):
    mean, logvar = jnp.split(mlp(params["encoder"], x), 2, axis=1)
    logvar = jnp.clip(logvar, -8, 8)
    z = mean + jnp.exp(0.5 * logvar) * jax.random.normal(key, mean.shape)
    error = jnp.square(mlp(params["decoder"], z) - x).sum(axis=1)
    divergence = 0.5 * (jnp.exp(logvar) + mean ** 2 - 1 - logvar).sum(axis=1)
    return (error + beta * divergence).mean() / SENSORS


@functools.partial(jax.jit, static_argnames=("beta",))
def train_step(params, m, v, data, key, index, beta):
    x = jax.lax.dynamic_slice_in_dim(data, (index % STORED) * BATCH, BATCH)
    loss, grads = jax.value_and_grad(loss_fn)(params, x, jax.random.fold_in(key, index), beta)
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, v, grads)
    params = jax.tree.map(lambda p, a, b: p - 2e-4 * a / (jnp.sqrt(b) + 1e-8), params, m, v)
    return params, m, v, loss


def main():
    rng = np.random.default_rng(0)
    data, key = jnp.asarray(snapshots()), jax.random.key(2)
    params = {"encoder": layers(rng, [SENSORS, *HIDDEN, 2 * LATENT]),
              "decoder": layers(rng, [LATENT, *HIDDEN[::-1], SENSORS])}
    m, v = jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params)
    step = 0
    for epoch in range(1 + EPOCHS):
        if epoch == 1:
            jax.block_until_ready(params)
            began = time.perf_counter()
        beta = min(1.0, epoch / RISE)
        for _ in range(PER_EPOCH):
            params, m, v, loss = train_step(params, m, v, data, key, step, beta=beta)
            step += 1
    jax.block_until_ready(params)
    took = time.perf_counter() - began
    print(f"steady_ms={1e3 * took / (EPOCHS * PER_EPOCH):.3f} loss={float(loss):.5f} beta={beta:.3f}")


if __name__ == "__main__":
    main()
