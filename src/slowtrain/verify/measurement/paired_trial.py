"""Runs baseline and candidate alternately until their ratio is known, the candidate fails, or the time is over.

The interval of the ratio stays valid although it is looked at after every pair. A pair is one process of the baseline
and one of the candidate, run after each other. Its value is the logarithm of the ratio of their times. Steps inside one
process are not independent, so only processes count. The interval is Student's, of the mean logarithm, at a level at
which all looks together err in at most 5 % of comparisons (Pocock's boundary, "Group sequential methods in the design
and analysis of clinical trials", Biometrika 64, 1977). Below six pairs both sides are separate samples (Welch): pairing
halves the degrees of freedom, which then costs more than the shared influence of the machine.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from slowtrain.model import Effect, Verdict
from slowtrain.number_text import format_count
from slowtrain.verify.measurement import loss_parity, probe_process
from slowtrain.verify.measurement.loss_parity import Parity
from slowtrain.verify.measurement.probe_process import CALLS, TRAINING, Candidate, Probe, Rule, Script

LOOK_PAIRS = (3, 4, 5, 6, 8, 10, 12, 15, 20)  # numbers of pairs after which the interval is looked at
MIN_PAIRED = 6  # number of pairs from which on their differences are the sample
# The level of each look. In 40,000 simulated comparisons of equal normal variables at most 5.2 % were outside at any of
# the nine looks, for any correlation of a pair and any two spreads (tests/verify).
LOOK_LEVEL = 0.009
MIN_PROVEN_SPEEDUP = 1.02  # a smaller speed-up is no reason to change a script
BETTER, NO_BETTER, CANNOT_TELL = "better", "no better", "cannot tell"


@dataclass(frozen=True)
class SpeedupRatio:
    """The speed-up: geometric mean of the pairs' ratios, with its interval (95 % over all looks)."""

    speedup: float
    low: float
    high: float
    pairs: int

    @property
    def outcome(self) -> str:
        if self.low > 1.0 and self.speedup >= MIN_PROVEN_SPEEDUP:
            return BETTER
        return NO_BETTER if self.high < MIN_PROVEN_SPEEDUP else CANNOT_TELL


def speedup_ratio(pairs: Sequence[tuple[float, float]]) -> SpeedupRatio:
    """The ratio of ``(baseline, candidate)`` times; needs one pair. Below three pairs the interval is unbounded."""
    before, after = [math.log(b) for b, _ in pairs], [math.log(a) for _, a in pairs]
    mean, n = statistics.fmean(before) - statistics.fmean(after), len(pairs)
    if n < LOOK_PAIRS[0]:
        return SpeedupRatio(math.exp(mean), 0.0, math.inf, n)
    half = _paired_half_interval(before, after) if n >= MIN_PAIRED else _welch_half_interval(before, after)
    # e^700 is near the largest floating-point number.
    return SpeedupRatio(math.exp(mean), math.exp(max(mean - half, -700)), math.exp(min(mean + half, 700)), n)


def _paired_half_interval(before: Sequence[float], after: Sequence[float]) -> float:
    """Half the interval, from the differences of pairs."""
    spread = statistics.stdev(b - a for b, a in zip(before, after, strict=True))
    return student_quantile(1 - LOOK_LEVEL / 2, len(before) - 1) * spread / math.sqrt(len(before))


def _welch_half_interval(before: Sequence[float], after: Sequence[float]) -> float:
    """Half the interval, from two samples with separate spreads (Welch and Satterthwaite)."""
    n = len(before)
    one, other = statistics.variance(before) / n, statistics.variance(after) / n
    if one + other == 0.0:
        return 0.0
    freedom = (one + other) ** 2 / ((one**2 + other**2) / (n - 1))
    return student_quantile(1 - LOOK_LEVEL / 2, max(int(freedom), 1)) * math.sqrt(one + other)


def is_decided(found: SpeedupRatio) -> bool:
    """Whether no further pair is needed: the answer is clear, or no looks are left."""
    return found.pairs >= LOOK_PAIRS[-1] or (found.pairs in LOOK_PAIRS and found.outcome != CANNOT_TELL)


@functools.lru_cache(maxsize=256)
def student_quantile(probability: float, freedom: int) -> float:
    """Student's t with ``freedom`` degrees of freedom: the value below which ``probability`` (above 0.5) lies."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 + student_probability(middle, freedom) / 2 < probability else (low, middle)
    return (low + high) / 2


def student_probability(t: float, freedom: int) -> float:
    """The probability of -t to t, by Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for k in range(1 + odd, freedom - 2, 2):
        term *= cosine * cosine * k / (k + 1)
        total += term
    return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0)) if odd else sine * total


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
    def has_equal_work(self) -> bool:
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
        probes = [p for pair in self.pairs for p in pair if self.has_equal_work]
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
        return loss_parity.matched_parity(effect, [b for b, _ in self.pairs], [c for _, c in self.pairs])

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
        if scope == "step" and not Trial(scope, tuple(pairs)).has_equal_work:
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
