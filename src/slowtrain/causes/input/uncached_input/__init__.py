"""The same work is done again in every epoch, and its result would fit in memory or on the disk."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.causes.input.uncached_input import caches
from slowtrain.causes.input.uncached_input.caches import UnreadCache, find_unread_cache
from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.trace.signals.input_feed import (
    StorageRoom,
    as_ready_in_memory,
    calls_per_batch,
    expected_passes,
    storage_room,
    user_lines,
    waited_pipeline,
)
from slowtrain.trace.signals.shuffle_fill import find_shuffle_fill
from slowtrain.whatif import Drop, Remedy, Skip, Supply, held_up_ms, takes_step_cores

DISK_READ_FACTOR = 8.0  # times what copying in memory takes: a usual disk gives 500 MB/s


class RepeatedWork(Struct, frozen=True):
    """``node`` is the last deterministic map that sets the pace, or a zip of several.

    ``result_bytes``: all its results of an epoch. ``room``: where they fit; None if nowhere, or if that is unknown.
    ``is_waited_for``: the steps wait for batches.
    """

    pipeline: Pipeline
    node: Node
    result_bytes: float
    epochs: int
    room: StorageRoom | None
    is_waited_for: bool

    @property
    def share(self) -> float:
        """The part of the epochs that gain: all but the first."""
        return 1 - 1 / self.epochs

    @property
    def on_disk(self) -> bool:
        return self.room is not None and self.room.on_disk

    def where(self) -> tuple[Place, ...]:
        """The maps whose work is repeated, then caches in front of them that spare nothing."""
        maps = caches.cached_maps(self.pipeline, self.node)
        useless = caches.useless_cache_lines(self.pipeline, self.node)
        return (*distinct_places(place for one in maps for place in user_lines(one)), *useless)

    def evidence(self, trace: Trace) -> Evidence:
        assert self.room is not None
        useless = caches.useless_cache_lines(self.pipeline, self.node)
        ms = sum(n.ms for n in caches.cached_maps(self.pipeline, self.node))
        crowds = not self.is_waited_for and takes_step_cores(trace)
        core_wait = f"; no step waits for a batch, but each waits {format_number(held_up_ms(trace))} ms for a core"
        return Evidence(
            f"the same {format_number(ms)} ms of work for each batch is done in each of {self.epochs} epochs"
            f"{', behind the cache' if useless else ''}; its result for all elements takes "
            f"{format_number(self.result_bytes / 2**20)} MiB, {format_number(self.room.free_bytes / 2**20)} MiB are "
            f"free{self.room.where}{core_wait if crowds else ''}",
            {"work_ms": ms, "epochs": float(self.epochs), "result_bytes": self.result_bytes, **self.room.numbers},
            self.where(),
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        pipe, node, share = self.pipeline, self.node, self.share
        if not self.is_waited_for and not takes_step_cores(trace):
            return _shuffle_fill_remedies(trace, share)
        count = calls_per_batch(pipe, node)
        spared = [as_ready_in_memory(n, 0.0) for n in pipe.upstream_nodes(node)]
        batch_bytes = (node.written.element_bytes or 0) * count if node.written else 0.0
        read = as_ready_in_memory(node, count, batch_bytes * (DISK_READ_FACTOR if self.on_disk else 1.0))
        supply = Supply(pipeline=pipe.with_nodes(read, *spared), share=share, spread=(0.8, 1.1))
        return [supply, *_shuffle_fill_remedies(trace, share, within_steps=not self.is_waited_for)]

    def scope(self, trace: Trace) -> str:
        """``run`` if epochs wait for a shuffle buffer between the steps longer than the steps themselves wait."""
        fill = find_shuffle_fill(trace)
        if fill is None:
            return "step"
        waited = trace.mean(Category.INPUT) * int(trace.steps.steady.sum())
        return "run" if fill.outside_ms > (waited if self.is_waited_for else fill.step_ms) else "step"


class UncachedInput(Cause[RepeatedWork | UnreadCache]):
    """Every epoch reads and transforms the same elements again, though the results would fit in memory."""

    title = "The same input is made again every epoch"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    cured_by_packing = True
    recorded = frozenset({Signal.WRITTEN})
    symptoms = frozenset({Category.INPUT})
    words = (".map", "from_generator")
    context_words = ("Dataset", "from_generator", "TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")

    def find(self, trace: Trace) -> RepeatedWork | UnreadCache | None:
        repeated = _find_repeated_work(trace)
        if repeated is None:
            return find_unread_cache(trace)
        return repeated if repeated.room is not None else None

    def evidence(self, trace: Trace, finding: RepeatedWork | UnreadCache) -> Evidence:
        return finding.evidence(trace)

    def remedies(self, trace: Trace, finding: RepeatedWork | UnreadCache) -> Sequence[Remedy]:
        if isinstance(finding, RepeatedWork):
            return finding.remedies(trace)
        supply = finding.supply_once_filled()
        return [supply, *_shuffle_fill_remedies(trace, supply.share)]

    def scope_in(self, trace: Trace, finding: RepeatedWork | UnreadCache) -> str:
        return finding.scope(trace) if isinstance(finding, RepeatedWork) else self.scope


def _find_repeated_work(trace: Trace) -> RepeatedWork | None:
    """Repeated work of the pipeline that steps wait for, or that delays them."""
    waited = waited_pipeline(trace)
    pipe = waited or (trace.pipeline if _delays_steps_or_epochs(trace) else None)
    if pipe is None or (epochs := expected_passes(trace, pipe)) < 2:
        return None
    found = caches.node_worth_caching(trace, pipe)
    if found is None:
        return None
    node, result_bytes = found
    return RepeatedWork(pipe, node, result_bytes, epochs, storage_room(trace, result_bytes), waited is not None)


def _delays_steps_or_epochs(trace: Trace) -> bool:
    """Whether the input takes the steps' cores, or several epochs wait until it has filled a shuffle buffer."""
    fill = find_shuffle_fill(trace)
    return takes_step_cores(trace) or (fill is not None and fill.epochs > 1)


def _shuffle_fill_remedies(trace: Trace, share: float, *, within_steps: bool = True) -> list[Remedy]:
    """The wait for a shuffle buffer between the epochs, and ``within_steps`` if no other remedy counts that."""
    fill, spread = find_shuffle_fill(trace), (0.6, 1.05)
    if fill is None:
        return []
    inside = [Drop({Category.INPUT: share * fill.step_ms}, spread=spread)] if within_steps and fill.step_ms > 0 else []
    return [*inside, *([Skip(share * fill.outside_ms, spread=spread)] if fill.outside_ms > 0 else [])]
