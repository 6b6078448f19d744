"""Losses at multiples of a script's learning rate: one process for each, then pairs with other seeds for the best.

The number is edited where the script writes it, in memory. All processes take equally many steps with the same samples.
The best of several rates looks better than it is, because one of them was lucky. So the gain comes only from pairs that
run afterwards, with other seeds: the process is the sample, as in ``paired_trial``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slowtrain.columns.arrays import Floats
from slowtrain.errors import InputError
from slowtrain.model.measurements import RateGain, RatePoint, RateSweep
from slowtrain.number_text import format_count
from slowtrain.script.fixes.models import learning_rates
from slowtrain.trace.loading import recording_trace, side_files
from slowtrain.trace.signals import loss_curve
from slowtrain.verify.learning_rates.steps_to_loss import compare_steps, end_loss, first_step_at
from slowtrain.verify.measurement import loss_parity, probe_process
from slowtrain.verify.measurement.candidate_proof import own_sources, uncontained_effects
from slowtrain.verify.measurement.edited_files import EditedFiles
from slowtrain.verify.measurement.paired_trial import BETTER, LOOK_PAIRS, Bench, is_decided, speedup_ratio
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Rule, Treatment

FACTORS = (0.1, 3.0, 10.0)  # times the script's own rate
FURTHER = 10.0  # times the last one, as long as it is the best
MAX_FACTOR = 1000.0
OWN_PROBE_S, OWN_STEPS = 8.0, 150  # of training at the script's own rate; all others take as many steps
MIN_STEPS = 60  # in each process: fewer show only the start
MAX_STEPS = 2000  # in each process
AT_ONCE_S = 0.001  # a probe ends as soon as its steps are taken
MIN_TRIED_TIMES = 1.5  # times fewer steps in one process: less is not worth six more processes
MAX_PAIRS = 6
TIME_MARGIN_FACTOR = 1.2  # the time left for another process, in durations of the longest so far
OVER_NOTE = "the time ended before all processes ran; give a longer --budget"
SAME_SEEDS_NOTE = "other seeds give the same losses: the interval does not contain what other seeds would change"
UNWRITTEN_RATE = (
    "its learning rate was not found: it has to be one number in the text of the script, or the default of its only "
    "optimizer"
)


class _TimeOver(Exception):
    """The time ended within a process, so that nothing is known of its rate."""


@dataclass(frozen=True)
class _Run:
    """One process: the loss of each step, and its recording."""

    losses: Floats
    probe: Probe


class RateProbes:
    """Runs the script at multiples of its rate. Raises ``InputError`` if no rate is written, or two are."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        found = learning_rates.find_rate(own_sources(bench.script))
        if found is None:
            raise InputError(f"{bench.script.target}: {UNWRITTEN_RATE}")
        self.source, self.written = found
        self.steps = 0  # of each process, once it is known
        self._number = 0
        self._longest_s = 0.0  # of a process

    def require_time(self, processes: int) -> None:
        """Raises ``_TimeOver`` if the time left is not enough for so many processes."""
        if self.bench.left_s < processes * TIME_MARGIN_FACTOR * self._longest_s:
            raise _TimeOver

    def at(self, factor: float, other_seeds: int | None = None) -> _Run:
        """One process. The first one, at the script's own rate, raises ``InputError`` if it shows no losses.

        At another rate a process may fail, for example if the script stops at a loss that is no number. Its losses up
        to there count, and all later ones are infinite.
        """
        rate = learning_rates.rate_literal(self.written.value * factor)
        self.bench.say(f"learning rate {rate}" + (f", other seeds {other_seeds}" if other_seeds else ""))
        rule = Rule(AT_ONCE_S, self.steps) if self.steps else Rule(OWN_PROBE_S, OWN_STEPS)
        treatment = Treatment(results=self.steps or MAX_STEPS, other_seeds=other_seeds)
        begun = time.monotonic()
        self._number += 1
        probe = probe_process.run_probe(
            self.bench.script, Candidate(f"rate {rate}", self._texts(factor), treatment), rule,
            self.bench.folder / f"probe-{self._number:03d}", limit_s=max(self.bench.left_s, 1.0),
            seed=self.bench.seed + (other_seeds or 0), tick=self.bench.tick,
        )  # fmt: skip
        self._longest_s = max(self._longest_s, time.monotonic() - begun)
        losses = probe_losses(probe)
        if len(losses) < (self.steps or MIN_STEPS) and self.bench.left_s <= 0:
            raise _TimeOver
        if not self.steps and probe.failed:
            raise InputError(f"the unchanged script does not run ({probe.failed}); nothing to compare with")
        if not self.steps and len(losses) < MIN_STEPS:
            raise InputError(_few_losses_reason(self.bench.script.target, probe, len(losses)))
        self.steps = self.steps or len(losses)
        missing = np.full(max(self.steps - len(losses), 0), math.inf)
        return _Run(np.concatenate([losses[: self.steps], missing]), probe)

    def _texts(self, factor: float) -> Mapping[str, str]:
        if factor == 1.0:
            return {}
        edits = self.written.edits_for(self.source, factor)
        return EditedFiles().with_edits(edits, str(Path.cwd())).texts()


