"""Surrogate of a pipe-flow solver: a wide residual MLP from operating point to pressure profile."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

SMALL = os.environ.get("SMALL") == "1"
WIDTH, DEPTH, BATCH, ROWS = (128, 2, 64, 512) if SMALL else (3072, 4, 4096, 32_768)
STEPS = 10 if SMALL else 260
INPUTS, PROFILE = 64, 256

rng = np.random.default_rng(6)
points = rng.uniform(-1, 1, (ROWS, INPUTS))
basis = rng.normal(size=(INPUTS, PROFILE)) / 8
profiles = jnp.asarray(np.sin(points @ basis))
points = jnp.asarray(points)


def matrix(n, m):
    return jnp.asarray(rng.normal(size=(n, m)) / np.sqrt(n))


params = {
    "lift": matrix(INPUTS, WIDTH),
    "blocks": [(matrix(WIDTH, WIDTH), jnp.zeros(WIDTH)) for _ in range(DEPTH)],
    "drop": matrix(WIDTH, PROFILE),
}
momentum = jax.tree.map(jnp.zeros_like, params)


def predict(p, x):
    h = x @ p["lift"]
    for w, b in p["blocks"]:
        h = h + jnp.tanh(h @ w + b)
    return h @ p["drop"]


def mse(p, x, y):
    return jnp.mean((predict(p, x) - y) ** 2)


@jax.jit
def sgd(p, m, rows):
    loss, g = jax.value_and_grad(mse)(p, points[rows], profiles[rows])
    m = jax.tree.map(lambda a, b: 0.9 * a + b, m, g)
    return jax.tree.map(lambda a, b: a - 1e-3 * b, p, m), m, loss


times = []
for i in range(STEPS):
    rows = rng.integers(0, ROWS, BATCH).astype("int32")
    params, momentum, loss = sgd(params, momentum, rows)
    times.append(time.perf_counter())
jax.block_until_ready(params)
done = time.perf_counter()
print("mse", float(loss))
print(f"steady_ms={(done - times[3]) / (STEPS - 4) * 1e3:.3f}")
