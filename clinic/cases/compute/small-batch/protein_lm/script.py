"""Deep, narrow masked language model over protein fragments, in plain JAX."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import jax.numpy as jnp
import numpy as np

SMALL = os.environ.get("SMALL") == "1"
BATCH = 8
SAMPLES = 96 if SMALL else 11_200
WARM = 3 if SMALL else 20
DEPTH = 4 if SMALL else 48
WIDTH = 64 if SMALL else 256
LENGTH, HEADS, RESIDUES, MASK = 128, 4, 26, 25


def fragments(seed=12):
    rng = np.random.default_rng(seed)
    motifs = rng.integers(0, 24, (40, 16))
    return motifs[rng.integers(0, 40, (4096, LENGTH // 16))].reshape(4096, LENGTH).astype("int32")


def init(key):
    def normal(key, *shape):
        return jax.random.normal(key, shape) * 0.02

    k = jax.random.split(key, 6)
    blocks = {
        "qkv": normal(k[0], DEPTH, WIDTH, 3 * WIDTH), "out": normal(k[1], DEPTH, WIDTH, WIDTH),
        "up": normal(k[2], DEPTH, WIDTH, 4 * WIDTH), "down": normal(k[3], DEPTH, 4 * WIDTH, WIDTH),
    }
    return {"embed": normal(k[4], RESIDUES, WIDTH), "place": normal(k[5], LENGTH, WIDTH), "blocks": blocks}


def norm(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def block(x, w):
    n, t, d = x.shape
    q, k, v = jnp.split((norm(x) @ w["qkv"]).reshape(n, t, HEADS, -1), 3, axis=-1)
    scores = jnp.einsum("nqhd,nkhd->nhqk", q, k) / (d // HEADS) ** 0.5
    mixed = jnp.einsum("nhqk,nkhd->nqhd", jax.nn.softmax(scores), v)
    x = x + mixed.reshape(n, t, d) @ w["out"]
    return x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"], None


def loss_fn(params, tokens, hidden):
    x = params["embed"][jnp.where(hidden, MASK, tokens)] + params["place"]
    x, _ = jax.lax.scan(block, x, params["blocks"])
    logp = jax.nn.log_softmax(norm(x) @ params["embed"].T)
    picked = jnp.take_along_axis(logp, tokens[..., None], axis=-1)[..., 0]
    return -(picked * hidden).sum() / hidden.sum()


@jax.jit
def train_step(params, m, v, data, key, step):
    key = jax.random.fold_in(key, step)
    tokens = data[jax.random.randint(key, (BATCH,), 0, data.shape[0])]
    hidden = jax.random.uniform(key, tokens.shape) < 0.15
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, hidden)
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, v, grads)
    params = jax.tree.map(lambda p, a, b: p - 3e-4 * a / (jnp.sqrt(b) + 1e-8), params, m, v)
    return params, m, v, loss


def main():
    data = jnp.asarray(fragments())
    key = jax.random.key(0)
    params = init(key)
    m, v = jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params)
    steps = SAMPLES // BATCH
    for step in range(WARM + steps):
        if step == WARM:
            jax.block_until_ready(params)
            began = time.perf_counter()
        params, m, v, loss = train_step(params, m, v, data, key, step)
    jax.block_until_ready(params)
    took = time.perf_counter() - began
    print(f"steps={steps} raw_step_ms={1e3 * took / steps:.3f}")
    print(f"steady_ms={1e3 * took / (steps * BATCH) * 8:.3f} (per 8 samples) loss={float(loss):.4f}")


if __name__ == "__main__":
    main()
