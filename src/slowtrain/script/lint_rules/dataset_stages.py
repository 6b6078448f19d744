"""Questions of several rules about the stages of data sets that the interpreter ran."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.domain.call_events import Stage
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import name_bindings, node_lookup
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.pipelines.interpreted_datasets import ConsumedDataset
from slowtrain.script.text.source_file import Source

SCRIPT_KINDS = ("function", "method", "graph", "class", "partial", "object")
MIN_BUFFER_ELEMENTS = 64  # elements, about a batch
PYTHON_OPS = ("py_function", "numpy_function")
POOL_SIZE_OPTIONS = frozenset({"private_threadpool_size", "experimental_threading_private_threadpool_size"})
# Per element. Casting or scaling so many floats takes a few µs, less than the call itself (8 to 19 µs).
MAX_NUMBERS = 4096
MIN_NUMBERS = 2  # a single number may be a file name or an index


def training_stages(source: Source, name: str) -> Iterator[tuple[ConsumedDataset, int, ast.Call]]:
    """The stages of this name in all data sets that training consumes, if this file calls them, by position."""
    for data in interpreted_datasets.datasets_of(source) if f".{name}" in source.text else ():
        for at, stage in enumerate(data.stages):
            call = interpreted_datasets.stage_call(source, stage) if stage.name == name else None
            if call is not None:
                yield data, at, call


def maps_of_rows(stages: tuple[Stage, ...]) -> list[Stage]:
    """Return the maps of single elements after their source; empty if another operation stands between them."""
    found: list[Stage] = []
    for one in stages[:0:-1]:
        if one.name == "unbatch" or interpreted_datasets.reads_by_record(one):
            break
        if one.name == "map":
            found.append(one)
        elif one.name not in ("shuffle", "repeat", "take", "skip", "with_options", "prefetch"):
            return []
    return found


def first_long_op(stage: Stage, names: tuple[str, ...]) -> str | None:
    """Return the first op with one of these names in a function without Python."""
    lasts = [(one.name.rpartition(".")[2], one.name) for one in stage.does]
    if any(last in PYTHON_OPS for last, _ in lasts):
        return None
    return next((last for last, full in lasts if full.startswith("tensorflow.") and last.startswith(names)), None)


def asks_for_parallel_calls(source: Source, call: ast.Call) -> bool:
    asked = node_lookup.argument_value(call, "num_parallel_calls", 1)
    if asked is None:
        return False
    return name_bindings.qualified_name(source, asked).endswith(".AUTOTUNE") or (queries.int_at(source, asked) or 0) > 1


def may_have_many_rows(stages: tuple[Stage, ...], least: int = MIN_BUFFER_ELEMENTS) -> bool:
    """Whether a data set has ``least`` elements or more, or an unknown number."""
    return (interpreted_datasets.row_count(stages) or least) >= least
