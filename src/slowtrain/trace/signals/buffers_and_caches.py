"""Shuffle buffers that epochs wait for, and caches of data sets that are unused or keep too little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slowtrain.columns.arrays import median_value
from slowtrain.columns.input_pipeline import (
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    Node,
    Pipeline,
    WrittenDataset,
    largest_parallelism,
)
from slowtrain.model import Category, Place
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import (
    MIN_WAIT_SHARE,
    READING_OPS,
    data_passes,
    epoch_result_bytes,
    input_wait_share,
    is_user_node,
    profiled_op_ms,
)

MIN_FILL_RATIO = 3.0  # times a usual step; a first step that waits longer waits for a buffer to fill
MAX_FILL_RATIO = 5.0  # times the making of its elements; a longer wait has another reason
FILL_STEPS_PER_EPOCH = 2  # first steps of an epoch that wait for a filling buffer
MIN_REBUILDS = 3
FILE_DATASET_PREFIXES = ("TFRecord", "TextLine", "FixedLengthRecord")
CALLING_FAMILIES = frozenset({"Map", "Filter", "FlatMap", "Interleave"})  # stages that call a function of the script
WHOLE_PASS_FAMILIES = CALLING_FAMILIES | frozenset(
    "Batch RaggedBatch Unbatch Prefetch Options Enumerate Skip Window IgnoreErrors".split()
)
# Give the same elements in order in every pass; read their input to its end in each pass.
REPEATABLE_FAMILIES = WHOLE_PASS_FAMILIES | frozenset("Slices Range Zip Concatenate Take".split())
READ_TO_END_FAMILIES = WHOLE_PASS_FAMILIES | {"Shuffle", "Repeat"}
JOINING_FAMILIES = ("Zip", "Concatenate")
MIN_CACHED_MAP_MS = 0.05
MAX_OPENING_SHARE = 0.5  # of the time up to a node; with more, opening files is the cost
MIN_COMPUTING_SHARE = 0.3  # of a node's time in computing ops
CHANGING_OPS = ("ReadVariable", "ResourceGather", "Timestamp", "IteratorGetNext")  # ops whose result may change later


@dataclass(frozen=True)
class ShuffleFill:
    """``step_ms``: wait for filling, spread over the steady steps. ``outside_ms``: wait between steps, in the run.

    ``overlapped_ms`` per step remains if elements are made while the steps run.
    """

    node: Node
    step_ms: float
    outside_ms: float
    overlapped_ms: float
    epochs: int
    each_ms: float


def find_shuffle_fill(trace: Trace) -> ShuffleFill | None:
    """Return the user's shuffle buffer that epochs wait for while it fills, or None."""
    pipe = trace.pipeline
    if pipe is None:
        return None
    nodes = [n for n in pipe.nodes if n.family == "Shuffle" and n.written and n.written.place]
    if not nodes:
        return None
    node = nodes[-1]
    inside, first, each = _fill_ms_in_steps(trace)
    outside, times = _fill_ms_between_steps(trace)
    if not outside and (begun := _first_call_fill_ms(trace, node)) > MIN_FILL_RATIO * trace.step_ms:
        outside, times = begun, 1
    if inside + outside <= 0:
        return None
    if max(each, outside / max(times, 1)) > MAX_FILL_RATIO * (_buffer_fill_ms(trace, node) or np.inf):
        return None
    count = max(int(trace.steps.steady.sum()), 1)
    rest = trace.step_ms - trace.mean(Category.INPUT)
    epochs, each = first + times, max(each, outside / max(times, 1))
    batch_ms = _batch_making_ms(trace, node, each)
    # Elements made during the steps share the cores with them; before, they were made while the steps waited.
    own = float(trace.facts.get("step_cpu_ms") or 0.0)
    making_cores = min(largest_parallelism(pipe.upstream_nodes(node)), trace.cores)
    shared = (min(own, trace.cores * rest) + batch_ms * making_cores) / trace.cores if own else 0.0
    return ShuffleFill(node, inside / count, outside, max(batch_ms - rest, shared - rest, 0.0), epochs, each)


def _first_call_fill_ms(trace: Trace, node: Node) -> float:
    """Return ms that the first training call waits until the buffer is full; 0 if unknown.

    That call also traces and compiles. Tracing is measured separately. Of the rest at most the time of making the
    elements is counted.
    """
    steps, filling = trace.steps, _buffer_fill_ms(trace, node)
    if not len(steps) or not filling:
        return 0.0
    begun = float(steps.start_ms[0])
    first = [e for e in trace.events_of("trace") if e.data.get("training") and e.start_ms <= float(steps.end_ms[0])]
    calls = [e.ms - float(e.data.get("trace_ns") or 0) / 1e6 for e in first if e.end_ms > begun]
    return max(min(max(calls, default=0.0) - trace.step_ms, filling), 0.0)


