"""The same work is done again in every epoch, and its result would fit in memory or on the disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.input.uncached_input import unread_cache
from slowtrain.columns.input_pipeline import Node, Pipeline, repeats_input
from slowtrain.model import Category, Edit, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import input_edits, measured
from slowtrain.source.cures.input import datasets
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.trace.signals.input import dataset_caches
from slowtrain.trace.signals.input.input_feed import as_ready_in_memory, calls_per_batch, user_lines, waited_pipeline
from slowtrain.trace.signals.input.shuffle_fill import find_shuffle_fill
from slowtrain.whatif import Drop, Remedy, Skip, Supply, held_up_ms, takes_step_cores

DISK = 8.0  # times what copying in memory takes: a usual disk gives 500 MB/s


class UncachedInput(Cause[Evidence]):
    """Every epoch reads and transforms the same elements again, though the results would fit in memory."""

    title = "The same input is made again every epoch"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    recorded = frozenset({Signal.WRITTEN})
    symptoms = frozenset({Category.INPUT})
    words = (".map", "from_generator")
    beside = ("Dataset", "from_generator", "TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")

    def find(self, trace: Trace) -> Evidence | None:
        found = _repeated(trace)
        if found is None or trace.pipeline is None:
            return unread_cache.evidence(trace)
        (node, size), epochs = found, dataset_caches.expected_passes(trace, trace.pipeline)
        if (room := input_edits.storage_room(trace, size)) is None:
            return None
        caches = dataset_caches.useless_cache_lines(trace.pipeline, node)
        does = dataset_caches.cached_maps(trace.pipeline, node)
        ms = sum(n.ms for n in does)
        crowds = f"; no step waits for it, but for {format_number(held_up_ms(trace))} ms for a core that it is made on"
        beside = crowds if waited_pipeline(trace) is None and takes_step_cores(trace) else ""
        return Evidence(
            f"the same {format_number(ms)} ms of work for each batch is done in each of {epochs} epochs"
            f"{', behind the cache' if caches else ''}; its result for all elements takes "
            f"{format_number(size / 2**20)} MiB, {format_number(room.free_bytes / 2**20)} MiB are "
            f"free{room.where}{beside}",
            {"work_ms": ms, "epochs": float(epochs), "result_bytes": size, **room.numbers},
            (*distinct_places(place for one in does for place in user_lines(one)), *caches),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found, pipe = _repeated(trace), trace.pipeline
        if found is None and (unread := unread_cache.found_in(trace)) is not None:
            supply = unread_cache.supply(unread)
            return [supply, *_filled(trace, supply.share)]
        if found is None or pipe is None:
            return []
        node, share = found[0], 1 - 1 / dataset_caches.expected_passes(trace, pipe)
        if waited_pipeline(trace) is None and not takes_step_cores(trace):
            return _filled(trace, share)
        count = calls_per_batch(pipe, node)
        cached = [as_ready_in_memory(n, 0.0) for n in pipe.upstream_nodes(node)]
        written = (node.written.element_bytes or 0) * count if node.written else 0.0
        again = as_ready_in_memory(node, count, written * (DISK if evidence.numbers.get("on_disk") else 1.0))
        supply = Supply(pipeline=pipe.changed(again, *cached), share=share, spread=(0.8, 1.1))
        return [supply, *_filled(trace, share, within=waited_pipeline(trace) is None)]

    def scope_in(self, trace: Trace, evidence: Evidence) -> str:
        """Of the run where the beginning of each epoch waits, between the steps, and these do not, or for less."""
        filled = find_shuffle_fill(trace) if _repeated(trace) is not None else None
        if filled is None:
            return "step"
        waited = trace.mean(Category.INPUT) * int(trace.steps.steady.sum())
        return (
            "run" if filled.outside_ms > (waited if waited_pipeline(trace) is not None else filled.step_ms) else "step"
        )

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if (node := _repeated(trace)) is None:
            yield from unread_cache.prescriptions(trace)
            return
        line = input_edits.mapped_function_line(node[0])
        same, on_disk = True, bool(evidence.numbers.get("on_disk"))

        def edit(source: Source, at: int) -> list[Edit]:
            nonlocal same
            made, same = (datasets.cached_on_disk if on_disk else datasets.cached)(source, at, line)
            return made

        made = measured.first(trace, evidence.where[:1], edit)
        treated = None if on_disk else dataset_caches.cache_treatment(trace.pipeline, node[0])
        effect = Effect.EXACT if same or treated else Effect.EQUIVALENT
        says = f"put .cache({'path' if on_disk else ''}) behind this map, in front of shuffle and random augmentation"
        if trace.pipeline is not None and any(repeats_input(n.name) for n in trace.pipeline.upstream_nodes(node[0])):
            says = "map in front of shuffle and repeat, with .cache() behind it: one behind repeat is never full"
        yield Prescription("edit", effect, says, edits=made, later=bool(made or treated), treatment=treated)


def _filled(trace: Trace, share: float, within: bool = True) -> list[Remedy]:
    """What a run waits for a shuffle buffer between its passes, and ``within`` steps where nobody counts that yet."""
    found, spread = find_shuffle_fill(trace), (0.6, 1.05)
    if found is None:
        return []
    inside = [Drop({Category.INPUT: share * found.step_ms}, spread=spread)] if within and found.step_ms > 0 else []
    return [*inside, *([Skip(share * found.outside_ms, spread=spread)] if found.outside_ms > 0 else [])]


def _waited_for(trace: Trace) -> Pipeline | None:
    """The pipeline that steps wait for, for a batch or a core, or epochs until it has filled a shuffle buffer."""
    filled = find_shuffle_fill(trace)
    return waited_pipeline(trace) or (
        trace.pipeline if takes_step_cores(trace) or (filled and filled.epochs > 1) else None
    )


def _repeated(trace: Trace) -> tuple[Node, float] | None:
    """The last deterministic map that sets the pace, or a zip of several, and the bytes of its results in an epoch."""
    pipe = _waited_for(trace)
    if pipe is None or dataset_caches.expected_passes(trace, pipe) < 2:
        return None
    return dataset_caches.node_worth_caching(trace, pipe)
