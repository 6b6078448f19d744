"""Very many small files are opened one by one, or one reader serves all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.input.unsharded_files import small_files
from slowtrain.causes.input.unsharded_files.file_reading import (
    FilePerDataset,
    FilePerElement,
    SingleReader,
    find_file_reading,
)
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.script.locations.edits import input_edits
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy


class UnshardedFiles(Cause[FilePerDataset | FilePerElement | SingleReader]):
    """Every element is a small file of its own, or one reader goes through all files in turn."""

    title = "Many small files are read one by one"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    symptoms = frozenset({Category.INPUT})
    words = ("read_file", small_files.WRITER)

    def find(self, trace: Trace) -> FilePerDataset | FilePerElement | SingleReader | None:
        return find_file_reading(trace)

    def evidence(self, trace: Trace, finding: FilePerDataset | FilePerElement | SingleReader) -> Evidence:
        return finding.evidence(trace)

    def remedies(self, trace: Trace, finding: FilePerDataset | FilePerElement | SingleReader) -> Sequence[Remedy]:
        return finding.remedies(trace)

    def cures(self, trace: Trace, finding: FilePerDataset | FilePerElement | SingleReader) -> Iterable[Prescription]:
        yield from finding.parallel_reading_cures(trace)
        yield Prescription(
            "advice", Effect.EXACT, "pack the files into a few TFRecord shards and read those with interleave"
        )
        node = finding.cacheable_node
        cached = input_edits.cache_if_repeatable(trace, finding.where(trace), node) if node is not None else ()
        says = "or keep what was read with .cache(), if it fits in memory"
        yield Prescription("edit", Effect.EXACT, says, edits=cached, later=bool(cached))
