"""Edits at the places that a recording names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

from slowtrain.errors import InputError
from slowtrain.model import Edit, Place
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace


def first_applicable(
    trace: Trace, places: Iterable[Place], edit: Callable[[Source, int], Sequence[Edit]]
) -> tuple[Edit, ...]:
    """Return the edits of the first of ``places`` at which ``edit`` returns valid edits."""
    for place in dict.fromkeys(places):
        source = recorded_source(trace, place.file)
        found = edit(source, place.line) if source is not None else []
        if source is not None and found and are_valid_edits(source, found):
            return tuple(found)
    return ()


def are_valid_edits(source: Source, found: Iterable[Edit]) -> bool:
    """Whether the edited file differs from the original, parses as Python and keeps its comments."""
    found = tuple(found)
    try:
        text = edits.edited_text(source, found)
        ast.parse(text)
    except (SyntaxError, ValueError, InputError):
        return False
    return text != source.text and edits.keeps_comments(source, found, text)


def all_applicable(
    trace: Trace, places: Iterable[Place], edit: Callable[[Source, int], list[Edit]]
) -> tuple[Edit, ...]:
    """Return the edits of all ``places`` together, or of the first place if they do not combine."""
    found: list[Edit] = []
    for place in dict.fromkeys(places):
        found += first_applicable(trace, (place,), edit)
    together = tuple(dict.fromkeys(found))
    files = {e.file: recorded_source(trace, e.file) for e in together}
    sure = all(s is not None and are_valid_edits(s, [e for e in together if e.file == f]) for f, s in files.items())
    return together if sure else first_applicable(trace, places, edit)


def touch_word(trace: Trace, found: Sequence[Edit], word: str) -> bool:
    """Whether a line on which an edit begins contains ``word``."""
    rows = {
        edit.file: source.text.split("\n")
        for edit in found
        if (source := recorded_source(trace, edit.file)) is not None
    }
    return any(
        word in rows[edit.file][edit.start[0] - 1].split()
        for edit in found
        if edit.file in rows and edit.start[0] <= len(rows[edit.file])
    )
