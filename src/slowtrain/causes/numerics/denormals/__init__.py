"""Subnormal numbers slow the arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.columns.spans import place_of
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import ms_of_samples, spread_over_categories, starts_in_steady, step_places
from slowtrain.whatif import Drop, Remedy

MIN_LINE_SAMPLES = 8  # of the main thread at a line: fewer do not show its share of a step


class SubnormalArray(Struct, frozen=True):
    """An array of NumPy with subnormal numbers. Its line takes ``ms`` per step, ``saved_ms`` less without them."""

    name: str
    size: int
    share: float
    slowdown: float
    ms: float
    saved_ms: float
    place: Place

    def evidence(self, trace: Trace) -> Evidence:
        return Evidence(
            f"{self.share:.0%} of the {self.size:,} numbers of {self.name} are subnormal, and products of such numbers "
            f"take NumPy {self.slowdown:.1f} times as long here: the line takes {format_number(self.ms)} ms of each "
            f"step of {format_number(trace.step_ms)} ms",
            {"subnormal_share": self.share, "slowdown": self.slowdown, "gained_ms": self.saved_ms},
            (self.place,),
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        return [Drop(spread_over_categories(trace, self.saved_ms, (Category.PYTHON, Category.INPUT)))]

    def cure(self) -> Prescription:
        says = "set tiny numbers to zero where the array shrinks: a[abs(a) < 1e-30] = 0"
        return Prescription("edit", Effect.EQUIVALENT, says)


class SubnormalVariables(Struct, frozen=True):
    """``share`` of the variables' numbers are subnormal. ``where``: the variable with most of them, ``most``."""

    share: float
    slowdown: float
    where: str
    most: float

    def evidence(self, trace: Trace) -> Evidence:
        says = (
            f"{self.share:.0%} of the variables' numbers are subnormal; products of such numbers take "
            f"{self.slowdown:.1f} times as long"
        )
        if self.where and self.most:
            says += f"; most of them, {self.most:,.0f}, are in {self.where}"
        return Evidence(says, {"subnormal_share": self.share, "slowdown": self.slowdown}, step_places(trace))

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        return []

    def cure(self) -> Prescription:
        says = "stop numbers from shrinking without end: a larger epsilon in the optimizer, less decay, another scale"
        return Prescription("advice", Effect.CHANGES_TRAINING, says)


SubnormalFinding = SubnormalArray | SubnormalVariables


class Denormals(Cause[SubnormalFinding]):
    """Arrays, weights or the optimizer's state hold subnormal numbers, and arithmetic with them is slower here."""

    title = "Subnormal numbers slow the arithmetic"
    needs = frozenset({Signal.SUBNORMALS})
    scope = "step"
    matters = True

    def wants(self, trace: Trace) -> frozenset[Signal]:
        """The variables need not be checked to see that an array is slow."""
        return frozenset({Signal.STEPS}) if trace.compute_once(_find_slow_array) is not None else super().wants(trace)

    def find(self, trace: Trace) -> SubnormalFinding | None:
        return trace.compute_once(_find_slow_array) or _find_slow_variables(trace)

    def cures(self, trace: Trace, finding: SubnormalFinding) -> Iterable[Prescription]:
        return (finding.cure(),)


def _find_slow_variables(trace: Trace) -> SubnormalVariables | None:
    share = float(trace.fact("subnormals", "share") or 0.0)
    way = str(trace.fact("subnormals", "way") or "function")
    slowdown = float(trace.fact("subnormal_cost", way) or 1.0)
    # What an op over all variables loses. A step does more than that, so this is an upper bound of the gain.
    if share * (slowdown - 1) < MIN_SYMPTOM_SHARE:
        return None
    where, most = trace.fact("subnormals", "where"), float(trace.fact("subnormals", "most") or 0.0)
    return SubnormalVariables(share, slowdown, str(where or ""), most)


def _find_slow_array(trace: Trace) -> SubnormalArray | None:
    """The array whose subnormal numbers cost most of a step, if that is enough."""
    facts = trace.fact("subnormal_arrays", default=None)
    arrays = [_subnormal_array(trace, one) for one in facts if one.get("cost")] if facts and trace.step_ms else []
    slowest = max((a for a in arrays if a is not None), key=lambda a: a.saved_ms, default=None)
    return slowest if slowest is not None and slowest.saved_ms >= MIN_SYMPTOM_SHARE * trace.step_ms else None


def _subnormal_array(trace: Trace, fact: Mapping[str, Any]) -> SubnormalArray | None:
    place = place_of((fact["file"], fact["line"]))
    samples = trace.lane("stack")
    samples = samples.where(starts_in_steady(trace, samples))
    at_line = samples.where(np.array([trace.names[int(n)].place == place for n in samples.name], dtype=bool))
    if place is None or len(at_line) < MIN_LINE_SAMPLES:
        return None
    total_ms = ms_of_samples(trace, samples).sum()
    line_share = float(ms_of_samples(trace, at_line).sum() / total_ms) if total_ms else 0.0
    share, slowdown = float(fact["share"]), float(fact["cost"])
    ms = line_share * trace.step_ms
    saved_ms = ms * (1 - 1 / (1 + share * (slowdown - 1)))
    return SubnormalArray(str(fact["name"]), int(fact["size"]), share, slowdown, ms, saved_ms, place)
