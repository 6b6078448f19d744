"""Data sets that each extend the previous one by further stages: the input grows from epoch to epoch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from slowtrain.columns.input_pipeline import Pipeline, WrittenDataset
from slowtrain.model import Place
from slowtrain.trace import Trace

MIN_GROWING_DATASETS = 4  # number of data sets, each longer than the one before


def find_added_stages(trace: Trace) -> tuple[str, tuple[Place, ...]] | None:
    """Return a sentence about data sets that each extend the previous one, and the added lines; None if they do not."""
    by_source: dict[Place | None, list[Pipeline]] = {}
    for pipe in trace.pipelines:
        if pipe.written:
            by_source.setdefault(pipe.written[0].place, []).append(pipe)
    for same in by_source.values():
        count = [len(pipe.written) for pipe in same]
        if len(same) < MIN_GROWING_DATASETS or any(b <= a for a, b in pairwise(count)):
            continue
        end = _common_tail_length(same[0].written, same[-1].written)
        added = same[-1].written[count[-2] - end : count[-1] - end]
        if any(p.written[: len(q.written) - end] != q.written[: len(q.written) - end] for q, p in pairwise(same)):
            continue
        says = (
            f"its data set has {count[0]} stages in the first epoch and {count[-1]} in the last, because each epoch "
            "adds stages to the previous ones"
        )
        return says, tuple(dict.fromkeys(w.place for w in added if w.place is not None))
    return None


def _common_tail_length(one: Sequence[WrittenDataset], other: Sequence[WrittenDataset]) -> int:
    """Return the number of equal stages at the end of both: those added after each (shuffle, batch, prefetch)."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    alike = [a.place is not None and (a.op, a.place) == (b.op, b.place) for a, b in pairs]
    return alike.index(False) if False in alike else 0
