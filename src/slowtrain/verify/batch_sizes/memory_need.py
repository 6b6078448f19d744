"""A script's need of device memory: probes, and their records replayed at other batch sizes."""

from __future__ import annotations

import os
from collections.abc import Iterator

from slowtrain.memory import peak_forecast
from slowtrain.memory.peak_forecast import NO_LIMIT_BYTES, MemoryPool, PeakForecast, replay_requests, unlimited_pool
from slowtrain.model.measurements import Device, MemoryAnswer
from slowtrain.number_text import format_count
from slowtrain.verify.batch_sizes.batch_probe import BatchProbes, device_for_framework, measure_peaks
from slowtrain.verify.batch_sizes.limit_trials import TrialAnswer, try_batches
from slowtrain.verify.measurement.paired_trial import Bench

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
    if not sizing.recorded[0].record.named:
        yield XLA_NOTE
    reached = found.measured[-1].batch
    if largest and largest > 2.5 * reached:
        yield f"the largest batch is {largest / reached:,.0f} times the largest measured batch ({reached:,})"
    if os.environ.get("TF_GPU_ALLOCATOR"):
        yield "TF_GPU_ALLOCATOR is set, but the replay simulates TensorFlow's default allocator"
