"""Lines of a framework that a recording gives for the user's: older ones knew packages in a usual folder only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Folders inside the packages, where their code lies. A folder that is called `keras` alone may be the user's own.
FRAMEWORK = re.compile(
    r"[/\\](?:tensorflow[/\\](?:python|_api)|(?:keras|tf_keras)[/\\]src|jax[/\\]_src|(?:site|dist)-packages)[/\\]"
)
# Tables of a graph that name lines, with the column of the file; a row without its line is kept where it says more.
ROWS_OF_LINES = {"lines": 0, "double": 0}
ROWS_WITH_LINES = {"one_hot": 1, "over": 1, "loops": 1}


def without(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an event tells, its graph without lines of a framework."""
    graph = data.get("graph")
    if not isinstance(graph, Mapping):
        return data
    changed: dict[str, Any] = {}
    for table, at in ROWS_OF_LINES.items():
        rows = graph.get(table) or ()
        changed[table] = [row for row in rows if not is_framework(row[at])]
    for table, at in ROWS_WITH_LINES.items():
        rows = graph.get(table) or ()
        changed[table] = [[*row[:at], None, 0, *row[at + 2 :]] if is_framework(row[at]) else row for row in rows]
    return {**data, "graph": {**graph, **{table: rows for table, rows in changed.items() if table in graph}}}


def is_framework(file: object) -> bool:
    """Whether a file lies in a package of TensorFlow, Keras or JAX, wherever that was installed."""
    return isinstance(file, str) and FRAMEWORK.search(file) is not None