def _buffer_fill_ms(trace: Trace, node: Node) -> float:
    """Return the time to make all elements that the buffer holds, from the counters; 0 if unknown."""
    pipe, elements = trace.pipeline, _buffer_elements(node)
    up = pipe.upstream_nodes(node) if pipe is not None else []
    passed = max((n.elements for n in up if n.id in node.inputs), default=node.elements)
    if not elements or passed <= 0:
        return 0.0
    return elements * (sum(n.ms / max(n.parallelism or 1.0, 1.0) for n in up) + node.ms) / passed


def _buffer_elements(node: Node) -> int:
    """Return the elements in the full buffer, 0 if unknown."""
    sizes = [int(n) for key in ("buffer_size", "cardinality") if node.written and (n := node.written.detail.get(key))]
    return min((n for n in sizes if n > 0), default=0)


def _batch_making_ms(trace: Trace, node: Node, each_ms: float) -> float:
    """Return the time to make a batch's elements, from the time that filling the buffer took per element."""
    batch = node.elements
    elements = _buffer_elements(node)
    if elements >= batch > 0:
        return each_ms / elements * batch
    # The buffer's size is unknown: uses the nodes that feed it, scaled to one batch of elements.
    pipe = trace.pipeline
    if pipe is None:
        return 0.0
    up = pipe.upstream_nodes(node)
    per = batch / max(max((n.elements for n in up), default=batch), 1e-9)
    return pipe.with_nodes(*(replace(n, ms=n.ms * min(per, 1.0)) for n in up)).made_ms


def _fill_ms_in_steps(trace: Trace) -> tuple[float, int, float]:
    """Return total ms that the first steps of epochs wait beyond usual steps, their number, and ms of each."""
    column, steps = trace.categories.get(Category.INPUT), trace.steps
    if column is None or not steps.steady.any():
        return 0.0, 0, 0.0
    starts = np.flatnonzero(np.diff(steps.block, prepend=-1) != 0)
    head = np.zeros(len(steps), dtype=bool)
    for shift in range(FILL_STEPS_PER_EPOCH):
        head[np.minimum(starts + shift, len(steps) - 1)] = True
    usual = float(median_value(steps.ms[steps.steady & ~head])) if (steps.steady & ~head).any() else 0.0
    mine = steps.steady & head & (column > MIN_FILL_RATIO * usual)
    total = float(column[mine].sum())
    if total < 0.5 * float(column[steps.steady].sum()):
        return 0.0, 0, 0.0
    return total, int(mine.sum()), total / max(int(mine.sum()), 1)


def _fill_ms_between_steps(trace: Trace) -> tuple[float, int]:
    """Return ms that a loop waits for its first batches before the first step of an epoch, and how often."""
    spans, steps = trace.lane("next"), trace.steps
    if not len(spans) or not len(steps):
        return 0.0, 0
    usual = float(median_value(spans.ms))
    at = np.searchsorted(steps.start_ms, spans.start_ms, side="right") - 1
    between = (at < 0) | (spans.start_ms >= steps.end_ms[np.maximum(at, 0)])
    mine = between & (spans.ms > max(MIN_FILL_RATIO * usual, MIN_FILL_RATIO * trace.step_ms))
    return float(spans.ms[mine].sum()), int(mine.sum())


def expected_passes(trace: Trace, pipe: Pipeline) -> int:
    """Return passes over the data: those that began, or those that `fit` would have made.

    The latter is used if the recording ended within the first pass. This is known from the data set's length in
    batches; for a repeated data set from the length of its input. A `fit` that counts its steps makes no passes.
    """
    length = pipe.written[-1].detail.get("cardinality") if pipe.written else None
    passes = data_passes(pipe)
    if passes > 1 or not isinstance(length, int) or not 0 < pipe.batches < length:
        return passes
    return max((n for n in _fit_epochs(trace) if isinstance(n, int)), default=1)


def is_asked_beyond_end(trace: Trace) -> bool:
    """Return whether ``fit`` finds the end of a data set of unknown length by an empty iterator, and then continues.

    That call of the train step raises, but still counts as an optimizer step (Keras 3.15), which affects its learning
    rate schedule. A data set of known length is not read beyond its end.
    """
    return any(epochs != 1 for epochs in _fit_epochs(trace))


