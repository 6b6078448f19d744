"""Ready-made models that are all built though one of them is looked up."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.source import Source, edits
from slowtrain.source.cures.host import building
from slowtrain.source.reading import index, values

READY = "keras.applications."
_OPENED = re.compile(r"\{")
SEVERAL = 3  # of some hundred layers each: building one takes a second


def chosen(source: Source) -> Iterator[tuple[ast.Dict, str, tuple[Edit, ...]]]:
    """Dictionaries of models of which one is looked up: what is seen, and the edits."""
    if not values.reaches(source, READY):
        return
    for table in index.written(source, _OPENED, ast.Dict):
        if not isinstance(table, ast.Dict):
            continue
        calls = [v for v in table.values if isinstance(v, ast.Call)]
        ready = [c for c in calls if values.qualified(source, c.func).startswith(READY)]
        changed = tuple(building.only_the_chosen(source, table.lineno)) if len(ready) >= SEVERAL else ()
        if changed:
            yield table, f"{len(table.values)} models are built, and one of them is looked up", changed


def place(table: ast.Dict) -> tuple[tuple[int, int], tuple[int, int]]:
    """The dictionary's first line."""
    line, column = edits.start(table)
    return (line, column), (line, column + 1)
