"""How often the three causes of drift speak of a run in which nothing drifts, and how often they find what does.

    python clinic/drift_power.py --runs 2000 --markdown docs/drift.md

Runs are simulated as series of step times, 500 to 50,000 of them, and go through the causes as recordings do: noise of
several shapes, hanging together over up to a fiftieth of the run, with epochs, warm-up, short last batches, an epoch's
own ups and downs, and stalls that take at most three hundredths of the run. All that varies is booked on the
script's own Python, where the causes ask for least. Drifts are the same runs with a step time that grows.
"""

from __future__ import annotations

import argparse
import collections
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pages import fill

from slowtrain.causes import all_causes
from slowtrain.columns.steps import Steps
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Attribution, Category, Part, Signal
from slowtrain.trace import Trace

Floats = NDArray[np.float64]
SHAPES = ("gaussian", "heavy tail", "lognormal", "autocorrelated", "bursts", "two kinds", "sizes")
LENGTHS = (500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
RATES = (0.02, 0.05, 0.1, 0.2, 0.5)  # of the first step, for each thousand steps
MOST_STALLED = 0.03  # of the run: more is worth a word
CAUSES = tuple(c for c in all_causes() if c.family == "drift")
GROWING = "drift/growing-step"
IMAGE = Path(__file__).parent.parent / "docs" / "images" / "drift-power.svg"


@dataclass(frozen=True)
class Run:
    """A simulated run; ``shape`` is that of its noise."""

    shape: str
    trace: Trace


@dataclass(frozen=True)
class Answer:
    """What was said of a run that is not kept."""

    shape: str
    steps: int
    said: tuple[str, ...]


def between(draw: np.random.Generator, low: float, high: float) -> float:
    """A number between both, small ones as likely as large ones."""
    return float(math.exp(draw.uniform(math.log(low), math.log(max(high, low)))))


def noise(draw: np.random.Generator, shape: str, n: int) -> Floats:
    """Factors around 1."""
    if shape == "gaussian":
        return np.maximum(draw.normal(1, draw.uniform(0.01, 0.15), n), 0.3)
    if shape == "heavy tail":
        return np.maximum(1 + draw.uniform(0.01, 0.1) * draw.standard_t(3, n), 0.3)
    if shape == "lognormal":
        return draw.lognormal(0, draw.uniform(0.05, 0.5), n)
    if shape == "autocorrelated":
        return autocorrelated(draw, n)
    if shape == "bursts":
        return bursts(draw, n)
    kinds = np.where(draw.random(n) < draw.uniform(0.05, 0.5), draw.uniform(1.2, 2.0), 1.0)
    return kinds * draw.normal(1, 0.03, n)


def autocorrelated(draw: np.random.Generator, n: int) -> Floats:
    """A process of the first order that forgets within at most a fiftieth of the run."""
    keep = 1 - 1 / between(draw, 2, n / 50)
    shocks = draw.normal(0, math.sqrt(1 - keep**2), n)
    level, found = draw.normal(), np.empty(n)
    for i, shock in enumerate(shocks):
        level = keep * level + shock
        found[i] = level
    return np.maximum(1 + draw.uniform(0.02, 0.15) * found, 0.3)


def bursts(draw: np.random.Generator, n: int) -> Floats:
    """Another process comes and goes, for at most a fiftieth of the run each time."""
    found = draw.normal(1, 0.03, n)
    wanted, factor = draw.uniform(0.02, 0.2) * n, draw.uniform(1.1, 2.0)
    while wanted > 0:
        length = int(between(draw, 3, n / 50))
        at = int(draw.integers(0, n))
        found[at : at + length] *= factor
        wanted -= length
    return found


def simulated(draw: np.random.Generator, n: int, rate: float = 0.0) -> Run:
    """A run of ``n`` steps, each thousand of which make a step slower by ``rate`` of the first."""
    shape = str(draw.choice(SHAPES))
    step_ms = between(draw, 1, 100)
    factor = noise(draw, "gaussian" if shape == "sizes" else shape, n)
    if draw.random() < 0.3:
        factor *= noise(draw, str(draw.choice(("gaussian", "heavy tail", "autocorrelated", "bursts"))), n)
    number = np.arange(n)
    ms = step_ms * (factor + rate * number / 1000)
    ms *= 1 + draw.uniform(0, 2) * np.exp(-number / between(draw, 3, 100))
    size = np.full(n, 32, dtype=np.int64)
    if shape == "sizes":
        size = draw.choice(np.array([16, 32, 64]), n)
        ms *= 0.3 + 0.7 * size / 32
    block = np.zeros(n, dtype=np.int64)
    if draw.random() < 0.7:
        block = epochs(draw, ms)
    if draw.random() < 0.5:
        stall(draw, ms)
    return Run(shape, traced(ms, size, block))


def epochs(draw: np.random.Generator, ms: Floats) -> NDArray[np.int64]:
    """Numbers of epochs; their edges and their inside are made as they are in real ones."""
    n = len(ms)
    length = int(between(draw, 20, n / 2))
    block = np.arange(n) // length
    place = np.arange(n) % length
    ms[place == 0] *= draw.uniform(1, 5)
    ms[place == length - 1] *= draw.uniform(0.3, 1)
    if draw.random() < 0.3:
        ms *= 1 + draw.uniform(-0.15, 0.15) * place / length
    return block


def stall(draw: np.random.Generator, ms: Floats) -> None:
    """Stalls that are not worth a word, regular ones or not."""
    n, every = len(ms), between(draw, 20, len(ms) / 5)
    at = np.arange(int(every), n, int(every)) if draw.random() < 0.5 else draw.integers(0, n, max(int(n / every), 1))
    each = float(np.median(ms)) * draw.uniform(5, 30)
    ms[at] += min(each, draw.uniform(0.2, 1) * MOST_STALLED * float(ms.sum()) / len(at))


def traced(ms: Floats, size: NDArray[np.int64], block: NDArray[np.int64]) -> Trace:
    """The series as a trace; between epochs lies a pause."""
    n = len(ms)
    end = np.cumsum(ms) + 50.0 * block
    steps = Steps("fit", end - ms, end, np.arange(n) >= 2, np.zeros(n, dtype=bool), block, size)
    least = np.full(n, 0.2 * float(ms.min()))
    total = float(end[-1])
    return Trace(
        signals=frozenset(Signal),
        steps=steps,
        categories={Category.DEVICE: least, Category.PYTHON: ms - least},
        run=Attribution(total, (Part("steps", float(ms.sum()), float(ms.sum()) / total),)),
        facts={"usable_cores": 2.0},
    )


def alarms(run: Run) -> tuple[str, ...]:
    return tuple(d.cause for d in diagnose_trace(run.trace, CAUSES).diagnoses)


def false_alarms(runs: int, seed: int) -> Iterator[Answer]:
    draw = np.random.default_rng(seed)
    for _ in range(runs):
        one = simulated(draw, int(between(draw, LENGTHS[0], LENGTHS[-1])))
        yield Answer(one.shape, len(one.trace.steps), alarms(one))


def power(rate: float, length: int, runs: int, seed: int) -> float:
    """The share of such runs in which the growth is found."""
    draw = np.random.default_rng((seed, int(1000 * rate), length))
    return sum(GROWING in alarms(simulated(draw, length, rate)) for _ in range(runs)) / runs


def table(made: str, wrong: list[Answer], found: dict[tuple[float, int], float]) -> str:
    count = collections.Counter(one.shape for one in wrong)
    shaped = collections.Counter(one.shape for one in wrong if one.said)
    by_cause = collections.Counter(cause for one in wrong for cause in one.said)
    share, each = sum(shaped.values()) / len(wrong), ", ".join(f"{c.id} {by_cause[c.id]}" for c in CAUSES)
    said = f"{sum(shaped.values())} of {len(wrong)} healthy runs gave a false alarm ({share:.2%}; {each})."
    rows = [made, "", said, "", "| noise | runs | false alarms |", "|---|---|---|"]
    rows += [f"| {shape} | {count[shape]} | {shaped[shape]} |" for shape in SHAPES]
    rows += ["", "Drifts that were found, by the steps of the run:", ""]
    rows += ["| slower every 1000 steps | " + " | ".join(f"{n:,}" for n in LENGTHS) + " |", "|---" * 8 + "|"]
    rows += [f"| {rate:.0%} | " + " | ".join(f"{found[rate, n]:.0%}" for n in LENGTHS) + " |" for rate in RATES]
    return "\n".join(rows) + "\n"


def drawn(found: dict[tuple[float, int], float]) -> str:
    """The curves as a picture: the run's length to the right, the share found upwards."""
    wide, high, left, low = 640, 320, 60, 40
    inks = ("#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#08306b")

    def at(n: int, share: float) -> str:
        place = math.log(n / LENGTHS[0]) / math.log(LENGTHS[-1] / LENGTHS[0])
        return f"{left + place * (wide - left - 90):.1f},{high - low - share * (high - 2 * low):.1f}"

    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="12">',
        f'<rect width="{wide}" height="{high}" fill="#fff"/>',
        f'<text x="{left}" y="20">share of drifting runs in which the drift is found</text>',
    ]
    for share in (0.0, 0.5, 1.0):
        y = at(LENGTHS[0], share).split(",")[1]
        rows.append(f'<path d="M{at(LENGTHS[0], share)} L{at(LENGTHS[-1], share)}" stroke="#ddd"/>')
        rows.append(f'<text x="{left - 8}" y="{float(y) + 4}" text-anchor="end">{share:.0%}</text>')
    for n in LENGTHS:
        x = at(n, 0).split(",")[0]
        rows.append(f'<text x="{x}" y="{high - low + 18}" text-anchor="middle">{n:,}</text>')
    rows.append(f'<text x="{wide / 2 - 40}" y="{high - 4}" text-anchor="middle">steps of the run</text>')
    for rate, ink in zip(RATES, inks, strict=True):
        line = " L".join(at(n, found[rate, n]) for n in LENGTHS)
        rows.append(f'<path d="M{line}" fill="none" stroke="{ink}" stroke-width="2"/>')
        middle = min(LENGTHS, key=lambda n: abs(found[rate, n] - 0.5))
        x, y = at(middle, found[rate, middle]).split(",")
        rows.append(f'<text x="{float(x) + 6}" y="{float(y) + 14}" fill="{ink}">{rate:.0%}</text>')
    rows.append(f'<text x="{wide - 84}" y="60" fill="#2171b5">slower every</text>')
    rows.append(f'<text x="{wide - 84}" y="76" fill="#2171b5">1000 steps</text></svg>')
    return "\n".join(rows) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="healthy ones")
    parser.add_argument("--drifting", type=int, default=100, help="runs for each slope and length")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markdown", type=Path, help="put the tables into that page, and the curves beside it")
    args = parser.parse_args()
    wrong = list(false_alarms(args.runs, args.seed))
    for one in wrong:
        if one.said:
            print(one.shape, one.steps, *one.said, flush=True)
    print(f"{sum(bool(one.said) for one in wrong)} of {len(wrong)} healthy runs gave a false alarm", flush=True)
    found = {(r, n): power(r, n, args.drifting, args.seed) for r in RATES for n in LENGTHS} if args.drifting else {}
    if not found:
        return 0
    made = f"Made by `python clinic/drift_power.py --runs {args.runs} --drifting {args.drifting} --seed {args.seed}`."
    text = table(made, wrong, found)
    print(text)
    if args.markdown:
        fill(args.markdown, text)
        IMAGE.parent.mkdir(exist_ok=True)
        IMAGE.write_text(drawn(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
