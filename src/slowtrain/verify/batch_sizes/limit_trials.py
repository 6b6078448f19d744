"""Tries batches beyond the forecast: a few steps under the device's limit, if this computer has as much memory.

The order in which a run starts its ops differs from run to run, so a forecast that holds in every order is low.
TensorFlow's CPU allocator is of the same kind as a card's, and its limit can be set from outside.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass

from slowtrain.errors import InputError
from slowtrain.memory.peak_forecast import MemoryPool
from slowtrain.verify.batch_sizes import circumstances
from slowtrain.verify.batch_sizes.batch_probe import (
    ALLOCATOR_ENVIRONMENT,
    ALLOCATOR_RECORD_STEPS,
    LIMIT_VARIABLE,
    BatchProbes,
    has_time_for,
    probe_trace,
    spare_host_bytes,
    step_batch,
)
from slowtrain.verify.measurement.probe_process import Rule, Treatment

OUTWARD_FACTOR = 1.04  # times the batch, then its square, and so on, until a batch does not fit
MAX_OUTWARD_FACTOR = 1.4
MAX_BRACKET_SHARE = 0.01
# A batch that fits once may not fit the next time: other load changes the order of ops, and pieces of memory fall
# differently at every size. ``language_model`` of clinic/memory_models.py does not fit 1 GiB with 606 to 620 samples,
# but does with 604 and with 624 to 664; with 612 it fits beside busy cores.
FIRST_TRIED_SHARE = 0.99  # of the largest batch that fitted once: it has to fit in every circumstance
ANSWER_SHARE = 0.985  # of that batch: the answer, which has to fit itself
# Repetitions of all circumstances in which the answer has to fit; with one, three of 37 answers failed in a later run.
CIRCUMSTANCE_ROUNDS = 3
MAX_SHARE_OF_FAILED = 0.99  # of the smallest batch that failed
LOWER_FACTOR = 0.98  # times the batch that did not fit
MAX_TRIAL_S = 240.0  # requests that find no memory wait ten seconds each, and a busy computer takes twice as long


@dataclass(frozen=True)
class TrialAnswer:
    """``batch`` is the forecast, or less if nothing else was seen to fit. ``runs``: (batch, whether it fitted)."""

    batch: int
    runs: tuple[tuple[int, bool], ...] = ()


BatchRuns = list[tuple[int, bool]]


def can_try_limit(sizing: BatchProbes, pool: MemoryPool) -> bool:
    """Whether the requests were a CPU's, and this computer has as much free memory as the device in total.

    JAX's share of a GPU could be limited but is not: its executions fail unnoticed until something waits for them, and
    XLA builds another program if it has less memory.
    """
    on_cpu = bool(sizing.recorded) and "cpu" in sizing.recorded[0].allocator
    return on_cpu and pool.limit_bytes <= spare_host_bytes()


def try_batches(sizing: BatchProbes, pool: MemoryPool, forecast: int) -> TrialAnswer:
    """Searches upwards from the forecast, then between fitting and failing batches, then for one that always fits.

    Ends when the time is over. Without time the forecast stands, below what failed.
    """
    runs: BatchRuns = []
    batch = None
    if forecast >= 1 and can_try_limit(sizing, pool):
        with contextlib.suppress(InputError):  # the data has no such batch: the forecast stands
            batch = _settled_batch(sizing, pool, _furthest_fitting(sizing, pool, forecast, runs), runs)
    return TrialAnswer(_clear_of_failures(forecast, runs) if batch is None else batch, tuple(sorted(runs)))


def _furthest_fitting(sizing: BatchProbes, pool: MemoryPool, forecast: int, runs: BatchRuns) -> int:
    """The batch to begin with in the search for what always fits: below what fitted once, or the forecast."""
    low, high, factor = forecast, 0, OUTWARD_FACTOR
    while not high and has_time_for(sizing, int(low * factor)):
        at = max(int(low * factor), low + 1)
        if _fits_and_has_data(sizing, pool, at, runs):
            low, factor = at, min(factor * factor, MAX_OUTWARD_FACTOR)
        else:
            high = at
    while high - low > max(MAX_BRACKET_SHARE * low, 1) and has_time_for(sizing, low):
        middle = (low + high) // 2
        low, high = (middle, high) if _fits_and_has_data(sizing, pool, middle, runs) else (low, middle)
    return max(int(low * FIRST_TRIED_SHARE), forecast)


def _settled_batch(sizing: BatchProbes, pool: MemoryPool, sure: int, runs: BatchRuns) -> int | None:
    """Just below a batch that fits in every circumstance, and fits itself repeatedly.

    None if there is no time to decide.
    """
    while sure > 1:
        answer = max(_clear_of_failures(int(sure * ANSWER_SHARE), runs), 1)
        for batch, circumstance in itertools.product(
            (sure, *[answer] * CIRCUMSTANCE_ROUNDS), circumstances.ALL_CIRCUMSTANCES
        ):
            if not has_time_for(sizing, batch):
                return None
            if not _fits_limit(sizing, pool, batch, runs, circumstance):
                break
        else:
            return answer
        sure = int(min(sure, batch / ANSWER_SHARE) * LOWER_FACTOR)
    return None


def _clear_of_failures(batch: int, runs: BatchRuns) -> int:
    failed = min((b for b, fitted in runs if not fitted), default=None)
    return batch if failed is None else min(batch, int(failed * MAX_SHARE_OF_FAILED))


def _fits_and_has_data(sizing: BatchProbes, pool: MemoryPool, batch: int, runs: BatchRuns) -> bool:
    """Whether it fits, and the data has so many samples."""
    try:
        return _fits_limit(sizing, pool, batch, runs)
    except InputError:
        return False


def _fits_limit(
    sizing: BatchProbes, pool: MemoryPool, batch: int, runs: BatchRuns, circumstance: str = circumstances.ALONE
) -> bool:
    """Whether one run fits. Raises ``InputError`` if no step took so many samples."""
    limit = pool.limit_bytes >> 20
    treatment = Treatment(environment={**ALLOCATOR_ENVIRONMENT, LIMIT_VARIABLE: str(limit)})
    what = f"testing whether a batch of {batch} fits {limit:,} MiB, {circumstance}"
    with circumstances.circumstance_applied(circumstance):
        probe = sizing.run(
            batch, what, treatment, Rule(seconds=1e-3, steps=ALLOCATOR_RECORD_STEPS), longest_s=MAX_TRIAL_S
        )
    fitted = probe.failed is None
    if fitted:
        trace = probe_trace(probe, sizing.bench.script.target)
        fitted = not probe.stopped or trace.fact("stopped_ns") is not None  # else it ran out of time while waiting
        if fitted and step_batch(trace) != batch:
            raise InputError(f"no step took {batch:,} samples")
    runs.append((batch, fitted))
    return fitted
