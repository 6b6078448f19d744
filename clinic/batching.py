"""What a ``map`` takes of the processor for each element, and for each element of a batch that it is given at once.

    python clinic/batching.py

The figures behind ``input/per-element-map``. Threads and optimisation of TensorFlow's own are off: what is compared is
processor time of one thread, less what the same pipeline takes without the function.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

BATCH, BATCHES, TIMES = 256, 40, 3
WIDTH = 12
SPEC = {"x": tf.io.FixedLenFeature([WIDTH], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}


def scaled(x: Any) -> Any:
    return (x - 0.5) / 0.3


def several(x: Any) -> Any:
    return tf.clip_by_value(tf.math.log1p(x) * 2.0 - 1.0, -1.0, 1.0) + tf.square(x)


def columns(x: Any) -> Any:
    parts = x[..., 0] * 2, x[..., 1] + 1, tf.sqrt(x[..., 2]), x[..., 3] * x[..., 4], tf.exp(x[..., 5])
    return tf.stack(parts, axis=-1)


def fields(line: Any) -> Any:
    return tf.stack(tf.io.decode_csv(line, [[0.0]] * WIDTH), axis=-1)


def parsed(record: Any) -> Any:
    one = record.shape.rank == 0
    return tf.io.parse_single_example(record, SPEC) if one else tf.io.parse_example(record, SPEC)


def split(line: Any) -> Any:
    return tf.strings.to_number(
        tf.strings.split(line, ",").flat_values if line.shape.rank else tf.strings.split(line, ",")
    )


def seconds(data: tf.data.Dataset) -> float:
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    best = float("inf")
    for _ in range(TIMES):
        begun = time.process_time()
        for _ in data.with_options(options):
            pass
        best = min(best, time.process_time() - begun)
    return best


def main() -> None:
    rows = np.random.default_rng(0).random((BATCH * BATCHES, WIDTH), dtype="float32")
    numbers = tf.data.Dataset.from_tensor_slices(rows)
    lines = tf.data.Dataset.from_tensor_slices([",".join(f"{v:.4f}" for v in row) for row in rows])
    records = tf.data.Dataset.from_tensor_slices([_example(row) for row in rows])
    pairs: list[tuple[tf.data.Dataset, Callable[..., Any]]] = [
        (numbers, scaled), (numbers, several), (numbers, columns), (lines, fields), (records, parsed), (lines, split),
    ]  # fmt: skip
    print("| function | µs an element by itself | in a batch | left |")
    print("|---|---|---|---|")
    for data, function in pairs:
        single = seconds(data.map(function).batch(BATCH)) if function is not split else seconds(data.map(function))
        single -= seconds(data.batch(BATCH))
        whole = seconds(data.batch(BATCH).map(function)) - seconds(data.batch(BATCH))
        one, each = (1e6 * s / len(rows) for s in (single, whole))
        print(f"| {function.__name__} | {one:.1f} | {each:.1f} | {each / one:.2f} |", flush=True)


def _example(row: Any) -> bytes:
    made = {
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=row)),
        "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[1])),
    }
    return bytes(tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString())


if __name__ == "__main__":
    main()
