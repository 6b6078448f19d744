"""Keeps the results of work that every epoch repeats."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.uncached_input import RepeatedWork, caches
from slowtrain.causes.input.uncached_input.caches import UNFILLED_REASONS, UnreadCache
from slowtrain.columns.input_pipeline import repeats_input
from slowtrain.model import Edit, Effect, Prescription
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.locations.edits import packing_edits, recorded_edits
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace


def find_cures(trace: Trace, finding: RepeatedWork | UnreadCache) -> Iterable[Prescription]:
    return _cache_cures(trace, finding) if isinstance(finding, RepeatedWork) else _unread_cache_cures(finding)


def _cache_cures(trace: Trace, finding: RepeatedWork) -> Iterable[Prescription]:
    line = finding.node.function_line
    add_cache = dataset_edits.add_disk_cache if finding.on_disk else dataset_edits.add_cache
    same = True

    def edit(source: Source, at: int) -> list[Edit]:
        nonlocal same
        changed, same = add_cache(source, at, line)
        return changed

    changed = recorded_edits.first_applicable(trace, finding.where()[:1], edit)
    treated = None if finding.on_disk else caches.cache_treatment(finding.pipeline, finding.node)
    effect = Effect.EXACT if same or treated else Effect.EQUIVALENT
    path = "path" if finding.on_disk else ""
    says = f"put .cache({path}) behind this map, in front of shuffle and random augmentation"
    if any(repeats_input(n.name) for n in finding.pipeline.upstream_nodes(finding.node)):
        says = "map in front of shuffle and repeat, with .cache() behind it: one behind repeat is never full"
    yield Prescription("edit", effect, says, edits=changed, later=bool(changed or treated), treatment=treated)
    if finding.on_disk or not changed:
        yield from packing_edits.packing_advice(trace, finding.where()[:1])


def _unread_cache_cures(finding: UnreadCache) -> Iterable[Prescription]:
    why = finding.why
    if why in UNFILLED_REASONS:
        drawn = any(w.random or w.family == "Shuffle" for w in finding.pipe.written)
        changes = why == "generator" or drawn  # the same elements again, instead of other ones each time
        effect = Effect.CHANGES_TRAINING if changes else Effect.EXACT
        yield Prescription("edit", effect, UNFILLED_REASONS[why][1], later=True)
        return
    says = "build the data set once, before the loop: the first pass fills its cache, the others read it"
    yield Prescription("advice", Effect.EQUIVALENT, says)
