"""A script's need of device memory: records replayed at other batch sizes, and batches tried under the device's limit.

The order in which a run starts its ops differs from run to run, so a forecast that holds in every order is low.
TensorFlow's CPU allocator is of the same kind as a card's, and its limit can be set from outside. If this computer has
as much memory as the device, batches beyond the forecast are run for a few steps under that limit.

Which op starts first depends on whether threads run in parallel, and on the other load of the cores. So a batch is
tried in several circumstances.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from slowtrain.errors import InputError
from slowtrain.memory import peak_forecast
from slowtrain.memory.peak_forecast import NO_LIMIT_BYTES, MemoryPool, PeakForecast, replay_requests, unlimited_pool
from slowtrain.model.measurements import Device, MemoryAnswer
from slowtrain.number_text import format_count
from slowtrain.verify.batch_sizes.batch_probe import (
    ALLOCATOR_ENVIRONMENT,
    ALLOCATOR_RECORD_STEPS,
    LIMIT_VARIABLE,
    BatchProbes,
    device_for_framework,
    has_time_for,
    measure_peaks,
    probe_trace,
    spare_host_bytes,
    step_batch,
)
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Rule, Treatment

ALONE = "alone"
ON_ONE_CORE = "on one core"
BESIDE_BUSY_CORES = "with the other cores busy"
ALL_CIRCUMSTANCES = (ALONE, ON_ONE_CORE, BESIDE_BUSY_CORES)
# Ends with its parent, however the parent ends, and also if that happened before the process began to watch it.
_SPIN_SCRIPT = "import os, sys\nparent = int(sys.argv[1])\nwhile os.getppid() == parent: sum(range(10**6))"


@contextlib.contextmanager
def circumstance_applied(circumstance: str) -> Iterator[None]:
    """Processes that are started inside run in this circumstance, because they inherit this thread's affinity.

    If the system has no affinity (macOS, Windows), ``ON_ONE_CORE`` is ``ALONE``.
    """
    if circumstance == ON_ONE_CORE and hasattr(os, "sched_setaffinity"):
        cores = os.sched_getaffinity(0)
        # So that several probes do not all use the same core.
        os.sched_setaffinity(0, {sorted(cores)[os.getpid() % len(cores)]})
        try:
            yield
        finally:
            os.sched_setaffinity(0, cores)
    elif circumstance == BESIDE_BUSY_CORES:
        with contextlib.ExitStack() as stack:
            for _ in range(_count_cores()):
                stack.callback(
                    _end_process, subprocess.Popen([sys.executable, "-S", "-c", _SPIN_SCRIPT, str(os.getpid())])
                )
            yield
    else:
        yield


def _count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


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
        for batch, circumstance in itertools.product((sure, *[answer] * CIRCUMSTANCE_ROUNDS), ALL_CIRCUMSTANCES):
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


def _fits_limit(sizing: BatchProbes, pool: MemoryPool, batch: int, runs: BatchRuns, circumstance: str = ALONE) -> bool:
    """Whether one run fits. Raises ``InputError`` if no step took so many samples."""
    limit = pool.limit_bytes >> 20
    treatment = Treatment(environment={**ALLOCATOR_ENVIRONMENT, LIMIT_VARIABLE: str(limit)})
    what = f"testing whether a batch of {batch} fits {limit:,} MiB, {circumstance}"
    with circumstance_applied(circumstance):
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


CPU_NOTE = (
    "no GPU was available: the requests are those of TensorFlow's CPU kernels (without oneDNN). The libraries of a "
    "card need other workspace, and data and batches in host memory are included here"
)

XLA_NOTE = (
    "XLA keeps the activations, gradients and workspace of a compiled step in one buffer, so they are not listed "
    "separately; if a step does not fit, XLA computes some of them twice, so more may fit than is predicted"
)
MIN_PEAK_DIFFERENCE_SHARE = 0.01  # of a peak: a smaller difference is not reported


def measure_memory_need(bench: Bench, device: Device | None, *, growth: bool = False) -> MemoryAnswer:
    """Measures the need. Raises ``InputError`` for a script that cannot be measured."""
    sizing = BatchProbes(bench)
    sizing.first()
    device = device_for_framework(sizing, device)
    pool = MemoryPool(device.limit_bytes, growth) if device is not None else None
    found = measure_peaks(sizing, pool)
    bench.say("replaying the recorded requests")
    trial = try_batches(sizing, pool, found.largest_fit(pool)) if pool is not None else None
    largest = trial.batch if trial is not None else None
    at_largest = found.outcome(largest, pool) if largest else None
    own = sizing.own
    whole = MemoryPool(NO_LIMIT_BYTES, pool.growth) if pool is not None else unlimited_pool(found.measured[-1])
    at_own = found.outcome(own, whole, holders=True)
    return MemoryAnswer(
        script=bench.script.target,
        allocator=sizing.recorded[0].allocator,
        need=peak_forecast.peak_need(found.requests(own), own, at_own, sizing.recorded[0].variables),
        device=device,
        fits=_fits_by_trial(found, own, pool, trial) if pool is not None and trial is not None else None,
        largest_batch=largest,
        largest_peak_bytes=at_largest.peak_bytes if at_largest is not None and at_largest.fits else None,
        measured=tuple((m.batch, m.record.peak_bytes) for m in found.measured),
        error_share=found.error_share,
        tried=trial.runs if trial is not None else (),
        notes=(
            *memory_notes(sizing, found, largest, device),
            *_replay_difference_notes(found, own, at_own.peak_bytes, pool),
            *_order_variation_notes(found, own, whole),
        ),
    )


def _replay_difference_notes(found: PeakForecast, own: int, replayed: int, pool: MemoryPool | None) -> Iterator[str]:
    """Explains why record and replay differ at the script's own batch, if their memory comes in different ways."""
    taken = next((m.record.peak_bytes for m in found.measured if m.batch == own), replayed)
    if pool is None or pool.growth or abs(taken - replayed) <= MIN_PEAK_DIFFERENCE_SHARE * replayed:
        return
    if abs(found.outcome(own).peak_bytes - taken) <= MIN_PEAK_DIFFERENCE_SHARE * taken:
        yield (
            f"the {taken / (1 << 20):,.0f} MiB measured at batch {own:,} are in regions that grow, whose pieces are "
            f"larger than the requests: one region, as on a card without --growth, takes {replayed / (1 << 20):,.0f}"
        )


