"""Measures what the documents that this project comes from promise of data formats and of cheaper models.

    python clinic/myths.py --markdown docs/myths.md

Each row compares two forms of the same work in one process, in turn, on an otherwise idle computer. The number is how
many times as fast the second form is, with a 95 % interval over the rounds. It takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from pages import fill

from slowtrain.verify.measurement.paired_trial import speedup_ratio

ROUNDS = 9
PICTURES = 3000  # JPEG files of 160 x 160
SIDE = 160
RESIZED = 64
CONVOLUTION_STEPS, DENSE_STEPS, SMALL_STEPS = 8, 100, 300  # of a model in a round, about a second
Work = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """A comparison of ``after`` with ``before``; ``note``: numbers that are counted and not timed."""

    what: str
    before: Work
    after: Work
    note: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the table into FILE")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    lines = ["| compared | times as fast | 95 % | counted |", "|---|---:|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for rows in (input_rows(Path(folder)), model_rows(), rate_rows()):
            for row in rows:
                lines.append(_measured(row, args.rounds))
                print(lines[-1], flush=True)
    if args.markdown:
        fill(args.markdown, "\n".join(lines) + "\n")
    return 0


def _measured(row: Row, rounds: int) -> str:
    """The line of a comparison. The order alternates, so that neither side is always the first."""
    for work in (row.before, row.after):
        work()
    pairs = []
    for turn in range(rounds):
        times = {}
        for work in (row.before, row.after) if turn % 2 else (row.after, row.before):
            begun = time.perf_counter()
            work()
            times[work] = time.perf_counter() - begun
        pairs.append((times[row.before], times[row.after]))
    found = speedup_ratio(pairs)
    return f"| {row.what} | {found.speedup:.2f} | {found.low:.2f} to {found.high:.2f} | {row.note} |"


def _read(dataset: tf.data.Dataset) -> Work:
    def work() -> None:
        for _ in dataset:
            pass

    return work


def input_rows(folder: Path) -> Iterator[Row]:
    """The same pictures and the same table of numbers in several formats, read completely; all files are in memory."""
    files, records, decoded = _picture_files(folder)

    def load(content: tf.Tensor) -> tf.Tensor:
        return tf.image.resize(tf.io.decode_jpeg(content, channels=3), [RESIZED, RESIZED])

    def batches(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
        return dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(2)

    paths = tf.data.Dataset.from_tensor_slices(files)
    parallel = batches(paths, lambda path: load(tf.io.read_file(path)))
    encoded = batches(tf.data.TFRecordDataset(records), load)
    ready = batches(
        tf.data.TFRecordDataset(decoded),
        lambda r: tf.reshape(tf.io.decode_raw(r, tf.uint8), [RESIZED, RESIZED, 3]),
    )
    sizes = [sum(os.path.getsize(f) for f in names) / 1e6 for names in (files, [records], [decoded])]
    yield Row(
        "JPEG files → one TFRecord file of the JPEGs, both in a parallel `map`",
        _read(parallel),
        _read(encoded),
        f"{sizes[0]:.0f} → {sizes[1]:.0f} MB",
    )
    yield Row(
        f"JPEG files → one TFRecord file of pixels ({RESIZED} x {RESIZED}), both in a parallel `map`",
        _read(parallel),
        _read(ready),
        f"{sizes[0]:.0f} → {sizes[2]:.0f} MB",
    )
    rows = np.random.default_rng(0).normal(size=(100_000, 50)).astype(np.float32)
    table = folder / "rows.tfrecord"
    with tf.io.TFRecordWriter(str(table)) as writer:
        for row in rows:
            writer.write(row.tobytes())
    array = tf.data.Dataset.from_tensor_slices(rows).batch(256).prefetch(2)
    parsed = tf.data.TFRecordDataset(str(table)).batch(256).map(lambda r: tf.io.decode_raw(r, tf.float32)).prefetch(2)
    yield Row("rows of an array in memory → a TFRecord file of the rows, parsed by batch", _read(array), _read(parsed))


def _picture_files(folder: Path) -> tuple[list[str], str, str]:
    """JPEG files, a TFRecord file of their contents, and one of their resized pixels."""
    generator = np.random.default_rng(1)
    files, records, decoded = [], str(folder / "jpeg.tfrecord"), str(folder / "pixels.tfrecord")
    with tf.io.TFRecordWriter(records) as contents, tf.io.TFRecordWriter(decoded) as pixels:
        for number in range(PICTURES):
            coarse = generator.integers(0, 256, (20, 20, 3), dtype=np.uint8)
            picture = tf.cast(tf.image.resize(coarse, [SIDE, SIDE]), tf.uint8)
            encoded = tf.io.encode_jpeg(picture).numpy()
            path = folder / f"{number:05}.jpg"
            path.write_bytes(encoded)
            files.append(str(path))
            contents.write(encoded)
            pixels.write(tf.cast(tf.image.resize(picture, [RESIZED, RESIZED]), tf.uint8).numpy().tobytes())
    return files, records, decoded


def _convolutions(width: int = 64, *, separable: bool = False, policy: str = "float32") -> keras.Model:
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(policy)
    convolution = keras.layers.SeparableConv2D if separable else keras.layers.Conv2D
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            keras.layers.Conv2D(width, 3, padding="same", activation="relu"),
            convolution(width, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            convolution(2 * width, 3, padding="same", activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(10, dtype="float32"),
        ]
    )
    keras.config.set_dtype_policy("float32")
    return model


def _dense(width: int = 1024) -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = [keras.Input((784,)), *(keras.layers.Dense(width, activation="relu") for _ in range(3))]
    return keras.Sequential([*layers, keras.layers.Dense(10)])


def _training(model: keras.Model, steps: int = CONVOLUTION_STEPS, rate: float = 1e-3) -> Work:
    shape, generator = model.input_shape[1:], np.random.default_rng(2)
    x = generator.normal(size=(32, *shape)).astype(np.float32)
    y = generator.integers(0, 10, 32)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss)
    data = tf.data.Dataset.from_tensors((x, y)).cache().repeat()

    def work() -> None:
        model.fit(data, steps_per_epoch=steps, verbose=0)

    return work


def _share_trainable(model: keras.Model) -> str:
    counts = [int(sum(np.prod(w.shape) for w in weights)) for weights in (model.trainable_weights, model.weights)]
    return f"{100 * counts[0] / max(counts[1], 1):.0f} % of the values can be trained"


def model_rows() -> Iterator[Row]:
    """Steps of training on 32 samples."""
    plain = _convolutions()
    for policy in ("mixed_bfloat16", "mixed_float16"):
        what = f"three convolutions in float32 → {policy}, on this processor"
        yield Row(what, _training(plain), _training(_convolutions(policy=policy)))
    narrow, separable = _convolutions(32), _convolutions(separable=True)
    for what, other in (("half as wide", narrow), ("separable", separable)):
        note = f"{plain.count_params():,} → {other.count_params():,} parameters"
        yield Row(f"three convolutions → {what}", _training(plain), _training(other), note)
    dense, pruned = _dense(), _dense()
    for layer in pruned.layers:
        matrix = layer.kernel.numpy()
        layer.kernel.assign(np.where(np.abs(matrix) < np.median(np.abs(matrix)), 0, matrix))
    note = f"{dense.count_params():,} → {pruned.count_params():,} parameters held"
    yield Row(
        "four dense layers → half of each matrix is zero",
        _training(dense, DENSE_STEPS),
        _training(pruned, DENSE_STEPS),
        note,
    )
    quantised = _dense()
    quantised.quantize("int8")
    yield Row(
        'four dense layers → `quantize("int8")`',
        _training(dense, DENSE_STEPS),
        _training(quantised, DENSE_STEPS),
        _share_trainable(quantised),
    )


def rate_rows() -> Iterator[Row]:
    """A learning rate changes the number of steps and not their length."""
    generator = np.random.default_rng(3)
    x = generator.normal(size=(4000, 20)).astype(np.float32)
    y = (x @ generator.normal(size=(20, 10))).argmax(axis=1)
    steps = {rate: _steps_to_loss(x, y, rate) for rate in (1e-4, 1e-3)}
    note = " → ".join(f"{count:,}" for count in steps.values()) + " steps to the same loss"
    yield Row(
        "Adam(1e-4) → Adam(1e-3), a step",
        _training(_dense(64), SMALL_STEPS, 1e-4),
        _training(_dense(64), SMALL_STEPS, 1e-3),
        note,
    )


def _steps_to_loss(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], rate: float, target: float = 0.8) -> int:
    """The steps of 32 samples until the mean loss of an epoch is below ``target``."""
    keras.utils.set_random_seed(0)
    layers = [keras.Input((20,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.Adam(rate), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    for epoch in range(1, 400):
        if model.fit(x, y, verbose=0).history["loss"][0] < target:
            return epoch * -(-len(x) // 32)
    raise RuntimeError(f"the loss does not reach {target} at a learning rate of {rate}")


if __name__ == "__main__":
    raise SystemExit(main())
