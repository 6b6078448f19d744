"""Tries batches beyond the forecast: a few steps under the device's limit, if this computer has as much memory.

The order in which a run starts its ops differs from run to run, so a forecast that holds in every order is low.
TensorFlow's CPU allocator is of the same kind as a card's, and its limit can be set from outside.
"""

from __future__ import annotations

import contextlib
import itertools

from slowtrain.errors import InputError
from slowtrain.memory.replay import Pool
from slowtrain.values import dataclass
from slowtrain.verify import circumstances
from slowtrain.verify.probes import Rule, Treatment
from slowtrain.verify.sizing import ALLOCATOR, LIMIT, STEPS, Sizing, batch_of, recording, spare_bytes, time_for

OUTWARD = 1.04  # times the batch, then its square, and so on, until a batch does not fit
FURTHEST = 1.4
BRACKET = 0.01
# A batch that fits once may not fit the next time: other load changes the order of ops, and pieces of memory fall
# differently at every size. ``language_model`` of clinic/memory_models.py does not fit 1 GiB with 606 to 620 samples,
# but does with 604 and with 624 to 664; with 612 it fits beside busy cores.
BELOW = 0.99  # of the largest batch that fitted once: it has to fit in every circumstance
ANSWER = 0.985  # of that batch: the answer, which has to fit itself
# Repetitions of all circumstances in which the answer has to fit; with one, three of 37 answers failed in a later run.
ROUNDS = 3
CLEAR = 0.99  # of the smallest batch that failed
LOWER = 0.98  # times the batch that did not fit
LONGEST_S = 240.0  # requests that find no memory wait ten seconds each, and a busy computer takes twice as long


@dataclass(frozen=True)
class Tried:
    """``batch`` is the forecast, or less if nothing else was seen to fit. ``runs``: (batch, whether it fitted)."""

    batch: int
    runs: tuple[tuple[int, bool], ...] = ()


Runs = list[tuple[int, bool]]


def possible(sizing: Sizing, pool: Pool) -> bool:
    """Whether the requests were a CPU's, and this computer has as much free memory as the device in total.

    JAX's share of a GPU could be limited but is not: its executions fail unnoticed until something waits for them, and
    XLA builds another program if it has less memory.
    """
    on_cpu = bool(sizing.recorded) and "cpu" in sizing.recorded[0].allocator
    return on_cpu and pool.limit_bytes <= spare_bytes()


def tried(sizing: Sizing, pool: Pool, forecast: int) -> Tried:
    """Searches upwards from the forecast, then between fitting and failing batches, then for one that always fits.

    Ends when the time is over. Without time the forecast stands, below what failed.
    """
    runs: Runs = []
    batch = None
    if forecast >= 1 and possible(sizing, pool):
        with contextlib.suppress(InputError):  # the data has no such batch: the forecast stands
            batch = _settled(sizing, pool, _furthest(sizing, pool, forecast, runs), runs)
    return Tried(_clear(forecast, runs) if batch is None else batch, tuple(sorted(runs)))


def _furthest(sizing: Sizing, pool: Pool, forecast: int, runs: Runs) -> int:
    """The batch to begin with in the search for what always fits: below what fitted once, or the forecast."""
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
    return max(int(low * BELOW), forecast)


def _settled(sizing: Sizing, pool: Pool, sure: int, runs: Runs) -> int | None:
    """Just below a batch that fits in every circumstance, and fits itself repeatedly.

    None if there is no time to decide.
    """
    while sure > 1:
        answer = max(_clear(int(sure * ANSWER), runs), 1)
        for batch, circumstance in itertools.product((sure, *[answer] * ROUNDS), circumstances.ALL):
            if not time_for(sizing, batch):
                return None
            if not _fits(sizing, pool, batch, runs, circumstance):
                break
        else:
            return answer
        sure = int(min(sure, batch / ANSWER) * LOWER)
    return None


def _clear(batch: int, runs: Runs) -> int:
    failed = min((b for b, fitted in runs if not fitted), default=None)
    return batch if failed is None else min(batch, int(failed * CLEAR))


def _reached(sizing: Sizing, pool: Pool, batch: int, runs: Runs) -> bool:
    """Whether it fits, and the data has so many samples."""
    try:
        return _fits(sizing, pool, batch, runs)
    except InputError:
        return False


def _fits(sizing: Sizing, pool: Pool, batch: int, runs: Runs, circumstance: str = circumstances.ALONE) -> bool:
    """Whether one run fits. Raises ``InputError`` if no step took so many samples."""
    limit = pool.limit_bytes >> 20
    treatment = Treatment(environment={**ALLOCATOR, LIMIT: str(limit)})
    what = f"whether a batch of {batch} fits {limit:,} MiB, {circumstance}"
    with circumstances.under(circumstance):
        probe = sizing.run(batch, what, treatment, Rule(seconds=1e-3, steps=STEPS), longest_s=LONGEST_S)
    fitted = probe.failed is None
    if fitted:
        trace = recording(probe, sizing.bench.script.target)
        fitted = not probe.stopped or trace.fact("stopped_ns") is not None  # else it ran out of time while waiting
        if fitted and batch_of(trace) != batch:
            raise InputError(f"no step took {batch:,} samples")
    runs.append((batch, fitted))
    return fitted
