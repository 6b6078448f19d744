"""Sleep stages from long EEG epochs (4096 samples each), plain JAX with Adam."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import jax.numpy as jnp
import numpy as np

SMALL = os.environ.get("SMALL") == "1"
EPOCHS, SAMPLES, BATCH = (512, 256, 64) if SMALL else (30_000, 4096, 4096)
STEPS = 10 if SMALL else 260
STAGES = 5

rng = np.random.default_rng(10)
signal = rng.standard_normal((EPOCHS, SAMPLES), dtype="float32")
stage = rng.integers(0, STAGES, EPOCHS).astype("int32")


def layer(key, n, m):
    return jax.random.normal(key, (n, m)) * (2 / n) ** 0.5, jnp.zeros(m)


k = jax.random.split(jax.random.key(1), 3)
params = [layer(k[0], SAMPLES, 1024), layer(k[1], 1024, 512), layer(k[2], 512, STAGES)]
moments = (jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))


def cross_entropy(p, x, y):
    for w, b in p[:-1]:
        x = jax.nn.relu(x @ w + b)
    logp = jax.nn.log_softmax(x @ p[-1][0] + p[-1][1])
    return -jnp.mean(jnp.take_along_axis(logp, y[:, None], axis=1))


@jax.jit
def update(p, mv, x, y):
    loss, g = jax.value_and_grad(cross_entropy)(p, x, y)
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, mv[0], g)
    v = jax.tree.map(lambda a, b: 0.99 * a + 0.01 * b * b, mv[1], g)
    p = jax.tree.map(lambda a, b, c: a - 3e-4 * b / (jnp.sqrt(c) + 1e-7), p, m, v)
    return p, (m, v), loss


clock, curve = [], []
for i in range(STEPS):
    rows = rng.integers(0, EPOCHS, BATCH)
    x, y = jnp.asarray(signal[rows]), jnp.asarray(stage[rows])
    params, moments, loss = update(params, moments, x, y)
    curve.append(loss)
    clock.append(time.perf_counter())
jax.block_until_ready(params)
finish = time.perf_counter()
print("loss", float(curve[0]), float(curve[-1]))
print(f"steady_ms={(finish - clock[3]) / (STEPS - 4) * 1e3:.3f}")
