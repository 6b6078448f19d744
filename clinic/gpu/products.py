"""Ms of single matrix products by number format and size, and of whole steps of them by alignment, on JAX's device.

    python clinic/gpu/products.py

What trace/tensor_cores.py and causes/compute/unaligned_shapes.py expect of other formats and sizes comes from it.
"""

import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "trace" / "recorded"))
import make_gpu

FORMATS = {
    "float32": ("float32", "highest"), "tf32": ("float32", "default"), "bfloat16": ("bfloat16", "default"),
    "float16": ("float16", "default"), "float64": ("float64", "default"),
}  # fmt: skip
TURNS = {256: 200, 512: 200, 1024: 100, 2048: 40}  # at a time, so that waiting for the last counts little


def product(side, dtype, precision):
    key = jax.random.PRNGKey(0)
    a = jax.random.normal(key, (side, side), dtype="float32").astype(dtype)
    dot = jax.jit(lambda a: jax.lax.dot(a, a, precision=precision))
    dot(a).block_until_ready()
    turns, took = TURNS.get(side, 6), []
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(turns):
            last = dot(a)
        last.block_until_ready()
        took.append((time.perf_counter() - begun) / turns)
    return 1e3 * sorted(took)[2]


def step(side, turns=12):
    run = make_gpu.products(side, jnp.bfloat16)
    for i in range(12):
        run(i)
    make_gpu.finished()
    begun = time.perf_counter()
    for i in range(turns):
        run(i)
    make_gpu.finished()
    return 1e3 * (time.perf_counter() - begun) / turns


jax.config.update("jax_enable_x64", True)
for side in (256, 512, 1024, 2048, 4096, 8192):
    print(side, {name: product(side, *given) for name, given in FORMATS.items()}, flush=True)
for side in (2047, 2046, 2044):
    print(side, {name: product(side, *FORMATS[name]) for name in ("tf32", "bfloat16", "float16")}, flush=True)
for side in (4092, 4093, 4094, 4096):
    print(f"a step of sides of {side}", step(side), flush=True)