def _fit_epochs(trace: Trace) -> list[Any]:
    """Return the given epochs of each ``fit`` that reads its data to the end in every epoch."""
    fits = (e.data for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("steps_per_epoch"))
    return [fit.get("epochs") for fit in fits]


@dataclass(frozen=True)
class UnreadCache:
    """A cache that is never read. ``times``: passes that repeat the work.

    ``why``: ``anew`` (each data set that is built has its own cache), or no pass reaches the end: ``take`` (a later
    stage stops earlier), ``repeat`` (its input never ends), ``generator`` (nor does this).
    """

    pipe: Pipeline
    cache: Node
    times: int
    why: str


def find_unread_cache(trace: Trace, *, crowds: bool = False) -> UnreadCache | None:
    """Return the unused cache; None if the steps do not wait for the work before it.

    ``crowds``: that work takes their cores.
    """
    return _rebuilt_cache(trace) or (
        _unfilled_cache(trace) if crowds or input_wait_share(trace) >= MIN_WAIT_SHARE else None
    )


def _rebuilt_cache(trace: Trace) -> UnreadCache | None:
    """Return a cache in a data set that is built repeatedly, each time for one pass."""
    alike: dict[tuple[Any, ...], list[Pipeline]] = {}
    for pipe in trace.pipelines:
        if pipe.epochs <= 1 and pipe.batches and any(n.family == "Cache" for n in pipe.nodes):
            key = tuple((w.op, w.place, w.detail.get("cardinality")) for w in pipe.written)
            alike.setdefault(key, []).append(pipe)
    most = max(alike.values(), key=len, default=[])
    waits = input_wait_share(trace) >= MIN_WAIT_SHARE
    if len(most) < MIN_REBUILDS or not waits:
        return None
    pipe = max(most, key=lambda one: one.batches)
    cache = _cache_after_most_work(pipe)
    return UnreadCache(pipe, cache, len(most), "anew") if cache is not None else None


def _cache_after_most_work(pipe: Pipeline) -> Node | None:
    """Return the user's last cache, if most of the work comes before it."""
    cache = next((n for n in reversed(pipe.nodes) if n.family == "Cache" and is_user_node(n)), None)
    costly = cache is not None and sum(n.ms for n in pipe.upstream_nodes(cache)) >= 0.5 * pipe.ms
    return cache if costly else None


def _unfilled_cache(trace: Trace) -> UnreadCache | None:
    """Return a cache that comes after most of the work and that no pass reads to the end."""
    pipe = trace.pipeline
    cache = _cache_after_most_work(pipe) if pipe is not None else None
    if pipe is None or cache is None or cache.written is None:
        return None
    length = cache.written.detail.get("cardinality")
    behind = [w for i, w in enumerate(pipe.written) if i not in datasets_up_to(pipe, [cache.written])]
    taken = [w.detail.get("cardinality") for w in behind if w.family == "Take"]
    cut = isinstance(length, int) and length >= 0 and any(isinstance(n, int) and 0 <= n < length for n in taken)
    if cut and (times := expected_passes(trace, pipe)) >= 2:
        return UnreadCache(pipe, cache, times, "take")
    if length == INFINITE_CARDINALITY and (times := max(data_passes(pipe), _step_counted_epochs(trace))) >= 2:
        return UnreadCache(pipe, cache, times, "repeat")
    # One iterator delivered the batches of all epochs and never ended.
    endless = (
        length == UNKNOWN_CARDINALITY
        and pipe.epochs == 1
        and any(n.name == "Generator" for n in pipe.upstream_nodes(cache))
    )
    times = _step_counted_epochs(trace)
    return UnreadCache(pipe, cache, times, "generator") if endless and times >= 2 else None


def _step_counted_epochs(trace: Trace) -> int:
    """Return the epochs of a ``fit`` with a number of steps; 1 without one."""
    fits = [e.data for e in trace.events_of("loop") if e.name == "fit" and e.data.get("steps_per_epoch")]
    return max((n for fit in fits if isinstance(n := fit.get("epochs"), int)), default=1)


def useless_cache_lines(pipe: Pipeline, node: Node) -> tuple[Place, ...]:
    """Return the lines of caches that keep only the input of this node."""
    caches = (n.written for n in pipe.upstream_nodes(node) if n.family == "Cache" and n.written is not None)
    return tuple(w.place for w in caches if w.place is not None)


