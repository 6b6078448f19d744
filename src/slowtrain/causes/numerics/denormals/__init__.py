"""Subnormal numbers slow the arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from slowtrain.causes import LITTLE, Cause
from slowtrain.columns.spans import place_of
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import ms_of_samples, spread_over_categories, starts_in_steady, step_places
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

LEAST_SAMPLES = 8  # of the main thread at a line: fewer do not tell how much of a step it is


@dataclass(frozen=True)
class Array:
    """An array of NumPy's with subnormal numbers; its line takes ``ms`` of a step, ``gained_ms`` less without them."""

    says: str
    ms: float
    gained_ms: float
    share: float
    slower: float
    place: Place


class Denormals(Cause[Evidence]):
    """Arrays, weights or the optimizer's state hold subnormal numbers, and arithmetic with them is slower here."""

    title = "Subnormal numbers slow the arithmetic"
    needs = frozenset({Signal.SUBNORMALS})
    scope = "step"
    matters = True

    def wants(self, trace: Trace) -> frozenset[Signal]:
        """Nobody has to look at the variables to see that an array is slow."""
        return frozenset({Signal.STEPS}) if _slowest(trace) is not None else super().wants(trace)

    def find(self, trace: Trace) -> Evidence | None:
        array = _slowest(trace)
        if array is None:
            return _of_variables(trace)
        numbers = {"subnormal_share": array.share, "slowdown": array.slower, "gained_ms": array.gained_ms}
        return Evidence(array.says, numbers, (array.place,))

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        gained = evidence.numbers.get("gained_ms", 0.0)
        return [Drop(spread_over_categories(trace, gained, (Category.PYTHON, Category.INPUT)))] if gained else []

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if "gained_ms" in evidence.numbers:
            tiny = "set what is tiny to zero where the array shrinks: a[abs(a) < 1e-30] = 0"
            yield Prescription("edit", Effect.EQUIVALENT, tiny)
            return
        yield Prescription(
            "advice",
            Effect.CHANGES_TRAINING,
            "keep small numbers from shrinking for ever: a larger epsilon in the optimizer, less decay, another scale",
        )


def _of_variables(trace: Trace) -> Evidence | None:
    share = float(trace.fact("subnormals", "share") or 0.0)
    way = str(trace.fact("subnormals", "way") or "function")
    slower = float(trace.fact("subnormal_cost", way) or 1.0)
    # What an op over all variables loses; a step does more than that, so that this is the most there is to gain.
    if share * (slower - 1) < LITTLE:
        return None
    says = f"{share:.0%} of the variables' numbers are subnormal; products of such take {slower:.1f} times as long"
    where, most = trace.fact("subnormals", "where"), float(trace.fact("subnormals", "most") or 0.0)
    if where and most:
        says += f"; most of them, {most:,.0f}, are in {where}"
    return Evidence(says, {"subnormal_share": share, "slowdown": slower}, step_places(trace))


def _slowest(trace: Trace) -> Array | None:
    """The array whose subnormal numbers take most of a step, if that is worth a word."""
    told = trace.fact("subnormal_arrays", default=None)
    found = [_array(trace, one) for one in told if one.get("cost")] if told and trace.step_ms else []
    slowest = max((a for a in found if a is not None), key=lambda a: a.gained_ms, default=None)
    return slowest if slowest is not None and slowest.gained_ms >= LITTLE * trace.step_ms else None


def _array(trace: Trace, told: Mapping[str, Any]) -> Array | None:
    place = place_of((told["file"], told["line"]))
    samples = trace.lane("stack")
    samples = samples.where(starts_in_steady(trace, samples))
    here = samples.where(np.array([trace.names[int(n)].place == place for n in samples.name], dtype=bool))
    if place is None or len(here) < LEAST_SAMPLES:
        return None
    spent = ms_of_samples(trace, samples)
    part = float(ms_of_samples(trace, here).sum() / spent.sum()) if spent.sum() else 0.0
    share, slower = float(told["share"]), float(told["cost"])
    ms = part * trace.step_ms
    says = (
        f"{share:.0%} of the {told['size']:,} numbers of {told['name']} are subnormal, and products of such take NumPy "
        f"{slower:.1f} times as long here: the line takes {format_number(ms)} ms of each step of "
        f"{format_number(trace.step_ms)} ms"
    )
    return Array(says, ms, ms * (1 - 1 / (1 + share * (slower - 1))), share, slower, place)
