"""Processes of a script at other learning rates and with other batches.

The numbers are edited where the script writes them, in memory. All processes take the same samples in the same order.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slowtrain.columns.arrays import Floats
from slowtrain.errors import InputError
from slowtrain.model import Edit, Place
from slowtrain.number_text import format_count
from slowtrain.script.fixes.models import batch_sizes, learning_rates
from slowtrain.verify.batch_sizes.batch_probe import UNTRAINED
from slowtrain.verify.learning_rates.loss_curves import probe_losses
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.candidate_proof import own_sources
from slowtrain.verify.measurement.edited_files import EditedFiles
from slowtrain.verify.measurement.paired_trial import LOOK_PAIRS, Bench, SpeedupRatio, is_decided, speedup_ratio
from slowtrain.verify.measurement.probe_process import TRAINING, Candidate, Probe, Rule, Treatment

OWN_PROBE_S, OWN_STEPS = 8.0, 150  # of training at the script's own rate; all others take as many steps
MIN_STEPS = 60  # in each process: fewer show only the start
MAX_STEPS = 2000  # in each process
AT_ONCE_S = 0.001  # a probe ends as soon as its steps are taken
WARM_UP_SHARE = 0.1  # of the steps
LARGER_SAMPLES_FACTOR = 2  # times the samples: a larger batch needs more of them, and takes them in less time
MAX_PAIRS = 6
TIME_MARGIN_FACTOR = 1.2  # the time left for another process, in durations of the longest so far
OVER_NOTE = "the time ended before all processes ran; give a longer --budget"


class TimeOver(Exception):
    """The time ended within a process, so that nothing is known of its rate."""


@dataclass(frozen=True)
class Variant:
    """What a process runs: ``factor`` times the script's own rate, and ``batch`` samples in a batch, 0 for its own.

    ``warm_up``: the rate rises to that in the first tenth of the steps.
    """

    factor: float = 1.0
    warm_up: bool = False
    batch: int = 0


OWN = Variant()


@dataclass(frozen=True)
class Run:
    """One process: the loss of each step, and its recording."""

    losses: Floats
    probe: Probe


class RateProbes:
    """Runs the script at other rates and batches. Raises ``InputError`` if no rate is written, or two are."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        found = learning_rates.find_rate(own_sources(bench.script))
        if found is None:
            why = learning_rates.unfound_rate_reason(own_sources(bench.script))
            raise InputError(f"{bench.script.target}: {why}")
        self.source, self.written = found
        self.steps = 0  # of each process with the script's own batch, once it is known
        self.own_batch = 0  # samples, once it is known
        self.step_place: Place | None = None  # once it is known that only an edit there changes the batch
        self._number = 0
        self._longest_s = 0.0  # of a process

    @property
    def warm_up_steps(self) -> int:
        return max(int(WARM_UP_SHARE * self.steps), 1)

    def rate(self, variant: Variant) -> float:
        """The rate as it is written into the script."""
        return float(learning_rates.rate_literal(self.written.value * variant.factor))

    def require_time(self, processes: int) -> None:
        """Raises ``TimeOver`` if the time left is not enough for so many processes."""
        if self.bench.left_s < processes * TIME_MARGIN_FACTOR * self._longest_s:
            raise TimeOver

    def required_steps(self, variant: Variant) -> int:
        """The steps of a process; 0 if they are not known yet."""
        if not variant.batch:
            return self.steps
        samples_factor = LARGER_SAMPLES_FACTOR if variant.batch > self.own_batch else 1
        return self.steps * samples_factor * self.own_batch // variant.batch

    def run(self, variant: Variant, other_seeds: int | None = None) -> Run:
        """One process. The first one, of ``OWN``, raises ``InputError`` if it shows no losses.

        Another one may fail, for example if the script stops at a loss that is no number. Its losses up to there count,
        and all later ones are infinite. With another batch the script may end before it has taken all steps.
        """
        name, steps = self._describe(variant), self.required_steps(variant)
        self.bench.say(name + (f", other seeds {other_seeds}" if other_seeds else ""))
        rule = Rule(AT_ONCE_S, steps) if steps else Rule(OWN_PROBE_S, OWN_STEPS)
        rebatch = (self.own_batch, variant.batch) if variant.batch and self.step_place is None else None
        treatment = Treatment(results=steps or MAX_STEPS, other_seeds=other_seeds, rebatch=rebatch)
        begun = time.monotonic()
        self._number += 1
        probe = probe_process.run_probe(
            self.bench.script, Candidate(name, self._texts(variant), treatment), rule,
            self.bench.folder / f"probe-{self._number:03d}", limit_s=max(self.bench.left_s, 1.0),
            seed=self.bench.seed + (other_seeds or 0), tick=self.bench.tick,
        )  # fmt: skip
        self._longest_s = max(self._longest_s, time.monotonic() - begun)
        losses = probe_losses(probe)
        if len(losses) < (steps or MIN_STEPS) and self.bench.left_s <= 0:
            raise TimeOver
        if not steps and probe.failed:
            raise InputError(f"the unchanged script does not run ({probe.failed}); nothing to compare with")
        if not steps and len(losses) < MIN_STEPS:
            raise InputError(_few_losses_reason(self.bench.script.target, probe, len(losses)))
        self.steps = self.steps or len(losses)
        missing = 0 if variant.batch and not probe.failed else max((steps or self.steps) - len(losses), 0)
        return Run(np.concatenate([losses[: steps or self.steps], np.full(missing, math.inf)]), probe)

    def _describe(self, variant: Variant) -> str:
        warm_up = " after a warm-up" if variant.warm_up else ""
        batch = f", batches of {variant.batch}" if variant.batch else ""
        return f"learning rate {learning_rates.rate_literal(self.rate(variant))}{warm_up}{batch}"

    def batch_edits(self, variant: Variant) -> tuple[Edit, ...]:
        """The edits that change the batch of the steps at ``step_place``; empty if there are none."""
        if not variant.batch or self.step_place is None:
            return ()
        at = os.path.realpath(self.step_place.file)
        source = next((s for s in own_sources(self.bench.script) if os.path.realpath(s.file) == at), None)
        if source is None:
            return ()
        return batch_sizes.enlarge_batches(source, [self.step_place.line], self.own_batch, variant.batch)

    def _texts(self, variant: Variant) -> Mapping[str, str]:
        edits = list(self.batch_edits(variant))
        if variant.factor != 1.0 or variant.warm_up:
            edits += self.written.edits_for(self.source, variant.factor, self.warm_up_steps if variant.warm_up else 0)
        return EditedFiles().with_edits(edits, str(Path.cwd())).texts() if edits else {}


