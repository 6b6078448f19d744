"""Full-batch graph convolution on a citation graph: predict the field of each paper."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import jax.numpy as jnp
import numpy as np

SMALL = os.environ.get("SMALL") == "1"
PAPERS = 2000 if SMALL else 120_000
CITATIONS = 10_000 if SMALL else 1_200_000
FEATURES = 64 if SMALL else 384
HIDDEN = 32 if SMALL else 128
STEPS = 12 if SMALL else 400
WARM = 3 if SMALL else 10
FIELDS = 16


def make_graph(seed=1):
    rng = np.random.default_rng(seed)
    fields = rng.integers(0, FIELDS, PAPERS).astype("int32")
    centres = rng.standard_normal((FIELDS, FEATURES), dtype="float32")
    features = centres[fields] * 0.3 + rng.standard_normal((PAPERS, FEATURES), dtype="float32")
    source = rng.integers(0, PAPERS, CITATIONS).astype("int32")
    target = rng.integers(0, PAPERS, CITATIONS).astype("int32")
    degree = np.bincount(target, minlength=PAPERS).astype("float32") + 1.0
    known = (rng.random(PAPERS) < 0.6).astype("float32")
    return {"features": features, "source": source, "target": target,
            "scale": 1.0 / degree, "fields": fields, "known": known}


def gather_neighbours(h, graph):
    messages = h[graph["source"]]
    summed = jax.ops.segment_sum(messages, graph["target"], num_segments=h.shape[0])
    return (summed + h) * graph["scale"][:, None]


def loss_fn(params, graph):
    h = graph["features"] @ params["w0"]
    h = jax.nn.relu(gather_neighbours(h, graph))
    h = jax.nn.relu(gather_neighbours(h @ params["w1"], graph))
    logp = jax.nn.log_softmax(h @ params["w2"])
    picked = jnp.take_along_axis(logp, graph["fields"][:, None], axis=1)[:, 0]
    return -(picked * graph["known"]).sum() / graph["known"].sum()


@jax.jit
def train_step(params, momentum, graph):
    loss, grads = jax.value_and_grad(loss_fn)(params, graph)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    params = jax.tree.map(lambda p, m: p - 0.05 * m, params, momentum)
    return params, momentum, loss


def main():
    graph = make_graph()
    rng = np.random.default_rng(0)
    sizes = [(FEATURES, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, FIELDS)]
    params = {f"w{i}": jnp.asarray(rng.normal(0, s[0] ** -0.5, s), jnp.float32) for i, s in enumerate(sizes)}
    momentum = jax.tree.map(jnp.zeros_like, params)
    for step in range(WARM + STEPS):
        if step == WARM:
            jax.block_until_ready(params)
            began = time.perf_counter()
        inputs = {name: jnp.asarray(array) for name, array in graph.items()}
        params, momentum, loss = train_step(params, momentum, inputs)
        if step % 100 == 0:
            print(f"step {step} loss {float(loss):.4f}")
    jax.block_until_ready(params)
    print(f"steady_ms={1e3 * (time.perf_counter() - began) / STEPS:.3f} loss={float(loss):.4f}")


if __name__ == "__main__":
    main()
