"""Removes framework lines from recordings of older recorders, which knew packages in the usual folders only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slowtrain.columns.spans import Event, Name, Spans

# Folders of code inside the packages. A folder named just `keras` may be the user's own.
FRAMEWORK_PATH = re.compile(
    r"[/\\](?:tensorflow[/\\](?:python|_api)|(?:keras|tf_keras)[/\\]src|jax[/\\]_src|(?:site|dist)-packages)[/\\]"
)
# Tables of a graph that name lines, with the column of the file. A row without its line is kept if it says more.
LINE_TABLES = {"lines": 0, "double": 0}
LOST_LINES_KEY = "lines_lost"  # forward ops with unknown line, and the repeated ones among them
TABLES_WITH_LINES = {"one_hot": 1, "over": 1, "loops": 1}


def without_framework_lines(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an event's data, its graph without framework lines."""
    graph = data.get("graph")
    if not isinstance(graph, Mapping):
        return data
    changed: dict[str, Any] = {}
    for table, at in LINE_TABLES.items():
        rows = graph.get(table) or ()
        changed[table] = [row for row in rows if not is_framework_file(row[at])]
    lost = [row for row in graph.get("lines") or () if is_framework_file(row[0])]
    if lost:
        changed[LOST_LINES_KEY] = [sum(row[2] for row in lost), sum(row[3] for row in lost)]
    for table, at in TABLES_WITH_LINES.items():
        rows = graph.get(table) or ()
        changed[table] = [[*row[:at], None, 0, *row[at + 2 :]] if is_framework_file(row[at]) else row for row in rows]
    kept = {table: rows for table, rows in changed.items() if table in graph or table == LOST_LINES_KEY}
    return {**data, "graph": {**graph, **kept}}


def with_sampled_lines(event: Event, names: Sequence[Name], samples: Spans) -> Event:
    """Return a trace event; if its ops lost their lines, with lines at which the main thread was sampled while tracing.

    The line of the call is excluded, because it also stands for the framework's own work.
    """
    graph = event.data.get("graph")
    lost = graph.get(LOST_LINES_KEY) if isinstance(graph, Mapping) else None
    if not lost:
        return event
    traced_until = event.start_ms + float(event.data.get("trace_ns") or 0) / 1e6
    sites = (names[int(n)].detail.get("site") for n in samples.between(event.start_ms, traced_until).name)
    called = event.data.get("site")
    found = Counter(tuple(site) for site in sites if site and site != called and not is_framework_file(site[0]))
    total = sum(found.values())
    rows = [[*site, round(lost[0] * n / total), round(lost[1] * n / total)] for site, n in found.most_common()]
    known = [*(graph.get("lines") or ()), *rows] if isinstance(graph, Mapping) else rows
    return replace(event, data={**event.data, "graph": {**(graph or {}), "lines": known}})


def is_framework_file(file: object) -> bool:
    """Return whether a file belongs to an installed package of TensorFlow, Keras or JAX."""
    return isinstance(file, str) and FRAMEWORK_PATH.search(file) is not None
