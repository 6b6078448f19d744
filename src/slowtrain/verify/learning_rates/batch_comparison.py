"""Compares batches, each with a scaled learning rate, by the samples and the seconds that they need to the same loss.

Steps cannot be compared: a larger batch has fewer and longer ones.
"""

from __future__ import annotations

import functools
import math
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from slowtrain.errors import InputError
from slowtrain.model import Place
from slowtrain.model.learning_rates import BatchGain, BatchPoint, BatchSweep
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.verify.batch_sizes.batch_probe import step_batch
from slowtrain.verify.learning_rates.loss_curves import LossCurve, loss_curve
from slowtrain.verify.learning_rates.rate_probes import (
    OVER_NOTE,
    RateProbes,
    Run,
    SeedTrial,
    TimeOver,
    Variant,
    run_pairs,
)
from slowtrain.verify.learning_rates.steps_to_loss import end_loss
from slowtrain.verify.measurement.paired_trial import BETTER

LARGER_FACTORS = (2.0, 4.0)  # times the script's batch
SMALLER_FACTOR = 0.5  # if no larger batch is faster
MIN_BATCH_STEPS = 40  # of a process: with fewer, the mean of some of them says little
MIN_SAMPLES_SHARE = 0.95  # of the samples with the script's own batch: rounding to whole batches may lose a few
MIN_TRIED_TIMES = 1.5  # times fewer seconds in one process: less is not worth six more processes
LINEARLY, BY_ROOT = "linearly", "by the square root"


class _NotComparable(Exception):
    """Why no other batch can be compared."""


@dataclass(frozen=True)
class _Tried:
    """One process. Its curve is None if its loss was not finite."""

    variant: Variant
    curve: LossCurve | None

    def seconds_to(self, loss: float) -> float:
        """Infinite if it never had the loss."""
        seconds = self.curve.seconds_to(loss) if self.curve is not None else None
        return math.inf if seconds is None else seconds


def compare_batches(probes: RateProbes, base: Variant, run: Run) -> tuple[BatchSweep | None, list[str]]:
    """Tries other batches than that of ``run``, a process of ``base``; returns also notes, with the reason if None."""
    try:
        own = _own_curve(probes, run)
        tried, is_complete = _run_batches(probes, base, own)
    except _NotComparable as why:
        return None, [f"other batches were not tried: {why}"]
    loss = end_loss(own.losses)
    best, gain, notes = min(tried, key=lambda one: one.seconds_to(loss)), None, list[str]()
    if is_complete and tried[0].seconds_to(loss) >= MIN_TRIED_TIMES * best.seconds_to(loss):
        trial = run_pairs(probes, base, best.variant, functools.partial(_pair_costs, LossCurve.seconds_to))
        gain, is_complete = _batch_gain(probes, best.variant, trial), not trial.time_over
        if gain is None and not trial.time_over:
            notes.append(f"that a batch of {best.variant.batch:,} is faster was not confirmed with other seeds")
    if gain is None and not is_complete:
        notes.append(OVER_NOTE)
    sweep = BatchSweep(
        probes.own_batch,
        probes.rate(base),
        LINEARLY if probes.written.scales_linearly else BY_ROOT,
        loss,
        tuple(_batch_point(probes, one, own, loss) for one in sorted(tried, key=lambda one: _batch(probes, one))),
        gain,
        gain is not None or is_complete,
    )
    return sweep, notes


def _own_curve(probes: RateProbes, run: Run) -> LossCurve:
    """The curve with the script's own batch, which is noted in ``probes``."""
    trace = recording_trace.load_recording(run.probe.folder)
    curve, probes.own_batch = loss_curve(run.probe, trace), step_batch(trace)
    if curve is None:
        raise _NotComparable("the steps do not show how many samples they take")
    if not curve.falls:
        raise _NotComparable("the loss does not fall at this learning rate")
    return curve


