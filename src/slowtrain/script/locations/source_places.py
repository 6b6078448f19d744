"""Places in the project's files that a function finds in their text, and the order of places in a finding."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from slowtrain.model import Edit, Place
from slowtrain.script.locations.recorded_sources import recorded_source, recorded_sources
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

MAX_PLACES = 4  # places per finding
PYTHON_OP_FUNCTIONS = ("numpy_function", "py_function", "py_func")  # make a Python function an op


def project_places(trace: Trace, seen: Callable[[Source], Iterable[int]]) -> tuple[Place, ...]:
    """The places that ``seen`` finds in the project's files."""
    found: dict[Place, None] = {}
    for text in recorded_sources(trace):
        with contextlib.suppress(RecursionError):  # nested too deeply
            found.update((Place(text.file, line), None) for line in seen(text))
    return tuple(found)


def edit_places(edits: Iterable[Edit]) -> tuple[Place, ...]:
    """The lines on which edits begin, in the order of the text."""
    return tuple(dict.fromkeys(Place(e.file, e.start[0]) for e in sorted(edits, key=lambda e: (e.file, e.start))))


def merge_places(*several: Iterable[Place]) -> tuple[Place, ...]:
    """The first few distinct places."""
    return tuple(dict.fromkeys(place for places in several for place in places))[:MAX_PLACES]


def file_places(trace: Trace, place: Place, seen: Callable[[Source, int], Iterable[int]]) -> tuple[Place, ...]:
    """Places that ``seen`` finds in the file of ``place``."""
    text = recorded_source(trace, place.file)
    return tuple(dict.fromkeys(Place(place.file, line) for line in seen(text, place.line))) if text else ()


def wrapping_places(trace: Trace, places: Iterable[Place]) -> tuple[Place, ...]:
    """Where the functions that contain ``places`` are made graph ops, in which they still run as Python."""

    def wrapper_lines(source: Source, line: int) -> Iterator[int]:
        name = getattr(source.function_at(line), "name", "")
        for call in call_index.index_of(source).calls_of(*PYTHON_OP_FUNCTIONS) if name else ():
            given = node_lookup.argument_value(call, "func", 0)
            if given is not None and scope_names.dotted_name(given).rpartition(".")[2] == name:
                yield call.lineno

    return tuple(found for place in places for found in file_places(trace, place, wrapper_lines))
