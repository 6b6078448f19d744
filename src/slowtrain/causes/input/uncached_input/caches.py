"""Caches that are never read, and maps whose results a cache would keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from slowtrain.columns.input_pipeline import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Node, Pipeline, WrittenDataset
from slowtrain.model import Evidence, Place
from slowtrain.number_text import format_number
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import (
    MIN_WAIT_SHARE,
    READING_OPS,
    as_ready_in_memory,
    data_passes,
    epoch_result_bytes,
    expected_passes,
    input_wait_share,
    is_user_node,
    profiled_op_ms,
    user_lines,
)
from slowtrain.whatif import Supply, takes_step_cores

MIN_REBUILDS = 3
# Why it never fills, and what to do, by ``UnreadCache.why``.
UNFILLED_REASONS = {
    "take": ("take() behind it stops each pass before its end", "put take() in front of cache()"),
    "repeat": ("repeat() in front of it has no end", "put repeat() behind cache()"),
    "generator": ("the generator in front of it has no end", "let the generator end after one pass: cache().repeat()"),
}
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


class UnreadCache(Struct, frozen=True):
    """A cache that is never read. ``times``: passes that repeat the work.

    ``why``: ``anew`` (each data set that is built has its own cache), or no pass reaches the end: ``take`` (a later
    stage stops earlier), ``repeat`` (its input never ends), ``generator`` (nor does this).
    """

    pipe: Pipeline
    cache: Node
    times: int
    why: str

    def evidence(self, trace: Trace) -> Evidence:
        cache, times = self.cache, self.times
        ms = sum(n.ms for n in self.pipe.upstream_nodes(cache))
        numbers = {"work_ms": ms, "epochs": float(times)}
        if self.why in UNFILLED_REASONS:
            reason, _ = UNFILLED_REASONS[self.why]
            return Evidence(
                f"the cache never fills, because {reason}: {format_number(ms)} ms of work for each batch is done in "
                f"each of {times} epochs, and what the cache keeps is never read",
                numbers,
                user_lines(cache),
            )
        return Evidence(
            f"the data set was built {times} times with a cache of its own, each for one pass: these caches are never "
            f"read, and {format_number(ms)} ms of work for each batch is done in every pass",
            numbers,
            tuple(dict.fromkeys((*_rebuilding_loops(trace, cache), *user_lines(cache)))),
        )

    def supply_once_filled(self) -> Supply:
        """The pipeline once its cache is read: the work in front of it is done in the first pass only."""
        pipe, cache, times = self.pipe, self.cache, self.times
        size = cache.written.element_bytes or 0 if cache.written is not None else 0
        spared = [as_ready_in_memory(n, 0.0) for n in pipe.upstream_nodes(cache)]
        read = as_ready_in_memory(cache, cache.elements, size * cache.elements)
        # Nothing shows whether a generator without end repeats the same elements.
        spread = (0.2, 1.1) if self.why == "generator" else (0.8, 1.1)
        return Supply(pipeline=pipe.with_nodes(read, *spared), share=1 - 1 / times, spread=spread)


def find_unread_cache(trace: Trace) -> UnreadCache | None:
    """Return the unused cache; None if the steps neither wait for the work before it nor share their cores with it."""
    rebuilt = _rebuilt_cache(trace)
    if rebuilt is not None or not (takes_step_cores(trace) or input_wait_share(trace) >= MIN_WAIT_SHARE):
        return rebuilt
    return _unfilled_cache(trace)


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
    behind = [w for i, w in enumerate(pipe.written) if i not in pipe.datasets_up_to([cache.written])]
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


def _rebuilding_loops(trace: Trace, node: Node) -> tuple[Place, ...]:
    """The loop that rebuilds ``node`` in each iteration, if it calls the function that builds the node."""
    place = node.written.place if node.written is not None else None
    text = recorded_source(trace, place.file) if place is not None else None
    line = text.loop_at_line(place.line)[1] if text is not None and place is not None else None
    return (Place(place.file, line),) if place is not None and line not in (None, place.line) else ()


def useless_cache_lines(pipe: Pipeline, node: Node) -> tuple[Place, ...]:
    """Return the lines of caches that keep only the input of this node."""
    caches = (n.written for n in pipe.upstream_nodes(node) if n.family == "Cache" and n.written is not None)
    return tuple(w.place for w in caches if w.place is not None)


def has_later_cache_or_take(pipe: Pipeline, chain: Sequence[Node]) -> bool:
    """Return whether a cache comes after these nodes, or a stage that would leave a cache there incomplete.

    TensorFlow drops a ``take`` of everything, so that it is written but is no node. Therefore the written data sets
    decide what comes before.
    """
    before = pipe.datasets_up_to([n.written for n in chain if n.written is not None])
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
    before = pipe.datasets_up_to([own])
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
