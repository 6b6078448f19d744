"""How often memory that does not leak is taken for a leak, and how often one that does is found.

    python clinic/leak_power.py --runs 2000 --markdown docs/leaks.md

Runs are simulated as series of a process's memory, 60 to 600 samples over 200 to 20,000 steps, and go through the
statistics that `memory/host-leak` and `memory/device-leak` share. What the causes ask for besides (a container that was
seen to grow, or much of it) is left out but for the least number of bytes, so that fewer alarms reach a report.
"""

from __future__ import annotations

import argparse
import collections
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pages import fill

from slowtrain.causes.memory.host_leak import MIN_GROWN_BYTES
from slowtrain.columns.steps import Steps
from slowtrain.trace import Trace
from slowtrain.trace.signals import memory_growth

Floats = NDArray[np.float64]
Draw = np.random.Generator
STEP_MS = 10.0
LEAKS_MB = (40, 80, 160, 320, 640)  # over the run


def walk(draw: Draw, n: int, _done: Floats) -> Floats:
    """Allocators that take and give back as it comes."""
    return np.cumsum(draw.normal(0, 1, n)) / math.sqrt(n)


def heavy_walk(draw: Draw, n: int, _done: Floats) -> Floats:
    return np.cumsum(draw.standard_t(3, n)) / math.sqrt(n)


def momentum(draw: Draw, n: int, _done: Floats) -> Floats:
    """A walk whose steps hang together for a hundredth of the run."""
    return np.cumsum(smooth(draw.normal(0, 1, n), n / 100)) / math.sqrt(n)


def smooth(noise: Floats, memory: float) -> Floats:
    """A process of the first order that forgets within so many samples."""
    keep, level, found = 1 - 1 / max(memory, 1.01), 0.0, np.empty(len(noise))
    for i, shock in enumerate(noise * math.sqrt(1 - keep**2)):
        level = keep * level + shock
        found[i] = level
    return found


def white(draw: Draw, n: int, _done: Floats) -> Floats:
    return draw.normal(0, 0.3, n)


def autocorrelated(draw: Draw, n: int, _done: Floats) -> Floats:
    return 0.5 * smooth(draw.normal(0, 1, n), n / 25)


def heavy(draw: Draw, n: int, _done: Floats) -> Floats:
    return 0.2 * draw.standard_t(2, n)


def temporary(draw: Draw, n: int, _done: Floats) -> Floats:
    """Tensors that a step needs for a moment."""
    return (draw.random(n) < draw.uniform(0.2, 0.8)).astype(np.float64)


def sawtooth(draw: Draw, _n: int, done: Floats) -> Floats:
    """Garbage that is collected now and then."""
    every = draw.uniform(0.02, 0.2) * done[-1]
    return np.asarray((done % every) / every, dtype=np.float64)


def plateau(draw: Draw, n: int, done: Floats) -> Floats:
    """Caches that fill for up to half of the run, and small noise."""
    filled = np.minimum(done / (draw.uniform(0.05, 0.5) * done[-1]), 1.0)
    return np.asarray(filled + draw.normal(0, 0.02, n), dtype=np.float64)


def jumps(draw: Draw, n: int, done: Floats) -> Floats:
    """A validation, a checkpoint: memory that is taken once and kept."""
    at = draw.uniform(0, 1, int(draw.integers(1, 3))) * done[-1]
    return np.asarray((done[:, None] > at).sum(1) / len(at) + draw.normal(0, 0.02, n), dtype=np.float64)


SHAPES: tuple[Callable[[Draw, int, Floats], Floats], ...] = (
    walk, heavy_walk, momentum, white, autocorrelated, heavy, temporary, sawtooth, plateau, jumps,
)  # fmt: skip


def simulated(draw: Draw, shape: Callable[[Draw, int, Floats], Floats], leak_mb: float, spread_mb: float) -> bool:
    """Whether such a run is taken for one that leaks."""
    samples = int(math.exp(draw.uniform(math.log(60), math.log(600))))
    steps = int(math.exp(draw.uniform(math.log(200), math.log(20_000))))
    start: Floats = np.arange(steps, dtype=np.float64) * STEP_MS
    no = np.zeros(steps, dtype=bool)
    zero = np.zeros(steps, dtype=np.int64)
    trace = Trace(steps=Steps("fit", start, start + STEP_MS, np.arange(steps) >= 2, no, zero, zero))
    at = np.sort(draw.uniform(1.0, steps * STEP_MS - 1.0, samples))
    done = np.floor(at / STEP_MS) + 1
    warm = 200 * (1 - np.exp(-done / between(draw, 2, steps / 20)))
    used = 600 + warm + leak_mb * done / steps + spread_mb * shape(draw, samples, done)
    found = memory_growth.memory_slope(trace, at, 1e6 * used)
    return found is not None and found.grows and found.total_bytes >= MIN_GROWN_BYTES


def between(draw: Draw, low: float, high: float) -> float:
    return float(math.exp(draw.uniform(math.log(low), math.log(max(high, low)))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="of each shape that do not leak")
    parser.add_argument("--leaking", type=int, default=200, help="runs for each leak and shape")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markdown", type=Path, help="put the tables into that page")
    args = parser.parse_args()
    wrong: collections.Counter[str] = collections.Counter()
    found: dict[tuple[str, int], float] = {}
    for i, shape in enumerate(SHAPES):
        draw = np.random.default_rng((args.seed, i))
        name = shape.__name__.replace("_", " ")
        wrong[name] = sum(simulated(draw, shape, 0.0, between(draw, 20, 500)) for _ in range(args.runs))
        for leak in LEAKS_MB:
            draw = np.random.default_rng((args.seed, i, leak))
            seen = sum(simulated(draw, shape, leak, 100.0) for _ in range(args.leaking))
            found[name, leak] = seen / max(args.leaking, 1)
        print(name, f"{wrong[name] / args.runs:.2%}", [f"{found[name, leak]:.0%}" for leak in LEAKS_MB], flush=True)
    made = f"Made by `python clinic/leak_power.py --runs {args.runs} --leaking {args.leaking} --seed {args.seed}`."
    text = table(made, args.runs, wrong, found)
    print(text)
    if args.markdown:
        fill(args.markdown, text)
    return 0


def table(made: str, runs: int, wrong: collections.Counter[str], found: dict[tuple[str, int], float]) -> str:
    share = sum(wrong.values()) / (runs * len(wrong))
    said = f"{sum(wrong.values())} of {runs * len(wrong):,} runs that do not leak were taken for leaks ({share:.2%})."
    rows = [made, "", said, "", "| memory | taken for a leak | " + " | ".join(f"{m} MB" for m in LEAKS_MB) + " |"]
    rows.append("|---" * (2 + len(LEAKS_MB)) + "|")
    for name, count in wrong.items():
        cells = " | ".join(f"{found[name, leak]:.0%}" for leak in LEAKS_MB)
        rows.append(f"| {name} | {count / runs:.2%} | {cells} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(main())
