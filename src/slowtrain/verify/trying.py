"""Batches beyond the forecast, tried: a few steps under the device's limit, where this computer can give as much.

Which of its ops a run begins first differs from run to run, so a forecast that has to hold in every order is low.
TensorFlow's allocator on the CPU is of the same kind as a card's, and takes its limit from outside.
"""

from __future__ import annotations

import contextlib

from slowtrain.errors import InputError
from slowtrain.memory.replay import Pool
from slowtrain.values import dataclass
from slowtrain.verify.probes import Rule, Treatment
from slowtrain.verify.sizing import ALLOCATOR, LIMIT, STEPS, Sizing, batch_of, recording, spare_bytes, time_for

OUTWARD = 1.04  # times the batch, then its square, and so on, until one does not fit
FURTHEST = 1.4
BRACKET = 0.01
# Below the largest that fitted once, as a share of it, these have to fit as well, and the last is the answer: pieces of
# memory fall differently at every size, and ops come in another order in every run.
BELOW = (0.995, 0.99, 0.985, 0.98)
CLEAR = 0.99  # of the least that failed: 396 fitted three times right below what did not, and not the fourth time
LOWER = 0.97  # times a forecast that did not fit
LONGEST_S = 120.0  # requests that find no memory wait ten seconds each


@dataclass(frozen=True)
class Tried:
    """``batch`` is the forecast, or less, where nothing larger was seen to fit. ``runs``: batches, whether they did."""

    batch: int
    runs: tuple[tuple[int, bool], ...] = ()


def possible(sizing: Sizing, pool: Pool) -> bool:
    """Whether the requests were a CPU's, and this computer has as much memory free as the device has in all.

    JAX could be told its share of a GPU, but is not: its executions fail unseen until somebody waits for them, and XLA
    makes another program where it has less memory.
    """
    on_cpu = bool(sizing.recorded) and "cpu" in sizing.recorded[0].allocator
    return on_cpu and pool.limit_bytes <= spare_bytes()


def tried(sizing: Sizing, pool: Pool, forecast: int) -> Tried:
    """From the forecast outwards, then between what fitted and what did not, while there is time.

    Where nothing larger fits the forecast itself is tried, and less where that does not fit.
    """
    runs: dict[int, bool] = {}
    batch = forecast
    if forecast >= 1 and possible(sizing, pool):
        with contextlib.suppress(InputError):  # the data has no such batch: the forecast stands
            batch = _search(sizing, pool, forecast, runs)
    failed = min((b for b, fitted in runs.items() if not fitted), default=None)
    batch = batch if failed is None else min(batch, int(failed * CLEAR))
    return Tried(batch, tuple(sorted(runs.items())))


def _search(sizing: Sizing, pool: Pool, forecast: int, runs: dict[int, bool]) -> int:
    low, high, factor = forecast, 0, OUTWARD
    while not high and time_for(sizing, int(low * factor)):
        at = max(int(low * factor), low + 1)
        if _reached(sizing, pool, at, runs):
            low, factor = at, min(factor * factor, FURTHEST)
        else:
            high = at
    while high - low > max(BRACKET * low, 1) and time_for(sizing, low):
        middle = (low + high) // 2
        low, high = (middle, high) if _reached(sizing, pool, middle, runs) else (low, middle)
    while low > forecast and time_for(sizing, low):
        below = [int(low * share) for share in BELOW]
        failed = next((b for b in below if b > forecast and not _fits(sizing, pool, b, runs)), None)
        if failed is None and below[-1] > forecast:
            return below[-1]
        low = failed or forecast
    return _taken_back(sizing, pool, forecast, runs)


def _taken_back(sizing: Sizing, pool: Pool, forecast: int, runs: dict[int, bool]) -> int:
    """The forecast, where it and what is just below it fit or have no time to be tried; else less, by the same rule."""
    low = forecast
    while low > 1 and time_for(sizing, low):
        if all(_fits(sizing, pool, int(low * share), runs) for share in (1.0, *BELOW[:2])):
            break
        low = int(low * LOWER)
    return low


def _reached(sizing: Sizing, pool: Pool, batch: int, runs: dict[int, bool]) -> bool:
    """Whether it fits, and the data has so many samples."""
    try:
        return _fits(sizing, pool, batch, runs)
    except InputError:
        return False


def _fits(sizing: Sizing, pool: Pool, batch: int, runs: dict[int, bool]) -> bool:
    """Raises ``InputError`` where no step took so many samples."""
    if batch not in runs:
        limit = pool.limit_bytes >> 20
        treatment = Treatment(environment={**ALLOCATOR, LIMIT: str(limit)})
        what = f"whether a batch of {batch} fits {limit:,} MiB"
        probe = sizing.run(batch, what, treatment, Rule(seconds=1e-3, steps=STEPS), longest_s=LONGEST_S)
        fitted = probe.failed is None
        if fitted:
            trace = recording(probe, sizing.bench.script.target)
            fitted = not probe.stopped or trace.fact("stopped_ns") is not None  # else its time was over: it waits
            if fitted and batch_of(trace) != batch:
                raise InputError(f"no step took {batch:,} samples")
        runs[batch] = fitted
    return runs[batch]
