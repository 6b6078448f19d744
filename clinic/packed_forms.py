"""Reads the same elements from a cache on the disk, from ``Dataset.load``, and from packed shards, in turn.

    python clinic/packed_forms.py [--rounds 7] [--markdown docs/packing.md]

For each form, the processor's µs for an element: the median over rounds, with the files in memory. It takes a minute.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from pages import fill

from slowtrain.capture.packing import element_records, packing_job

BATCH = 64
BEGIN = "<!-- forms -->"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--markdown", type=Path, help="put the table into that page")
    args = parser.parse_args()
    lines = ["| elements | `.cache(path)` | `Dataset.load` | packed shards |", "|---|---:|---:|---:|"]
    for what, source, count in kinds():
        with tempfile.TemporaryDirectory() as folder:
            read_us = measure_forms(written_forms(source, Path(folder)), count, args.rounds)
        lines.append(f"| {what} | {' | '.join(f'{us:.1f}' for us in read_us)} |")
        print(lines[-1], flush=True)
    if args.markdown:
        fill(args.markdown, "\n".join(lines) + "\n", BEGIN)
    return 0


def kinds() -> Iterator[tuple[str, tf.data.Dataset, int]]:
    """What the elements are, a data set of them, and their number."""
    rng = np.random.default_rng(0)
    slices = tf.data.Dataset.from_tensor_slices
    yield "4,000 of 48 KiB of numbers", slices(rng.integers(0, 255, (4000, 48 << 10), np.uint8)), 4000
    yield "20,000 of 3 KiB of numbers", slices(rng.integers(0, 255, (20_000, 3 << 10), np.uint8)), 20_000
    lines = [bytes(row) for row in rng.integers(48, 58, (20_000, 40), np.uint8)]
    yield "20,000 lines of 40 characters", slices(lines), 20_000


def written_forms(source: tf.data.Dataset, folder: Path) -> list[tf.data.Dataset]:
    """The data set in each form, written completely."""
    cached = source.cache(str(folder / "cache"))
    for _ in cached:
        pass
    source.save(str(folder / "saved"))
    form = element_records.describe_elements(source.element_spec)
    packed = packing_job.pack_datasets([source], packing_job.PackingJob(str(folder / "packed"), "forms", form))
    return [cached, tf.data.Dataset.load(str(folder / "saved")), packing_job.reading_dataset(form, packed, source)]


def measure_forms(forms: list[tf.data.Dataset], count: int, rounds: int) -> list[float]:
    """The processor's µs for an element of each form. The first round is left out."""
    taken: list[list[float]] = [[] for _ in forms]
    for _ in range(rounds + 1):
        for several, one in zip(taken, forms, strict=True):
            begun = time.process_time()
            for _ in one.batch(BATCH):
                pass
            several.append(1e6 * (time.process_time() - begun) / count)
    return [statistics.median(several[1:]) for several in taken]


if __name__ == "__main__":
    raise SystemExit(main())
