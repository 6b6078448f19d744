"""Where a script's elements can be packed, and the edits that pack them, limit them or read them packed.

Packed elements replace a data set where a cache would give the same elements in every epoch. So the place and the
proof are those of a cache: edits in which ``cache()`` marks what is packed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.fixes.input.packed_reading import READER_NAME
from slowtrain.script.locations.edits.recorded_edits import are_valid_edits
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

MARK = "cache()"  # in the marked edits
OPERATIONS = ((), ("from_generator",), ("interleave",), ("flat_map",))  # () is map


@dataclass(frozen=True)
class PackingPlace:
    """The operation whose results can be packed. ``same_order``: False if a shuffle has to move behind it."""

    place: Place
    marked_edits: tuple[Edit, ...]
    same_order: bool


def find_packing_place(trace: Trace, places: Iterable[Place]) -> PackingPlace | None:
    """The first of ``places`` whose operation gives the same elements in each epoch, as its text shows."""
    for place in dict.fromkeys(places):
        source = recorded_source(trace, place.file)
        if source is None or READER_NAME in source.text:
            continue
        for names in OPERATIONS:
            found, same = dataset_edits.add_cache(source, place.line, None, *names)
            if is_marked(found) and are_valid_edits(source, found):
                return PackingPlace(place, tuple(found), same)
    return None


def packing_advice(trace: Trace, places: Iterable[Place]) -> list[Prescription]:
    """The advice to pack what one of ``places`` makes, if its text shows that packed elements are the same."""
    place = find_packing_place(trace, places)
    if place is None:
        return []
    command = shlex.join(str(word) for word in trace.fact("launch", "argv") or ("SCRIPT",))
    says = f"or write the results of line {place.place.line} once: slowtrain pack --plan pack.json {command}"
    return [Prescription("advice", Effect.EXACT if place.same_order else Effect.EQUIVALENT, says)]


def is_marked(found: Sequence[Edit]) -> bool:
    """Whether exactly one of the edits marks the packed elements."""
    return sum(edit.text.count(MARK) for edit in found) == 1


def replace_mark(marked_edits: Iterable[Edit], text: str) -> list[Edit]:
    """The edits with ``text``, such as ``take(100)``, in place of the mark."""
    return [replace(edit, text=edit.text.replace(MARK, text)) for edit in marked_edits]


def reading_edits(source: Source, marked_edits: Sequence[Edit], function: str) -> list[Edit]:
    """The edits that read packed elements: ``function``, the text of the reader, and its use at the mark."""
    at = next(one for one in marked_edits if MARK in one.text)
    statement = next(s for s in source.tree.body if edits.node_start(s) <= at.start <= edits.node_end(s))
    reader = edits.insert_before(source, statement, f"{function}\n\n")
    return [reader, *replace_mark(marked_edits, f"apply({READER_NAME})")]


def tensorflow_name(source: Source) -> tuple[str, list[Edit]]:
    """How the file refers to TensorFlow, and the edits for a missing import."""
    return edits.ensure_import(source, "tensorflow", "tf")
