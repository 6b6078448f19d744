"""Caches of data sets: those that nobody reads, and those that keep too little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slowtrain.model import Place
from slowtrain.trace import Trace
from slowtrain.trace.feeding import READING, WAITED, is_users, op_ms, result_bytes, turns, wait_share
from slowtrain.trace.pipeline import Node, Pipeline, Written
from slowtrain.values import dataclass

LEAST_ANEW = 3
INFINITE, UNKNOWN = -1, -2  # lengths that tf.data gives
FILES = ("TFRecord", "TextLine", "FixedLengthRecord")
CALLING = frozenset({"Map", "Filter", "FlatMap", "Interleave"})  # a function of the script
WHOLE = CALLING | frozenset("Batch RaggedBatch Unbatch Prefetch Options Enumerate Skip Window IgnoreErrors".split())
SAME = WHOLE | frozenset("Slices Range Zip Concatenate Take".split())  # as are elements, in their order, in every pass
READ_TO_THE_END = WHOLE | {"Shuffle", "Repeat"}  # of what stands in front, in each pass
JOINING = ("Zip", "Concatenate")
LEAST_MS = 0.05
OPENING = 0.5  # of the time of all that leads to a node: then files are what costs
WORK = 0.3  # of a node's time in ops that compute
CHANGING = ("ReadVariable", "ResourceGather", "Timestamp", "IteratorGetNext")  # ops whose answer may be another later


def passes(trace: Trace, pipe: Pipeline) -> int:
    """Passes over the data: those that began, or, where the recording ended within the first, those `fit` was to make.

    That end is told by the data set's own length, in batches; a `fit` that counts its steps passes over no data set. Of
    one that repeats itself it is told by the length of what is repeated.
    """
    length = pipe.written[-1].detail.get("cardinality") if pipe.written else None
    made = turns(pipe)
    if made > 1 or not isinstance(length, int) or not 0 < pipe.batches < length:
        return made
    return max((n for n in _asked(trace) if isinstance(n, int)), default=1)


def asked_beyond(trace: Trace) -> bool:
    """Whether ``fit`` learns by an empty iterator where a data set of unknown length ends, and then goes on.

    That call of the train step raises, and counts as a step of the optimizer for all that (Keras 3.15), on which its
    rate hangs. A data set that knows its length is not asked beyond its end.
    """
    return any(epochs != 1 for epochs in _asked(trace))


def _asked(trace: Trace) -> list[Any]:
    """Epochs of each ``fit`` that goes to the end of its data in every one, as they were given."""
    fits = (e.data for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("steps_per_epoch"))
    return [fit.get("epochs") for fit in fits]


@dataclass(frozen=True)
class Unread:
    """A cache that nobody reads. ``times``: passes that do the work again.

    ``why``: anew (each data set that is built has its own), or no pass comes to the end: take (what is behind stops
    earlier), repeat (what is in front never ends), generator (nor does that).
    """

    pipe: Pipeline
    cache: Node
    times: int
    why: str


def unread(trace: Trace, *, crowds: bool = False) -> Unread | None:
    """None where the steps do not wait for what stands in front of such a cache. ``crowds``: it takes their cores."""
    return _anew(trace) or (_unfilled(trace) if crowds or wait_share(trace) >= WAITED else None)


def _anew(trace: Trace) -> Unread | None:
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
    return Unread(pipe, cache, len(most), "anew")


def _unfilled(trace: Trace) -> Unread | None:
    """A cache that stands behind most of the work, and of which no pass comes to the end."""
    pipe = trace.pipeline
    cache = next((n for n in reversed(pipe.nodes) if n.family == "Cache" and is_users(n)), None) if pipe else None
    if pipe is None or cache is None or cache.written is None:
        return None
    if sum(n.ms for n in pipe.upstream(cache)) < 0.5 * pipe.ms:
        return None
    length = cache.written.detail.get("cardinality")
    behind = [w for i, w in enumerate(pipe.written) if i not in up_to(pipe, [cache.written])]
    taken = [w.detail.get("cardinality") for w in behind if w.family == "Take"]
    cut = isinstance(length, int) and length >= 0 and any(isinstance(n, int) and 0 <= n < length for n in taken)
    if cut and (times := passes(trace, pipe)) >= 2:
        return Unread(pipe, cache, times, "take")
    if length == INFINITE and (times := max(turns(pipe), _epochs_by_steps(trace))) >= 2:
        return Unread(pipe, cache, times, "repeat")
    # One iterator gave the batches of all epochs and never came to an end.
    endless = length == UNKNOWN and pipe.epochs == 1 and any(n.name == "Generator" for n in pipe.upstream(cache))
    times = _epochs_by_steps(trace)
    return Unread(pipe, cache, times, "generator") if endless and times >= 2 else None


def _epochs_by_steps(trace: Trace) -> int:
    """Epochs of the ``fit`` that counts its steps; 1 without one."""
    fits = [e.data for e in trace.events_of("loop") if e.name == "fit" and e.data.get("steps_per_epoch")]
    return max((n for fit in fits if isinstance(n := fit.get("epochs"), int)), default=1)


def in_vain(pipe: Pipeline, node: Node) -> tuple[Place, ...]:
    """Caches that keep only what the node is made from."""
    caches = (n.written for n in pipe.upstream(node) if n.family == "Cache" and n.written is not None)
    return tuple(w.place for w in caches if w.place is not None)


def kept_or_cut(pipe: Pipeline, chain: Sequence[Node]) -> bool:
    """Whether a cache stands behind these nodes, or something that leaves a cache there incomplete.

    What TensorFlow drops, as a ``take`` of all, is written and no node: what stands in front is told by the writing.
    """
    before = up_to(pipe, [n.written for n in chain if n.written is not None])
    return any(w.family in ("Cache", "Take") and i not in before for i, w in enumerate(pipe.written))


def worth(trace: Trace, pipe: Pipeline) -> tuple[Node, float] | None:
    """The node behind which a cache keeps at least half of the work, and bytes for an epoch: the last map that will do.

    Where several maps are joined (``zip``, ``concatenate``) and none is half of the work, what joins stands for them.
    """
    for family in ("Map", *JOINING):
        for node in reversed(pipe.nodes):
            size = _kept_bytes(trace, pipe, node) if node.family == family and is_users(node) else None
            if size is not None:
                return node, size
    return None


def doing(pipe: Pipeline, node: Node) -> list[Node]:
    """The maps whose work a cache behind ``node`` keeps: itself, or those that it joins."""
    feeding = {n.id for n in pipe.upstream(node)}
    maps = [n for n in pipe.nodes if n.id in feeding and n.family == "Map" and is_users(n)]
    return [node] if node.family == "Map" else [n for n in maps if n.ms >= LEAST_MS]


def _kept_bytes(trace: Trace, pipe: Pipeline, node: Node) -> float | None:
    """Bytes that a pass makes at this node; None where a cache behind it would keep nothing that is worth it."""
    chain, does = [node, *pipe.upstream(node)], doing(pipe, node)
    if node.written is None or max((n.ms for n in does), default=0.0) < LEAST_MS or kept_or_cut(pipe, chain):
        return None
    if any(n.name == "Generator" or (n.written and (n.written.random or n.written.python)) for n in chain):
        return None
    for one in does:
        inside, read = op_ms(trace, one), op_ms(trace, one, READING)
        if inside is not None and inside - (read or 0.0) < WORK * one.ms:
            return None  # the price of calls and of opening files, not of work: other causes
    heavy = sum(n.ms for n in chain)
    if sum(op_ms(trace, n, READING) or 0.0 for n in chain) > OPENING * heavy:
        return None
    return result_bytes(pipe, node) if heavy >= 0.5 * pipe.ms else None


def treatment(pipe: Pipeline | None, node: Node) -> str | None:
    """The cure of the running script that caches ``node``, a ``map``; None where what was written leaves a doubt.

    All up to it has to give the same in every pass, in the same order, and all behind it to read it to its end. Its
    line has to be that of no other ``map``.
    """
    own = node.written
    if pipe is None or own is None or own.place is None or own.family != "Map" or "Batch" in own.op:
        return None
    before = up_to(pipe, [own])
    same = all(_same(w) for i, w in enumerate(pipe.written) if i in before)
    read = all(w.family in READ_TO_THE_END for i, w in enumerate(pipe.written) if i not in before)
    alone = sum(w.family == "Map" and w.place == own.place for w in pipe.written) == 1
    users = bool((own.detail.get("function") or {}).get("user"))
    return f"cache@{own.place}" if same and read and alone and users else None


def _same(written: Written) -> bool:
    """Whether it surely gives the same in every pass, if what it reads does."""
    if written.family not in SAME and not written.op.startswith(FILES):
        return False
    unseen = written.family in CALLING and not written.ops
    drawn = written.random or written.python or any(op.startswith(CHANGING) for op in written.ops)
    return not unseen and not drawn and written.detail.get("deterministic") not in (False, "false")


def up_to(pipe: Pipeline, last: Sequence[Written]) -> set[int]:
    """The numbers of ``last`` and of all that they are made from."""
    todo = [i for i, w in enumerate(pipe.written) if any(w is one for one in last)]
    found = set(todo)
    while todo:
        more = [i for i in pipe.written[todo.pop()].inputs if i not in found and i < len(pipe.written)]
        found.update(more)
        todo += more
    return found