def measure_rates(bench: Bench) -> RateSweep:
    """Measures the sweep. Raises ``InputError`` for a script whose rate or loss is not known."""
    probes = RateProbes(bench)
    uncontained_effects(bench)
    try:
        own = probes.at(1.0)
    except _TimeOver:
        raise InputError(f"{bench.script.target}: {OVER_NOTE}") from None
    runs, notes = {1.0: own}, list[str]()
    try:
        while (factor := _next_factor(runs)) is not None:
            probes.require_time(1)
            runs[factor] = probes.at(factor)
    except _TimeOver:
        notes.append(OVER_NOTE)
    if len(runs) > 1 and all(np.array_equal(run.losses, own.losses) for run in runs.values()):
        raise InputError(
            f"{bench.script.target}: the losses are the same whatever number stands at {probes.written.place.short}, "
            "so that something else sets the learning rate"
        )
    best = _best_factor(runs)
    first = compare_steps(own.losses, runs[best].losses)
    trial = _PairTrial(probes, best)
    if best != 1.0 and first.times >= MIN_TRIED_TIMES:
        notes += trial.run_pairs(own)
    gain = trial.gain(probes.written.value * best)
    rate, facts = probes.written.value, recording_trace.load_recording(own.probe.folder).facts
    return RateSweep(
        script=bench.script.target,
        rate=rate,
        place=probes.written.place.short,
        steps=probes.steps,
        loss=_finite_loss(first.loss),
        points=tuple(_rate_point(rate * factor, runs[factor], first.loss) for factor in sorted(runs)),
        gain=gain,
        complete=gain is not None or OVER_NOTE not in notes,
        seeded=trial.seeded,
        measured_on=side_files.computing_device(facts),
        source_sha256=side_files.source_sha256(facts),
        notes=tuple(dict.fromkeys(notes)),
    )


def _best_factor(runs: Mapping[float, _Run]) -> float:
    """The rate with the lowest loss at the end; of those that all end badly, the smallest."""
    return min(runs, key=lambda factor: (end_loss(runs[factor].losses), factor))


def _next_factor(runs: Mapping[float, _Run]) -> float | None:
    """The next rate to try: those of ``FACTORS``, then beyond the last one as long as it is the best."""
    untried = [factor for factor in FACTORS if factor not in runs]
    if untried:
        return untried[0]
    best = _best_factor(runs)
    if best == max(runs) and best < MAX_FACTOR:
        return best * FURTHER
    if best == min(runs) and best > 1 / MAX_FACTOR:
        return best / FURTHER
    return None


class _PairTrial:
    """Pairs of processes at the script's own rate and at ``factor`` times it. Each pair has seeds of its own."""

    def __init__(self, probes: RateProbes, factor: float) -> None:
        self.probes = probes
        self.factor = factor
        self.seeded: bool | None = None  # whether other seeds give other losses
        self._pairs: list[tuple[float, float]] = []
        self._at_least = False

    def run_pairs(self, unpaired: _Run) -> list[str]:
        """Runs pairs until the ratio is known, and returns notes. ``unpaired``: a run with the script's own seeds."""
        notes = list[str]()
        try:
            while len(self._pairs) < MAX_PAIRS and not (self._pairs and is_decided(speedup_ratio(self._pairs))):
                self.probes.require_time(2)
                self._run_pair(len(self._pairs) + 1, unpaired)
        except _TimeOver:
            notes.append(OVER_NOTE)
        if not self.seeded and self._pairs:
            notes.append(SAME_SEEDS_NOTE)
        if self.gain(1.0) is None and OVER_NOTE not in notes:
            notes.append(f"the best of these rates was not confirmed in {format_count(len(self._pairs), 'pair')}")
        return notes

    def _run_pair(self, seeds: int, unpaired: _Run) -> None:
        own, other = self.probes.at(1.0, seeds), self.probes.at(self.factor, seeds)
        self.seeded = not np.array_equal(own.losses, unpaired.losses)
        found = compare_steps(own.losses, other.losses)
        # A run that never has the loss needs more steps than it took.
        self._pairs.append((float(found.own), float(found.other or self.probes.steps)))
        self._at_least |= found.at_least

    def gain(self, rate: float) -> RateGain | None:
        """The gain, if it is proven that fewer steps are needed."""
        if len(self._pairs) < LOOK_PAIRS[0]:
            return None
        found = speedup_ratio(self._pairs)
        high = found.high if math.isfinite(found.high) and not self._at_least else None
        is_proven = found.outcome == BETTER
        return RateGain(rate, found.speedup, found.low, high, found.pairs, self._at_least) if is_proven else None


def _rate_point(rate: float, run: _Run, loss: float) -> RatePoint:
    return RatePoint(
        float(learning_rates.rate_literal(rate)), _finite_loss(end_loss(run.losses)), first_step_at(run.losses, loss)
    )


def _finite_loss(loss: float) -> float | None:
    return loss if math.isfinite(loss) else None


def probe_losses(probe: Probe) -> Floats:
    """The loss of each step of a probe. Empty if steps report none, or more than one."""
    places = {(o.name, o.at) for o in probe.origins if o.counts}
    if len(places) > 1:
        return np.zeros(0)
    by_step = loss_parity.losses_by_step(probe.losses)
    over = probe.losses_over if len(probe.losses_over) == len(probe.losses) else (1,) * len(probe.losses)
    kept = sorted(by_step)
    return loss_curve.step_losses([by_step[i] for i in kept], [over[i] for i in kept]) if kept else np.zeros(0)


def _few_losses_reason(script: str, probe: Probe, count: int) -> str:
    """Why the losses of the script's own rate are not enough."""
    places = sorted({o.name for o in probe.origins if o.counts})
    if len(places) > 1:
        several = ", ".join(places)
        return f"{script}: its steps report several losses ({several}); which of them should fall is not known"
    if count == 0:
        return f"{script}: its steps report no loss; return it from the training step"
    return f"{script} took {format_count(count, 'step')} that report a loss, and {MIN_STEPS} are needed"
