"""A learned force field rolled out with RK4 and matched to observed tracks. Plain JAX."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import jax.numpy as jnp
import numpy as np

SMALL = os.environ.get("SMALL") == "1"
TICKS, WIDTH, BATCH = (4, 32, 32) if SMALL else (24, 512, 1024)
STEPS = 8 if SMALL else 120
DT, DIM = 0.05, 8

rng = np.random.default_rng(18)
starts = jnp.asarray(rng.normal(size=(8192, DIM)), "float32")
angle = jnp.asarray(np.arange(1, TICKS + 1) * DT, "float32")
tracks = starts[:, None, :] * jnp.cos(angle)[None, :, None]


def init(key):
    a, b, c = jax.random.split(key, 3)
    return {"a": jax.random.normal(a, (DIM, WIDTH)) * 0.3,
            "b": jax.random.normal(b, (WIDTH, WIDTH)) / WIDTH ** 0.5,
            "c": jax.random.normal(c, (WIDTH, DIM)) * 0.01}


def force(p, s):
    return jnp.tanh(jnp.tanh(s @ p["a"]) @ p["b"]) @ p["c"]


def rk4(p, s):
    k1 = force(p, s)
    k2 = force(p, s + DT / 2 * k1)
    k3 = force(p, s + DT / 2 * k2)
    k4 = force(p, s + DT * k3)
    return s + DT / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def rollout(p, s):
    path = []
    for _ in range(TICKS):
        s = rk4(p, s)
        path.append(s)
    return jnp.stack(path, axis=1)


def misfit(p, rows):
    return jnp.mean((rollout(p, starts[rows]) - tracks[rows]) ** 2)


@jax.jit
def descend(p, v, rows):
    loss, g = jax.value_and_grad(misfit)(p, rows)
    v = jax.tree.map(lambda a, b: 0.9 * a + b, v, g)
    return jax.tree.map(lambda a, b: a - 1e-3 * b, p, v), v, loss


params = init(jax.random.key(0))
velocity = jax.tree.map(jnp.zeros_like, params)
began, stamps = time.perf_counter(), []
for i in range(STEPS):
    rows = rng.integers(0, 8192, BATCH).astype("int32")
    params, velocity, loss = descend(params, velocity, rows)
    stamps.append(time.perf_counter())
jax.block_until_ready(params)
finish = time.perf_counter()
print(f"misfit {float(loss):.5f}, training {finish - began:.1f} s")
print(f"steady_ms={(finish - stamps[3]) / (STEPS - 4) * 1e3:.3f}")
