"""Caches of data sets: those that nobody reads, and those that keep too little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slowtrain.model import Place
from slowtrain.trace import Trace
from slowtrain.trace.feeding import WAITED, is_users, wait_share
from slowtrain.trace.pipeline import Node, Pipeline

LEAST_ANEW = 3


def passes(trace: Trace, pipe: Pipeline) -> int:
    """Passes over the data: those that began, or, where the recording ended within the first, those `fit` was to make.

    That end is told by the data set's own length, in batches; a `fit` that counts its steps passes over no data set.
    """
    length = pipe.written[-1].detail.get("cardinality") if pipe.written else None
    if pipe.epochs > 1 or not isinstance(length, int) or not 0 < pipe.batches < length:
        return pipe.epochs
    fits = (e.data for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("steps_per_epoch"))
    asked = [fit.get("epochs") for fit in fits]
    return max((n for n in asked if isinstance(n, int)), default=1)


def anew(trace: Trace) -> tuple[Pipeline, Node, int] | None:
    """A data set that is built again and again with a cache in it, each time for one pass; the cache; how often."""
    alike: dict[tuple[Any, ...], list[Pipeline]] = {}
    for pipe in trace.pipelines:
        if pipe.epochs <= 1 and pipe.batches and any(n.family == "Cache" for n in pipe.nodes):
            key = tuple((w.op, w.place, w.detail.get("cardinality")) for w in pipe.written)
            alike.setdefault(key, []).append(pipe)
    most = max(alike.values(), key=len, default=[])
    waits = wait_share(trace) >= WAITED
    if len(most) < LEAST_ANEW or not waits:
        return None
    pipe = max(most, key=lambda one: one.batches)
    cache = next((n for n in reversed(pipe.nodes) if n.family == "Cache" and is_users(n)), None)
    if cache is None or sum(n.ms for n in pipe.upstream(cache)) < 0.5 * pipe.ms:
        return None
    return pipe, cache, len(most)


def in_vain(pipe: Pipeline, node: Node) -> tuple[Place, ...]:
    """Caches that keep only what the node is made from."""
    caches = (n.written for n in pipe.upstream(node) if n.family == "Cache" and n.written is not None)
    return tuple(w.place for w in caches if w.place is not None)


def kept_or_cut(pipe: Pipeline, chain: Sequence[Node]) -> bool:
    """Whether a cache stands behind these nodes, or something that leaves a cache there incomplete.

    What TensorFlow drops, as a ``take`` of all, is written and no node: what stands in front is told by the writing.
    """
    theirs = [n.written for n in chain if n.written is not None]
    todo = [i for i, w in enumerate(pipe.written) if any(w is one for one in theirs)]
    before = set(todo)
    while todo:
        more = [i for i in pipe.written[todo.pop()].inputs if i not in before and i < len(pipe.written)]
        before.update(more)
        todo += more
    return any(w.family in ("Cache", "Take") and i not in before for i, w in enumerate(pipe.written))
