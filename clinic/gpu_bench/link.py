"""What the link to this card gives, by the size of a copy: from pageable and from pinned memory, and the host's call.

    python clinic/gpu_bench/link.py

Pinned memory is that of a parallel map and batch in one, the only stage of tf.data that makes batches in it.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

import numpy as np
import tensorflow as tf

DEVICE = "/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"
MEGABYTES = (0.25, 1, 4, 16, 64, 128)
TRIES = 7


def pageable(floats: int) -> Any:
    with tf.device("/CPU:0"):
        return tf.constant(np.random.default_rng(0).random((1, floats), dtype="float32"))


def pinned(floats: int) -> Any:
    row = tf.data.Dataset.from_tensor_slices(np.random.default_rng(0).random((1, floats), dtype="float32"))
    return next(iter(row.map(lambda a: a, num_parallel_calls=2).batch(1, drop_remainder=True)))


def copy(host: Any) -> dict[str, float | None]:
    """GB a second, None where the copy cannot be told from the read; and the milliseconds of the host's call."""
    whole_s, call_s = [], []
    for _ in range(TRIES):
        begun = time.perf_counter()
        with tf.device(DEVICE):
            there = tf.identity(host)
            call_s.append(time.perf_counter() - begun)
            float(there[0, 0])
        whole_s.append(time.perf_counter() - begun)
    nothing_s = _wait_alone(there)
    copied_s = statistics.median(whole_s) - nothing_s
    rate = host.shape[1] * 4 / 1e9 / copied_s if copied_s > 0 else None
    return {"GB_s": rate, "call_ms": statistics.median(call_s) * 1e3}


def _wait_alone(there: Any) -> float:
    """The seconds of the read that ends each try, which are no part of the copy."""
    spent = []
    for _ in range(TRIES):
        begun = time.perf_counter()
        float(there[0, 0])
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent)


def main() -> None:
    rows = {}
    for megabytes in MEGABYTES:
        floats = int(megabytes * 250_000)
        rows[str(megabytes)] = {"pageable": copy(pageable(floats)), "pinned": copy(pinned(floats))}
    print("RESULT", json.dumps({"item": "link", "by_MB": rows}), flush=True)


if __name__ == "__main__":
    main()