def _order_variation_notes(found: PeakForecast, own: int, pool: MemoryPool) -> Iterator[str]:
    """How far peaks differ by the order of ops alone, which changes from run to run."""
    peaks = [replay_requests(order, own, pool).peak_bytes for order in found.orders]
    if max(peaks) > (1 + MIN_PEAK_DIFFERENCE_SHARE) * min(peaks):
        low, high = (f"{peak / (1 << 20):,.0f}" for peak in (min(peaks), max(peaks)))
        yield (
            "the order of ops varies from run to run, and with it the memory in use: in the recorded orders a step "
            f"of {format_count(own, 'sample')} takes {low} to {high} MiB"
        )


def _fits_by_trial(found: PeakForecast, own: int, pool: MemoryPool, trial: TrialAnswer) -> bool:
    """Whether the script's own batch fits, decided by the runs if there were any."""
    return own <= trial.batch if trial.runs else found.fits(own, pool)


def memory_notes(sizing: BatchProbes, found: PeakForecast, largest: int | None, device: Device | None) -> Iterator[str]:
    """Notes on memory that was measured so, and on the largest batch."""
    if device is not None and device.known != "given":
        yield f"the memory of {device.name} is taken as {device.limit_bytes >> 20:,} MiB: {device.source}"
    if "cpu" in sizing.recorded[0].allocator:
        yield CPU_NOTE
    if not sizing.recorded[0].record.names_ops:
        yield XLA_NOTE
    reached = found.measured[-1].batch
    if largest and largest > 2.5 * reached:
        yield f"the largest batch is {largest / reached:,.0f} times the largest measured batch ({reached:,})"
    if os.environ.get("TF_GPU_ALLOCATOR"):
        yield "TF_GPU_ALLOCATOR is set, but the replay simulates TensorFlow's default allocator"
