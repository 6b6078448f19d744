"""Where the cause input/unsharded-files shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.unsharded_files import small_files
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules import spots
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Maps that open a file for each element, if shapes show that it is small; writers of files of single records."""
    for one in small_files.find_small_file_maps(source):
        says = "pack the files into a few TFRecord shards and read those with interleave"
        cure = Prescription("advice", Effect.EXACT, says)
        says = f"a file of {one.bytes:,} bytes is opened for each element: opening takes longer than reading"
        yield spots.operation_spot(one.call, says, cure)
    for few in small_files.find_small_file_writers(source):
        says = "write at least some hundred records into each file"
        cure = Prescription("advice", Effect.EQUIVALENT, says)
        count = "one record" if few.records == 1 else f"{few.records} records"
        says = f"this writes {few.files:,} files of {count} each: every epoch opens them all"
        yield spots.node_spot(few.call, says, cure)
