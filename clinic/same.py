"""How often ``fix`` would call a change better that is none: the same script against itself, under changing load.

    python clinic/same.py --comparisons 100 --markdown docs/false-alarms.md

Each comparison runs pairs of processes of one small NumPy training loop and looks after each of the pairs that
``verify`` looks after, with its own statistics. Meanwhile another process makes load that comes and goes at random,
so that neighbours differ. A comparison that ends with «better» is a false alarm.
"""

from __future__ import annotations

import argparse
import collections
import random
import subprocess
import sys
import threading
from pathlib import Path

from pages import fill

from slowtrain.verify.measurement.paired_trial import (
    BETTER,
    CANNOT_TELL,
    LOOK_PAIRS,
    NO_BETTER,
    is_decided,
    speedup_ratio,
)

LOOP = """
import time
import numpy as np
rng = np.random.default_rng(0)
x, w = rng.normal(size=(256, 128)), rng.normal(size=(128, 64))
def step():
    global w
    h = np.tanh(x @ w)
    w = w - 1e-4 * (x.T @ (h * (1 - h * h)))
for _ in range(20): step()
begun = time.perf_counter()
for _ in range({steps}): step()
print(time.perf_counter() - begun)
"""
LOAD = "import time\nend = time.time() + {seconds}\nwhile time.time() < end: sum(range(1000))"


def once(steps: int) -> float:
    done = subprocess.run([sys.executable, "-c", LOOP.format(steps=steps)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def comparison(steps: int) -> tuple[str, int, float]:
    """Outcome, pairs that it took, and the estimate."""
    pairs: list[tuple[float, float]] = []
    while True:
        first, second = once(steps), once(steps)
        pairs.append((first, second) if len(pairs) % 2 == 0 else (second, first))
        found = speedup_ratio(pairs)
        if is_decided(found):
            return found.outcome, found.pairs, found.speedup


def disturb(stop: threading.Event, seed: int) -> None:
    """Load of a core or two for a while, then none for a while."""
    draw = random.Random(seed)
    while not stop.is_set():
        busy = [
            subprocess.Popen([sys.executable, "-c", LOAD.format(seconds=draw.uniform(0.2, 3.0))])
            for _ in range(draw.choice((0, 1, 1, 2)))
        ]
        stop.wait(draw.uniform(0.2, 3.0))
        for one in busy:
            one.kill()
            one.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=100)
    parser.add_argument("--steps", type=int, default=150, help="of the loop in each process")
    parser.add_argument("--markdown", type=Path, help="put the table into that page")
    args = parser.parse_args()
    stop = threading.Event()
    load = threading.Thread(target=disturb, args=(stop, 0))
    load.start()
    found = []
    try:
        for number in range(args.comparisons):
            found.append(comparison(args.steps))
            print(number + 1, *found[-1], flush=True)
    finally:
        stop.set()
        load.join()
    counts = collections.Counter(outcome for outcome, _, _ in found)
    apart = sorted(abs(speedup - 1) for _, _, speedup in found)
    rows = ["| outcome | comparisons |", "|---|---|"]
    rows += [f"| {outcome} | {counts[outcome]} |" for outcome in (BETTER, NO_BETTER, CANNOT_TELL)]
    pairs = sum(p for _, p, _ in found) / len(found)
    made = (
        f"Made by `python clinic/same.py --comparisons {args.comparisons} --steps {args.steps}`: "
        f"{counts[BETTER]} of {len(found)} called better ({counts[BETTER] / len(found):.1%}); "
        f"at most {LOOK_PAIRS[-1]} pairs each, {pairs:.1f} in the mean; "
        f"half of the estimates lie within {apart[len(apart) // 2]:.1%} of 1."
    )
    print(made)
    if args.markdown:
        fill(args.markdown, "\n".join([made, "", *rows]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
