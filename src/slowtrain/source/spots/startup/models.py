"""Ready-made models that are all built though one of them is looked up."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, name_bindings
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.host import building

READY = "keras.applications."
_OPENED = re.compile(r"\{")
SEVERAL = 3  # of some hundred layers each: building one takes a second


def chosen(source: Source) -> Iterator[tuple[ast.Dict, str, tuple[Edit, ...]]]:
    """Dictionaries of models of which one is looked up: what is seen, and the edits."""
    if not name_bindings.may_name(source, READY):
        return
    for table in call_index.nodes_matching(source, _OPENED, ast.Dict):
        if not isinstance(table, ast.Dict):
            continue
        calls = [v for v in table.values if isinstance(v, ast.Call)]
        ready = [c for c in calls if name_bindings.qualified_name(source, c.func).startswith(READY)]
        changed = tuple(building.only_the_chosen(source, table.lineno)) if len(ready) >= SEVERAL else ()
        if changed:
            yield table, f"{len(table.values)} models are built, and one of them is looked up", changed


def place(table: ast.Dict) -> tuple[tuple[int, int], tuple[int, int]]:
    """The dictionary's first line."""
    line, column = edits.node_start(table)
    return (line, column), (line, column + 1)
