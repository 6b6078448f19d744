"""Checkpoints that a script writes between its steps.

Calls of the framework's functions were timed. Others (``np.savez``, ``pickle.dump``) are found from samples of the
main thread, by the text of the sampled lines.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from slowtrain.model import Place
from slowtrain.trace import Bools, Spans, Trace, stalled
from slowtrain.trace.host import in_windows, main_thread, outermost, saves, stands_for, training_begins
from slowtrain.trace.ordered import unique
from slowtrain.values import dataclass

LEAST = 4  # checkpoints that the script writes itself; of fewer hardly one can be left out
# Relative to the training between them. A pass over an epoch's data costs about a third of training on it (a forward
# pass, instead of a forward and a backward one). Checkpoints above that are frequent or large, below that stalls.
SHARE = 1 / 3
OFTEN = 0.1  # of a step; used if so many steps save that none is a stall
MOST_PLACES = 3


@dataclass(frozen=True)
class Saving:
    """``passes``: how often; ``ms`` in all of them; ``training_ms`` in the rest of the training."""

    passes: int
    ms: float
    training_ms: float
    places: tuple[Place, ...]

    @property
    def much(self) -> bool:
        """Whether host/frequent-validation reports it."""
        return self.passes >= LEAST and self.ms > SHARE * self.training_ms


def checkpoints(trace: Trace) -> Saving | None:
    """Return the checkpoints; None if no saving line of the script was recorded or sampled."""
    return trace.once(_checkpoints)


def _checkpoints(trace: Trace) -> Saving | None:
    if not len(trace.steps):
        return None
    samples, calls = _while_training(trace, "stack"), _while_training(trace, "save")
    calls = calls.where((calls.thread == main_thread(trace)) & outermost(calls))
    calls = calls.where(_at(trace, calls, {p for p in _places(trace, calls) if saves(trace, p)}))
    met = _at(trace, samples, {p for p in _places(trace, samples) - _places(trace, calls) if saves(trace, p)})
    if not len(calls) and not met.any():
        return None
    lines: dict[Place | None, float] = {}  # ms by line
    for spans, ms in ((calls, calls.ms), (samples.where(met), stands_for(trace, samples.where(met)))):
        for number, each in zip(spans.name, ms, strict=True):
            place = trace.names[int(number)].place
            lines[place] = lines.get(place, 0.0) + float(each)
    # Consecutive samples belong to one call. Calls shorter than the sampling interval are sampled in part.
    passes = len(calls) + (int((np.diff(np.flatnonzero(met)) > 1).sum()) + 1 if met.any() else 0)
    places = tuple(p for p in sorted(lines, key=lambda p: -lines[p]) if p is not None)
    spent, every = sum(lines.values()), float(stands_for(trace, samples).sum())
    return Saving(passes, spent, max(every - spent, 1e-9), places[:MOST_PLACES])


def share(trace: Trace) -> float:
    """Return the share of training above which host/frequent-validation reports checkpoints."""
    return SHARE if any(s.kind == "checkpoint" for s in stalled.find(trace)) else OFTEN


def _while_training(trace: Trace, lane: str) -> Spans:
    spans = trace.lane(lane).between(training_begins(trace), float(trace.steps.end_ms[-1]))
    return spans.where(~in_windows(trace, spans))


def _places(trace: Trace, spans: Spans) -> set[Place]:
    places = (trace.names[int(n)].place for n in unique(spans.name))
    return {p for p in places if p is not None}


def _at(trace: Trace, spans: Spans, places: Collection[Place]) -> Bools:
    """Return which spans are of one of these lines."""
    numbers, inverse = np.unique(spans.name, return_inverse=True)
    return np.array([trace.names[int(n)].place in places for n in numbers], dtype=bool)[inverse]