def _run_batches(probes: RateProbes, base: Variant, own: LossCurve) -> tuple[list[_Tried], bool]:
    """The processes, that of ``base`` first, and whether there was time for all."""
    tried, loss = [_Tried(base, own)], end_loss(own.losses)
    try:
        for factor in LARGER_FACTORS:
            tried += _try_batch(probes, base, factor)
        is_any_faster = any(one.seconds_to(loss) < tried[0].seconds_to(loss) for one in tried[1:])
        if not is_any_faster and probes.own_batch % 2 == 0:
            tried += _try_batch(probes, base, SMALLER_FACTOR)
    except TimeOver:
        if len(tried) == 1:
            raise _NotComparable(OVER_NOTE) from None
        return tried, False
    if len(tried) == 1:
        raise _NotComparable(f"they take too few steps for the samples of {probes.steps} steps")
    return tried, True


def _try_batch(probes: RateProbes, base: Variant, factor: float) -> Iterator[_Tried]:
    """Yield the process with ``factor`` times the batch; nothing if it would take too few steps, or cannot be made."""
    rate_factor = factor if probes.written.scales_linearly else math.sqrt(factor)
    variant = replace(base, factor=base.factor * rate_factor, batch=int(probes.own_batch * factor))
    if probes.required_steps(variant) < MIN_BATCH_STEPS:
        return
    if probes.step_place is not None and not probes.batch_edits(variant):
        return  # an edit only enlarges a batch
    probes.require_time(1)
    run = probes.run(variant)
    trace = _trace_of(run, variant)
    if step_batch(trace) == probes.own_batch and probes.step_place is None and trace.steps.place is not None:
        # The batch does not change from outside: it is no argument of a framework's function.
        place = trace.steps.place
        probes.step_place = Place(os.path.join(trace.root, place.file), place.line)
        if probes.batch_edits(variant):
            probes.require_time(1)
            run = probes.run(variant)
            trace = _trace_of(run, variant)
    if step_batch(trace) != variant.batch:
        raise _NotComparable(
            f"the batch cannot be changed from outside: {variant.batch:,} samples were requested, the steps took "
            f"{step_batch(trace):,}"
        )
    yield _Tried(variant, loss_curve(run.probe, trace))


def _trace_of(run: Run, variant: Variant) -> Trace:
    try:
        return recording_trace.load_recording(run.probe.folder)
    except InputError as error:
        raise _NotComparable(f"a batch of {variant.batch:,} failed: {run.probe.failed or error}") from error


def _pair_costs(cost: Callable[[LossCurve, float], float | None], own: Run, other: Run) -> tuple[float, float] | None:
    """The costs of both to the loss that the own batch reaches; None if one never has it."""
    try:
        one, two = (loss_curve(run.probe, recording_trace.load_recording(run.probe.folder)) for run in (own, other))
    except InputError:
        return None
    if one is None or two is None or not one.falls:
        return None
    loss = end_loss(one.losses)
    before, after = cost(one, loss), cost(two, loss)
    return (before, after) if before and after else None


def _batch_gain(probes: RateProbes, variant: Variant, trial: SeedTrial) -> BatchGain | None:
    """The gain, if it is proven that fewer seconds are needed, and each pair had the loss."""
    found = trial.ratio
    if found is None or found.outcome != BETTER or len(trial.costs) < len(trial.runs):
        return None
    samples = [_pair_costs(LossCurve.samples_to, own, other) for own, other in trial.runs]
    return BatchGain(
        variant.batch, probes.rate(variant), found.speedup, found.low, found.high,
        _mean_ratio([one for one in samples if one is not None]), found.pairs,
    )  # fmt: skip


def _mean_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """The geometric mean of the second over the first."""
    return statistics.geometric_mean(after / before for before, after in pairs)


def _batch(probes: RateProbes, one: _Tried) -> int:
    return one.variant.batch or probes.own_batch


def _batch_point(probes: RateProbes, one: _Tried, own: LossCurve, loss: float) -> BatchPoint:
    batch, rate, curve = _batch(probes, one), probes.rate(one.variant), one.curve
    if curve is None:
        return BatchPoint(batch, rate, None, None, None, 0)
    is_as_long = curve.samples >= MIN_SAMPLES_SHARE * own.samples
    samples = curve.samples_to(loss)
    return BatchPoint(
        batch, rate, curve.loss_after(min(own.samples, curve.samples)) if is_as_long else None,
        round(samples) if samples is not None else None, curve.seconds_to(loss), round(curve.samples),
    )  # fmt: skip
