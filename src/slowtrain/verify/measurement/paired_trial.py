"""Runs baseline and candidate alternately until their ratio is known, the candidate fails, or the time is over."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from slowtrain.model import Effect, Verdict
from slowtrain.number_text import format_count
from slowtrain.verify.measurement import loss_matching, probe_process
from slowtrain.verify.measurement.loss_parity import Parity
from slowtrain.verify.measurement.pair_statistics import LOOK_PAIRS, SpeedupRatio, is_decided, speedup_ratio
from slowtrain.verify.measurement.probe_process import CALLS, TRAINING, Candidate, Probe, Rule, Script

MAX_CANDIDATE_FACTOR = 4.0  # times the baseline's duration: a candidate that takes longer is ended
MIN_LIMIT_S = 60.0
INCOMPARABLE_STEPS = "one side has training steps and the other calls of predict, so only whole runs can be compared"

SayProgress = Callable[[str], None]


@dataclass(frozen=True)
class Bench:
    """Where and how probes run. ``deadline`` is on the monotonic clock, in seconds.

    ``say`` gets progress messages. ``tick`` gets the seconds that a probe has run, many times per second. ``warn`` gets
    what the user must know before anything runs.
    """

    script: Script
    folder: Path
    deadline: float
    seed: int = 0
    say: SayProgress = field(default=lambda _: None)
    warn: SayProgress = field(default=lambda _: None)
    tick: Callable[[float], None] | None = None

    @property
    def left_s(self) -> float:
        return self.deadline - time.monotonic()


@dataclass(frozen=True)
class Trial:
    """The pairs of one comparison. ``scope``: whether a ``step``'s samples or the whole ``run`` was timed."""

    scope: str
    pairs: tuple[tuple[Probe, Probe], ...]
    failed: str | None = None

    @property
    def alike(self) -> bool:
        """Whether the steps of both sides do the same work: predicted rows are not compared with trained rows.

        The steps of a script that predicts in a loop are calls of predict. Without these calls its steps are training
        steps.
        """
        return self.scope == "run" or not any({b.work, c.work} == {TRAINING, CALLS} for b, c in self.pairs)

    @property
    def timed_unit(self) -> str | None:
        """What is timed: a ``run``, a ``sample`` if all processes know their samples, else a ``step``;

        None if nothing can be.
        """
        probes = [p for pair in self.pairs for p in pair if self.alike]
        if self.scope == "run":
            return "run"
        if probes and all(p.sample_ms for p in probes):
            return "sample"
        return "step" if probes and all(p.step_ms for p in probes) else None

    @property
    def per_process(self) -> str:
        """What was timed in each process, in words."""
        if self.scope == "run":
            return "a whole process, from its start to its end"
        return f"a process; its steady {self.timed_unit or 'step'}s are timed"

    @property
    def ratio(self) -> SpeedupRatio | None:
        times = self.times()
        return speedup_ratio(times) if times else None

    def times(self) -> list[tuple[float, float]]:
        """The times of each pair; empty if one of the processes has no steady steps."""
        of = {"run": "wall_s", "sample": "sample_ms", "step": "step_ms"}.get(self.timed_unit or "")
        return [(getattr(b, of), getattr(c, of)) for b, c in self.pairs] if of else []

    def parity(self, effect: Effect | None) -> Parity:
        return loss_matching.matched_parity(effect, [b for b, _ in self.pairs], [c for _, c in self.pairs])

    def verdict(self, effect: Effect | None) -> Verdict | None:
        found = self.ratio
        if found is None:
            return None
        loss, runs = self.parity(effect).loss, 2 * found.pairs
        first = self._first_step_s()
        return Verdict(found.outcome, found.speedup, found.low, found.high, runs, loss, self.scope, first)

    def _first_step_s(self) -> tuple[float, float] | None:
        """Mean of the baselines and of the candidates; None if one process does not report it."""
        known = [(b.first_step_s, c.first_step_s) for b, c in self.pairs if b.first_step_s and c.first_step_s]
        if len(known) < len(self.pairs):
            return None
        return statistics.fmean(b for b, _ in known), statistics.fmean(c for _, c in known)


def run_trial(bench: Bench, baseline: Candidate, candidate: Candidate, rule: Rule, scope: str) -> Trial:
    """Runs pairs in an order that changes, and decides after the numbers of pairs in ``LOOK_PAIRS``.

    If a pair shows that some steps are long now and then, it was too short. The comparison starts again with longer
    pairs, if there is time for as many as can decide.
    """
    pairs: list[tuple[Probe, Probe]] = []
    slowest, lengthened = 0.0, False
    while True:
        found: dict[str, Probe] = {}
        order = (baseline, candidate) if len(pairs) % 2 == 0 else (candidate, baseline)
        for one in order:
            limit = max(MAX_CANDIDATE_FACTOR * slowest, MIN_LIMIT_S) if slowest else bench.left_s
            probe = found[one.name] = _run_probe(bench, one, rule, min(limit, max(bench.left_s, 1.0)))
            if pairs and bench.left_s <= 0 and (probe.stopped if scope == "run" else not probe.step_ms):
                return Trial(scope, tuple(pairs))  # a pair that was cut short says nothing about the earlier ones
            if probe.failed:
                return Trial(scope, tuple(pairs), f"{one.name}: {probe.failed}")
            if scope == "run" and probe.stopped:
                return Trial(scope, tuple(pairs), "the script takes longer than the time that is left")
        pair = (found[baseline.name], found[candidate.name])
        wanted = max((p.steps_wanted for p in pair if p.stopped), default=0)
        for_more = bench.left_s > LOOK_PAIRS[0] * sum(p.wall_s for p in pair)
        if scope == "step" and not lengthened and wanted > rule.steps and for_more:
            rule, lengthened, pairs = replace(rule, steps=wanted), True, []
            continue
        pairs.append(pair)
        if scope == "step" and not Trial(scope, tuple(pairs)).alike:
            return Trial(scope, tuple(pairs), INCOMPARABLE_STEPS)
        slowest = max(slowest, *(p.wall_s for p in pair))
        trial = Trial(scope, tuple(pairs))
        known = trial.ratio
        if known is None:
            return Trial(scope, tuple(pairs), "no steady steps could be timed on both sides")
        bench.say(f"{candidate.name}: {known.speedup:.2f} times as fast after {format_count(known.pairs, 'pair')}")
        if is_decided(known) or bench.left_s < pair[0].wall_s + pair[1].wall_s:
            return trial


def _run_probe(bench: Bench, one: Candidate, rule: Rule, limit_s: float) -> Probe:
    number = len(list(bench.folder.glob("probe-*")))
    folder = bench.folder / f"probe-{number:03d}"
    return probe_process.run_probe(bench.script, one, rule, folder, limit_s=limit_s, seed=bench.seed, tick=bench.tick)
