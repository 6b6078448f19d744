"""Deep ensemble for wind power: every member is a small net on its own bootstrap sample."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import jax.numpy as jnp
import numpy as np

SMALL = os.environ.get("SMALL") == "1"
MEMBERS = 4 if SMALL else 32
STEPS = 20 if SMALL else 900
ROWS, FEATURES, BATCH = 4096, 24, 256

rng = np.random.default_rng(5)
X = jnp.asarray(rng.normal(size=(ROWS, FEATURES)), "float32")
y = jnp.asarray(np.tanh(np.asarray(X)[:, :4].sum(1)) + 0.1 * rng.normal(size=ROWS), "float32")


def init(key):
    sizes = (FEATURES, 64, 64, 2)
    keys = jax.random.split(key, 3)
    return [(jax.random.normal(k, (n, m)) / jnp.sqrt(n), jnp.zeros(m))
            for k, n, m in zip(keys, sizes, sizes[1:])]


def nll(p, x, t):
    for w, b in p[:-1]:
        x = jax.nn.silu(x @ w + b)
    mean, raw = jnp.split(x @ p[-1][0] + p[-1][1], 2, axis=1)
    var = jax.nn.softplus(raw) + 1e-3
    return jnp.mean(0.5 * jnp.log(var) + 0.5 * (t[:, None] - mean) ** 2 / var)


def adam(member, rows):
    p, m, v, n = member
    loss, g = jax.value_and_grad(nll)(p, X[rows], y[rows])
    n = n + 1
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
    p = jax.tree.map(lambda a, b, c: a - 1e-3 * (b / (1 - 0.9 ** n)) / (jnp.sqrt(c / (1 - 0.999 ** n)) + 1e-8),
                     p, m, v)
    return (p, m, v, n), loss


def fresh(key):
    p = init(key)
    zeros = jax.tree.map(jnp.zeros_like, p)
    return p, zeros, zeros, jnp.float32(0)


keys = jax.random.split(jax.random.key(2), MEMBERS)
committee = [fresh(k) for k in keys]
train_member = jax.jit(adam)
marks, losses = [], []
for step in range(STEPS):
    rows = rng.integers(0, ROWS, (MEMBERS, BATCH)).astype("int32")
    losses = []
    for j in range(MEMBERS):
        committee[j], loss = train_member(committee[j], rows[j])
        losses.append(loss)
    marks.append(time.perf_counter())
jax.block_until_ready(committee)
end = time.perf_counter()
print("nll", np.mean(jax.device_get(losses)))
print(f"steady_ms={(end - marks[9]) / (STEPS - 10) * 1e3:.3f}")
