"""Compares losses at multiples of a script's learning rate: one process for each, then pairs with other seeds.

The best of several rates looks better than it is, because one of them was lucky. So the gain comes only from pairs that
run afterwards, with other seeds: the process is the sample, as in ``paired_trial``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from slowtrain.columns.arrays import Floats
from slowtrain.errors import InputError
from slowtrain.model.learning_rates import BatchSweep, RateGain, RatePoint, RateSweep
from slowtrain.number_text import format_count
from slowtrain.trace.loading import recording_trace, side_files
from slowtrain.trace.signals.loss_curve import SPIKE_FACTOR
from slowtrain.verify.learning_rates.batch_comparison import compare_batches
from slowtrain.verify.learning_rates.rate_probes import (
    OVER_NOTE,
    OWN,
    RateProbes,
    Run,
    SeedTrial,
    TimeOver,
    Variant,
    run_pairs,
)
from slowtrain.verify.learning_rates.steps_to_loss import MIN_SMOOTHED, compare_steps, end_loss, first_step_at
from slowtrain.verify.measurement.candidate_proof import uncontained_effects
from slowtrain.verify.measurement.paired_trial import BETTER, Bench

FACTORS = (0.1, 3.0, 10.0)  # times the script's own rate
FURTHER = 10.0  # times the last one, as long as it is the best
MAX_FACTOR = 1000.0
START_SHARE = 0.1  # of the steps, in which the loss may jump
MIN_TRIED_TIMES = 1.5  # times fewer steps in one process: less is not worth six more processes
SAME_SEEDS_NOTE = "other seeds give the same losses: the interval does not contain what other seeds would change"
WARM_UP = Variant(warm_up=True)


def measure_rates(bench: Bench) -> RateSweep:
    """Measures the sweep. Raises ``InputError`` for a script whose rate or loss is not known."""
    probes = RateProbes(bench)
    uncontained_effects(bench)
    try:
        own = probes.run(OWN)
    except TimeOver:
        raise InputError(f"{bench.script.target}: {OVER_NOTE}") from None
    runs, notes = {OWN: own}, list[str]()
    try:
        notes += _run_rates(probes, runs)
    except TimeOver:
        notes.append(OVER_NOTE)
    best = _best_variant(runs)
    first = compare_steps(own.losses, runs[best].losses)
    trial = SeedTrial()
    if best != OWN and first.times >= MIN_TRIED_TIMES:
        trial = run_pairs(probes, OWN, best, _step_costs)
        notes += _trial_notes(trial, own)
    gain = _rate_gain(probes, best, trial)
    is_complete = gain is not None or OVER_NOTE not in notes
    batches: BatchSweep | None = None
    if is_complete:
        base = best if gain is not None else OWN
        batches, more = compare_batches(probes, base, runs[base])
        notes += more
    facts = recording_trace.load_recording(own.probe.folder).facts
    return RateSweep(
        script=bench.script.target,
        rate=probes.written.value,
        place=probes.written.place.short,
        steps=probes.steps,
        loss=_finite_loss(first.loss),
        points=tuple(
            _rate_point(probes, one, runs[one], first.loss)
            for one in sorted(runs, key=lambda variant: (variant.factor, variant.warm_up))
        ),
        gain=gain,
        complete=is_complete,
        seeded=_has_other_losses(trial, own),
        measured_on=side_files.computing_device(facts),
        source_sha256=side_files.source_sha256(facts),
        notes=tuple(dict.fromkeys(notes)),
        batches=batches,
    )


def _run_rates(probes: RateProbes, runs: dict[Variant, Run]) -> list[str]:
    """Adds a run at each rate to ``runs``, and one with a warm-up if the loss jumps at the start; returns notes."""
    own = runs[OWN]
    while (factor := _next_factor(runs)) is not None:
        probes.require_time(1)
        runs[Variant(factor)] = run = probes.run(Variant(factor))
        if len(runs) == 2 and np.array_equal(run.losses, own.losses):
            raise InputError(
                f"{probes.bench.script.target}: the losses are the same whatever number stands at "
                f"{probes.written.place.short}, so that something else sets the learning rate, such as an argument of "
                "the command or a callback"
            )
    if not has_jump(own.losses):
        return []
    if not probes.written.can_warm_up:
        return ["the loss jumps at the start, and a warm-up was not tried: no schedule can be put around this rate"]
    probes.require_time(1)
    run = probes.run(WARM_UP)
    if run.probe.failed and not run.probe.losses:
        return [f"the loss jumps at the start, and a warm-up could not be measured: {run.probe.failed}"]
    runs[WARM_UP] = run
    return []


def has_jump(losses: Floats) -> bool:
    """Whether the loss is no number at some step, or jumps far above its first value in the first steps."""
    if not np.isfinite(losses).all():
        return True
    start = losses[: max(int(START_SHARE * len(losses)), MIN_SMOOTHED)]
    return float(start.max()) > SPIKE_FACTOR * float(start[0]) > 0


def _best_variant(runs: Mapping[Variant, Run]) -> Variant:
    """The rate with the lowest loss at the end; of those that all end badly, the smallest."""
    return min(runs, key=lambda one: (end_loss(runs[one].losses), one.factor, one.warm_up))


def _next_factor(runs: Mapping[Variant, Run]) -> float | None:
    """The next rate to try: those of ``FACTORS``, then beyond the last one as long as it is the best."""
    tried = [one.factor for one in runs]
    untried = [factor for factor in FACTORS if factor not in tried]
    if untried:
        return untried[0]
    best = _best_variant(runs).factor
    if best == max(tried) and best < MAX_FACTOR:
        return best * FURTHER
    if best == min(tried) and best > 1 / MAX_FACTOR:
        return best / FURTHER
    return None


def _step_costs(own: Run, other: Run) -> tuple[float, float]:
    """The steps of both to the same loss. A run that never has the loss needs more steps than it took."""
    found = compare_steps(own.losses, other.losses)
    return float(found.own), float(found.other or len(other.losses))


def _trial_notes(trial: SeedTrial, unpaired: Run) -> list[str]:
    notes = [OVER_NOTE] if trial.time_over else []
    if _has_other_losses(trial, unpaired) is False:
        notes.append(SAME_SEEDS_NOTE)
    if not trial.time_over and (trial.ratio is None or trial.ratio.outcome != BETTER):
        notes.append(f"the best of these rates was not confirmed in {format_count(len(trial.costs), 'pair')}")
    return notes


def _has_other_losses(trial: SeedTrial, unpaired: Run) -> bool | None:
    """Whether other seeds gave other losses; ``unpaired`` has the script's own. None if none were tried."""
    return not np.array_equal(trial.runs[-1][0].losses, unpaired.losses) if trial.runs else None


def _rate_gain(probes: RateProbes, best: Variant, trial: SeedTrial) -> RateGain | None:
    """The gain, if it is proven that fewer steps are needed."""
    found = trial.ratio
    if found is None or found.outcome != BETTER:
        return None
    at_least = any(compare_steps(own.losses, other.losses).at_least for own, other in trial.runs)
    high = found.high if math.isfinite(found.high) and not at_least else None
    return RateGain(
        probes.rate(best), found.speedup, found.low, high, found.pairs, at_least,
        probes.warm_up_steps if best.warm_up else 0,
    )  # fmt: skip


def _rate_point(probes: RateProbes, variant: Variant, run: Run, loss: float) -> RatePoint:
    return RatePoint(
        probes.rate(variant),
        _finite_loss(end_loss(run.losses)),
        first_step_at(run.losses, loss),
        probes.warm_up_steps if variant.warm_up else 0,
    )


def _finite_loss(loss: float) -> float | None:
    return loss if math.isfinite(loss) else None
