"""Checkpoints that a script writes between its steps.

Where the framework writes them each call was timed; of others (``np.savez``, ``pickle.dump``) the samples of the main
thread tell, by the text of the lines at which they met it.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from slowtrain.model import Place
from slowtrain.trace import Bools, Spans, Trace, stalled
from slowtrain.trace.host import in_windows, main_thread, outermost, saves, stands_for, training_begins
from slowtrain.trace.ordered import unique
from slowtrain.values import dataclass

LEAST = 4  # that the script asks for by itself: of fewer hardly one can be left out
# Of the training between them. A pass over as much data as the epoch trained on costs about a third of it (a forward
# pass, of a forward and a backward one): what takes more is frequent, or large. Below that, saving makes stalls.
SHARE = 1 / 3
OFTEN = 0.1  # where so many steps save that none of them is a stall: what is worth a word in a step
MOST_PLACES = 3


@dataclass(frozen=True)
class Saving:
    """``passes``: how often; ``ms`` in all of them, ``training_ms`` in the rest of the training."""

    passes: int
    ms: float
    training_ms: float
    places: tuple[Place, ...]

    @property
    def much(self) -> bool:
        """Whether that is for host/frequent-validation to tell."""
        return self.passes >= LEAST and self.ms > SHARE * self.training_ms


def checkpoints(trace: Trace) -> Saving | None:
    """None where no line of the script's own that saves was ever met at work."""
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
    lines: dict[Place | None, float] = {}  # ms at each
    for spans, ms in ((calls, calls.ms), (samples.where(met), stands_for(trace, samples.where(met)))):
        for number, each in zip(spans.name, ms, strict=True):
            place = trace.names[int(number)].place
            lines[place] = lines.get(place, 0.0) + float(each)
    # Samples beside each other are of one call. Of calls shorter than the time between two, some are met.
    passes = len(calls) + (int((np.diff(np.flatnonzero(met)) > 1).sum()) + 1 if met.any() else 0)
    places = tuple(p for p in sorted(lines, key=lambda p: -lines[p]) if p is not None)
    spent, every = sum(lines.values()), float(stands_for(trace, samples).sum())
    return Saving(passes, spent, max(every - spent, 1e-9), places[:MOST_PLACES])


def share(trace: Trace) -> float:
    """Of the training, what checkpoints have to take for host/frequent-validation to tell of them."""
    return SHARE if any(s.kind == "checkpoint" for s in stalled.find(trace)) else OFTEN


def _while_training(trace: Trace, lane: str) -> Spans:
    spans = trace.lane(lane).between(training_begins(trace), float(trace.steps.end_ms[-1]))
    return spans.where(~in_windows(trace, spans))


def _places(trace: Trace, spans: Spans) -> set[Place]:
    places = (trace.names[int(n)].place for n in unique(spans.name))
    return {p for p in places if p is not None}


def _at(trace: Trace, spans: Spans, places: Collection[Place]) -> Bools:
    """Which spans are of one of these lines."""
    numbers, inverse = np.unique(spans.name, return_inverse=True)
    return np.array([trace.names[int(n)].place in places for n in numbers], dtype=bool)[inverse]
