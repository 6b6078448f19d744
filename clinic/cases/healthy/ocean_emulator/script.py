"""Emulator of an ocean column model: several gradient steps per call, all in one compiled scan."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

SMALL = os.environ.get("SMALL") == "1"
BATCH = 64 if SMALL else 8192
CHUNKS = 6 if SMALL else 360
WARM = 2 if SMALL else 5
INNER = 2 if SMALL else 8
LEVELS = 128 if SMALL else 1024
WIDTH = 128 if SMALL else 4096
COLUMNS = BATCH * 8


def simulate(seed=18):
    rng = np.random.default_rng(seed)
    state = rng.standard_normal((COLUMNS, LEVELS), dtype="float32")
    mixed = 0.6 * state + 0.2 * np.roll(state, 1, axis=1) + 0.2 * np.roll(state, -1, axis=1)
    after = np.tanh(mixed) - 0.05 * state
    return state.astype(jnp.bfloat16), after.astype(jnp.bfloat16)


def init(seed=0):
    rng = np.random.default_rng(seed)
    sizes = [LEVELS, WIDTH, WIDTH, LEVELS]
    return [{"w": jnp.asarray(rng.standard_normal((a, b), dtype="float32") * a ** -0.5), "b": jnp.zeros(b)}
            for a, b in zip(sizes[:-1], sizes[1:])]


def emulate(params, x):
    h = x
    for i, layer in enumerate(params):
        h = h @ layer["w"].astype(h.dtype) + layer["b"].astype(h.dtype)
        if i < len(params) - 1:
            h = jax.nn.silu(h)
    return x + h


def loss_fn(params, x, y):
    return jnp.square((emulate(params, x) - y).astype(jnp.float32)).mean()


@functools.partial(jax.jit, donate_argnums=(0, 1, 2))
def train_chunk(params, m, v, before, after, chunk):
    def body(carry, i):
        params, m, v = carry
        start = ((chunk * INNER + i) % (COLUMNS // BATCH)) * BATCH
        x = jax.lax.dynamic_slice_in_dim(before, start, BATCH)
        y = jax.lax.dynamic_slice_in_dim(after, start, BATCH)
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
        v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, v, grads)
        params = jax.tree.map(lambda p, a, b: p - 1e-4 * a / (jnp.sqrt(b) + 1e-8), params, m, v)
        return (params, m, v), loss

    (params, m, v), losses = jax.lax.scan(body, (params, m, v), jnp.arange(INNER))
    return params, m, v, losses.mean()


def main():
    before, after = (jnp.asarray(a) for a in simulate())
    params = init()
    m, v = jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params)
    for chunk in range(WARM + CHUNKS):
        if chunk == WARM:
            jax.block_until_ready(params)
            began = time.perf_counter()
        params, m, v, loss = train_chunk(params, m, v, before, after, chunk)
    jax.block_until_ready(params)
    print(f"steady_ms={1e3 * (time.perf_counter() - began) / CHUNKS:.3f} loss={float(loss):.5f}")


if __name__ == "__main__":
    main()
