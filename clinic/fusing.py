"""What XLA gains on a processor where a step is a chain of elementwise ops, by kind and size: without over with it.

    python clinic/fusing.py

Both steps, their gradient included, take turns in one process; median and range of seven ratios.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

TURNS = 7
SHAPES = ((64, 64), (256, 512), (1024, 1024), (2048, 2048))


def decay(x: Any, w: Any) -> Any:
    return tf.reduce_mean(tf.math.log1p(tf.square(tf.exp(-x * w) + tf.sigmoid(x) * w - 0.3)))


def products(x: Any, w: Any) -> Any:
    y = x * w
    for k in range(8):
        y = y * 0.9 + x * 0.1 * k - y * y * 0.01
    return tf.reduce_mean(y)


def gelu(x: Any, w: Any) -> Any:
    y = x * w
    return tf.reduce_mean(0.5 * y * (1 + tf.tanh(0.79788 * (y + 0.044715 * y * y * y))))


def normalised(x: Any, w: Any) -> Any:
    y = x * w
    mean = tf.reduce_mean(y, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(y - mean), -1, keepdims=True)
    return tf.reduce_mean(tf.square((y - mean) * tf.math.rsqrt(variance + 1e-5) * w + 0.1))


def dropout(x: Any, w: Any) -> Any:
    return tf.reduce_mean(tf.square(tf.nn.dropout(tf.nn.dropout(x * w, 0.1), 0.2)))


def main() -> None:
    for chain in (decay, products, gelu, normalised, dropout):
        for shape in SHAPES:
            plain, fused = (_step(chain, shape, compiled) for compiled in (False, True))
            turns = max(3, min(100, 2_000_000 // (shape[0] * shape[1])))
            ratios, ms = [], []
            for turn in range(TURNS):
                order = (plain, fused) if turn % 2 else (fused, plain)
                taken = {step: _ms(step, turns) for step in order}
                ratios.append(taken[plain] / taken[fused])
                ms.append(taken[plain])
            low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
            print(
                f"{chain.__name__:11s} {shape!s:13s} {middle:6.2f} ({low:.2f} to {high:.2f}), {min(ms):.2f} ms without"
            )


def _step(chain: Callable[[Any, Any], Any], shape: tuple[int, int], compiled: bool) -> Callable[[], Any]:
    x, w = tf.random.normal(shape), tf.Variable(tf.random.normal(shape))

    @tf.function(jit_compile=compiled)
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = chain(x, w)
        w.assign_sub(1e-3 * tape.gradient(loss, w))
        return loss

    step().numpy()
    return step


def _ms(step: Callable[[], Any], turns: int) -> float:
    begun = time.perf_counter()
    for _ in range(turns):
        loss = step()
    loss.numpy()
    return (time.perf_counter() - begun) / turns * 1e3


if __name__ == "__main__":
    main()