def _few_losses_reason(script: str, probe: Probe, count: int) -> str:
    """Why the losses of the script's own rate are not enough."""
    places = sorted({o.name for o in probe.origins if o.counts})
    if len(places) > 1:
        several = ", ".join(places)
        return f"{script}: its steps report several losses ({several}); which of them should fall is not known"
    if not count and probe.work != TRAINING:
        return f"{script} {UNTRAINED}"
    if count == 0:
        return f"{script}: its steps report no loss; return it from the training step"
    return f"{script} took {format_count(count, 'step')} that report a loss, and {MIN_STEPS} are needed"


@dataclass(frozen=True)
class SeedTrial:
    """Pairs of processes of two variants, each with seeds of its own, and what each pair costs: steps, or seconds."""

    runs: tuple[tuple[Run, Run], ...] = ()
    costs: tuple[tuple[float, float], ...] = ()
    time_over: bool = False

    @property
    def ratio(self) -> SpeedupRatio | None:
        """The ratio of costs; None with too few pairs."""
        return speedup_ratio(self.costs) if len(self.costs) >= LOOK_PAIRS[0] else None


def run_pairs(
    probes: RateProbes, one: Variant, other: Variant, pair_costs: Callable[[Run, Run], tuple[float, float] | None]
) -> SeedTrial:
    """Runs pairs until the ratio of their costs is known, the time is over, or a pair has none."""
    runs, costs = list[tuple[Run, Run]](), list[tuple[float, float]]()
    try:
        while len(runs) < MAX_PAIRS and not (costs and is_decided(speedup_ratio(costs))):
            probes.require_time(2)
            seeds = len(runs) + 1
            runs.append((probes.run(one, seeds), probes.run(other, seeds)))
            cost = pair_costs(*runs[-1])
            if cost is None:
                break
            costs.append(cost)
    except TimeOver:
        return SeedTrial(tuple(runs), tuple(costs), time_over=True)
    return SeedTrial(tuple(runs), tuple(costs))
