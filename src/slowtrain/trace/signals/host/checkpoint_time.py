"""Checkpoints that a script writes between its steps.

Calls of the framework's functions were timed. Others (``np.savez``, ``pickle.dump``) are found from samples of the
main thread, by the text of the sampled lines.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from msgspec import Struct

from slowtrain.columns.arrays import Bools, distinct_values
from slowtrain.columns.spans import Spans
from slowtrain.model import Place
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import stalls
from slowtrain.trace.signals.host.host_work import (
    is_outermost,
    ms_of_samples,
    starts_in_windows,
    training_start_ms,
)
from slowtrain.trace.signals.host.source_lines import writes_checkpoint

MIN_CHECKPOINTS = 4  # checkpoints that the script writes itself; of fewer hardly one can be left out
# Relative to the training between them. A pass over an epoch's data costs about a third of training on it (a forward
# pass, instead of a forward and a backward one). Checkpoints above that are frequent or large, below that stalls.
MIN_CHECKPOINT_SHARE = 1 / 3
MIN_FREQUENT_SHARE = 0.1  # of a step; used if so many steps save that none is a stall
MAX_CHECKPOINT_LINES = 3


class CheckpointTime(Struct, frozen=True):
    """``passes``: how often; ``ms`` in all of them; ``training_ms`` in the rest of the training."""

    passes: int
    ms: float
    training_ms: float
    places: tuple[Place, ...]

    @property
    def is_much(self) -> bool:
        """Whether host/frequent-validation reports it."""
        return self.passes >= MIN_CHECKPOINTS and self.ms > MIN_CHECKPOINT_SHARE * self.training_ms


def find_checkpoints(trace: Trace) -> CheckpointTime | None:
    """Return the checkpoints; None if no saving line of the script was recorded or sampled."""
    return trace.compute_once(_measure_checkpoints)


def _measure_checkpoints(trace: Trace) -> CheckpointTime | None:
    if not len(trace.steps):
        return None
    samples, calls = _training_spans(trace, "stack"), _training_spans(trace, "save")
    calls = calls.where((calls.thread == trace.main) & is_outermost(calls))
    calls = calls.where(
        _is_at_places(trace, calls, {p for p in _span_places(trace, calls) if writes_checkpoint(trace, p)})
    )
    met = _is_at_places(
        trace,
        samples,
        {p for p in _span_places(trace, samples) - _span_places(trace, calls) if writes_checkpoint(trace, p)},
    )
    if not len(calls) and not met.any():
        return None
    lines: dict[Place | None, float] = {}  # ms by line
    for spans, ms in ((calls, calls.ms), (samples.where(met), ms_of_samples(trace, samples.where(met)))):
        for number, each in zip(spans.name, ms, strict=True):
            place = trace.names[int(number)].place
            lines[place] = lines.get(place, 0.0) + float(each)
    # Consecutive samples belong to one call. Calls shorter than the sampling interval are sampled in part.
    passes = len(calls) + (int((np.diff(np.flatnonzero(met)) > 1).sum()) + 1 if met.any() else 0)
    places = tuple(p for p in sorted(lines, key=lambda p: -lines[p]) if p is not None)
    spent, every = sum(lines.values()), float(ms_of_samples(trace, samples).sum())
    return CheckpointTime(passes, spent, max(every - spent, 1e-9), places[:MAX_CHECKPOINT_LINES])


def checkpoint_share_limit(trace: Trace) -> float:
    """Return the share of training above which host/frequent-validation reports checkpoints."""
    return (
        MIN_CHECKPOINT_SHARE if any(s.kind == "checkpoint" for s in stalls.find_stalls(trace)) else MIN_FREQUENT_SHARE
    )


def _training_spans(trace: Trace, lane: str) -> Spans:
    spans = trace.lane(lane).starting_between(training_start_ms(trace), float(trace.steps.end_ms[-1]))
    return spans.where(~starts_in_windows(trace, spans))


def _span_places(trace: Trace, spans: Spans) -> set[Place]:
    places = (trace.names[int(n)].place for n in distinct_values(spans.name))
    return {p for p in places if p is not None}


def _is_at_places(trace: Trace, spans: Spans, places: Collection[Place]) -> Bools:
    """Return which spans are of one of these lines."""
    numbers, inverse = np.unique(spans.name, return_inverse=True)
    return np.array([trace.names[int(n)].place in places for n in numbers], dtype=bool)[inverse]
