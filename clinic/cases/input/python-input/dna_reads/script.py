"""Promoter / enhancer / background classifier over DNA reads, hand-written JAX training."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import jax.numpy as jnp
import numpy as np

SMALL = os.environ.get("SMALL") == "1"
BATCH = 32 if SMALL else 512
READS = 512 if SMALL else 20000
STEPS = 12 if SMALL else 1200
WARM = 3 if SMALL else 20
WIDTH = 16 if SMALL else 128
STORED, LENGTH, CLASSES = 400, 320, 3
CODE = {"A": 0, "C": 1, "G": 2, "T": 3}
COMPLEMENT = {"A": "T", "C": "G", "G": "C", "T": "A"}


def sequence_reads(count, seed=5):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count).astype("int32")
    richness = np.array([[0.25] * 4, [0.2, 0.3, 0.3, 0.2], [0.3, 0.2, 0.2, 0.3]])
    edges = richness.cumsum(axis=1)[labels][:, None, :3]
    bases = (rng.random((count, STORED, 1)) > edges).sum(axis=2)
    letters = np.frombuffer(b"ACGT", "S1")[bases]
    return [row.tobytes().decode() for row in letters], labels


def batches(reads, labels, seed=7):
    rng = np.random.default_rng(seed)
    while True:
        chosen = rng.integers(0, len(reads), BATCH)
        starts = rng.integers(0, STORED - LENGTH, BATCH)
        flips = rng.random(BATCH) < 0.5
        encoded = []
        for i, start, flip in zip(chosen, starts, flips):
            read = reads[i][start:start + LENGTH]
            if flip:
                read = "".join(COMPLEMENT[base] for base in reversed(read))
            encoded.append([CODE[base] for base in read])
        yield np.array(encoded, dtype="uint8"), labels[chosen]


def conv(x, w):
    return jax.lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


def loss_fn(params, x, y):
    h = jax.nn.one_hot(x, 4)
    for w in params["convs"]:
        h = jax.nn.relu(conv(h, w))
    logp = jax.nn.log_softmax(h.mean(axis=1) @ params["head"])
    return -jnp.take_along_axis(logp, y[:, None], axis=1).mean()


@jax.jit
def train_step(params, velocity, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    return jax.tree.map(lambda p, v: p - 0.02 * v, params, velocity), velocity, loss


def main():
    rng = np.random.default_rng(0)
    shapes = [(9, 4, WIDTH)] + [(7, WIDTH, WIDTH)] * 3
    convs = [jnp.asarray(rng.normal(0, (2 / (k * i)) ** 0.5, (k, i, o)), jnp.float32) for k, i, o in shapes]
    params = {"convs": convs, "head": jnp.zeros((WIDTH, CLASSES))}
    velocity = jax.tree.map(jnp.zeros_like, params)
    feed = batches(*sequence_reads(READS))
    for step in range(WARM + STEPS):
        if step == WARM:
            jax.block_until_ready(params)
            began = time.perf_counter()
        x, y = next(feed)
        params, velocity, loss = train_step(params, velocity, x, y)
    jax.block_until_ready(params)
    print(f"steady_ms={1e3 * (time.perf_counter() - began) / STEPS:.3f} loss={float(loss):.4f}")


if __name__ == "__main__":
    main()
