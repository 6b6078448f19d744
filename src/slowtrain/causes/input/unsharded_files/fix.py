"""Opens several files at once."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.unsharded_files import FileReading, ReadingKind, first_stage_places
from slowtrain.model import Edit, Effect, Prescription
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.locations.edits import input_edits, packing_edits, recorded_edits
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace


def find_cures(trace: Trace, finding: FileReading) -> Iterable[Prescription]:
    if finding.kind is ReadingKind.FILE_PER_DATASET:
        opened = recorded_edits.first_applicable(trace, finding.where, dataset_edits.open_files_in_parallel)
        says = "open several files at once: give interleave num_parallel_calls=tf.data.AUTOTUNE"
        yield from [Prescription("edit", Effect.EXACT, says, edits=opened)] if opened else []
    elif finding.kind is ReadingKind.SINGLE_READER:
        yield from _parallel_reading_cures(trace)
    packed = "pack the files into a few TFRecord shards and read those with interleave"
    yield from packing_edits.packing_advice(trace, finding.where) or [Prescription("advice", Effect.EXACT, packed)]
    node = finding.node
    says = "or keep what was read with .cache(), if it fits in memory"
    yield from input_edits.repeatable_cache_cures(trace, finding.where, node, "what was read") or [
        Prescription("edit", Effect.EXACT, says)
    ]


def _parallel_reading_cures(trace: Trace) -> Iterable[Prescription]:
    """Several files read at once: in another order, unless the edit keeps it or a shuffle follows."""
    effect = Effect.CHANGES_TRAINING

    def edit(source: Source, line: int) -> list[Edit]:
        nonlocal effect
        changed, same = dataset_edits.read_files_in_parallel(source, line)
        shuffled = dataset_edits.is_shuffled_later(source, line)
        effect = Effect.EXACT if same else Effect.EQUIVALENT if shuffled else Effect.CHANGES_TRAINING
        return changed

    changed = recorded_edits.first_applicable(trace, first_stage_places(trace), edit)
    if changed:
        yield Prescription("edit", effect, "read several files at once", edits=changed)