def has_later_cache_or_take(pipe: Pipeline, chain: Sequence[Node]) -> bool:
    """Return whether a cache comes after these nodes, or a stage that would leave a cache there incomplete.

    TensorFlow drops a ``take`` of everything, so that it is written but is no node. Therefore the written data sets
    decide what comes before.
    """
    before = datasets_up_to(pipe, [n.written for n in chain if n.written is not None])
    return any(w.family in ("Cache", "Take") and i not in before for i, w in enumerate(pipe.written))


def node_worth_caching(trace: Trace, pipe: Pipeline) -> tuple[Node, float] | None:
    """Return the last map after which a cache keeps at least half of the work, and its bytes per epoch.

    If several maps are joined (``zip``, ``concatenate``) and none is half of the work, the joining node is used.
    """
    for family in ("Map", *JOINING_FAMILIES):
        for node in reversed(pipe.nodes):
            size = _cache_bytes(trace, pipe, node) if node.family == family and is_user_node(node) else None
            if size is not None:
                return node, size
    return None


def cached_maps(pipe: Pipeline, node: Node) -> list[Node]:
    """Return the maps whose work a cache after ``node`` keeps: itself, or those that it joins."""
    feeding = {n.id for n in pipe.upstream_nodes(node)}
    maps = [n for n in pipe.nodes if n.id in feeding and n.family == "Map" and is_user_node(n)]
    return [node] if node.family == "Map" else [n for n in maps if n.ms >= MIN_CACHED_MAP_MS]


def _cache_bytes(trace: Trace, pipe: Pipeline, node: Node) -> float | None:
    """Return the bytes of one pass at this node; None if a cache after it would not be worthwhile."""
    chain, does = [node, *pipe.upstream_nodes(node)], cached_maps(pipe, node)
    if (
        node.written is None
        or max((n.ms for n in does), default=0.0) < MIN_CACHED_MAP_MS
        or has_later_cache_or_take(pipe, chain)
    ):
        return None
    if any(n.name == "Generator" or (n.written and (n.written.random or n.written.python)) for n in chain):
        return None
    for one in does:
        inside, read = profiled_op_ms(trace, one), profiled_op_ms(trace, one, READING_OPS)
        if inside is not None and inside - (read or 0.0) < MIN_COMPUTING_SHARE * one.ms:
            return None  # the cost is calls or opening files, not computation: other causes
    heavy = sum(n.ms for n in chain)
    if sum(profiled_op_ms(trace, n, READING_OPS) or 0.0 for n in chain) > MAX_OPENING_SHARE * heavy:
        return None
    return epoch_result_bytes(pipe, node) if heavy >= 0.5 * pipe.ms else None


def cache_treatment(pipe: Pipeline | None, node: Node) -> str | None:
    """Return the cure of the running script that caches ``node``, a ``map``; None in case of doubt.

    All stages up to it must give the same in every pass, in the same order, and all later ones must read it to the
    end. Its line must not contain another ``map``.
    """
    own = node.written
    if pipe is None or own is None or own.place is None or own.family != "Map" or "Batch" in own.op:
        return None
    before = datasets_up_to(pipe, [own])
    same = all(_is_repeatable(w) for i, w in enumerate(pipe.written) if i in before)
    read = all(w.family in READ_TO_END_FAMILIES for i, w in enumerate(pipe.written) if i not in before)
    alone = sum(w.family == "Map" and w.place == own.place for w in pipe.written) == 1
    users = bool((own.detail.get("function") or {}).get("user"))
    return f"cache@{own.place}" if same and read and alone and users else None


def _is_repeatable(written: WrittenDataset) -> bool:
    """Return whether a stage certainly gives the same in every pass, if its input does."""
    if written.family not in REPEATABLE_FAMILIES and not written.op.startswith(FILE_DATASET_PREFIXES):
        return False
    unseen = written.family in CALLING_FAMILIES and not written.ops
    drawn = written.random or written.python or any(op.startswith(CHANGING_OPS) for op in written.ops)
    return not unseen and not drawn and written.detail.get("deterministic") not in (False, "false")


def datasets_up_to(pipe: Pipeline, last: Sequence[WrittenDataset]) -> set[int]:
    """Return the indices of ``last`` and of all their inputs."""
    todo = [i for i, w in enumerate(pipe.written) if any(w is one for one in last)]
    found = set(todo)
    while todo:
        more = [i for i in pipe.written[todo.pop()].inputs if i not in found and i < len(pipe.written)]
        found.update(more)
        todo += more
    return found
