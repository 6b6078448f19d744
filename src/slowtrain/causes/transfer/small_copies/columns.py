"""Data sets whose elements are many small tensors, of which each step hands over every one by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.text.source_file import Source

# At some 20 µs each two thirds of a millisecond a step, which a model of a table takes itself.
MANY = 32
LARGE = 2  # axes of a batch: a picture, a text's vectors cost more than their copy's start


def many(source: Source) -> Iterator[tuple[ast.Call, int]]:
    """Calls that make such a data set, or hand ``fit`` such arrays, and how many tensors a batch is."""
    seen: set[ast.AST] = set()
    for node, held, batched in _given(source):
        count = _columns(held, batched)
        if count >= MANY and node not in seen and isinstance(node, ast.Call):
            seen.add(node)
            yield node, count


def _given(source: Source) -> Iterator[tuple[ast.AST, Value, bool]]:
    for one in interpreted_datasets.datasets_of(source):
        made = interpreted_datasets.stage_call(source, one.stages[0])
        if made is not None:
            yield made, one.stages[-1].after, bool(interpreted_datasets.gives_batches(one.stages))
    for event in file_events(source):
        if event.name == ".fit" and event.given.get("x", 0).kind in ("dict", "list"):
            yield event.node, event.given.get("x", 0), True


def _columns(held: Value, batched: bool) -> int:
    """How many columns it holds at least; 0 where it is no mapping or list of them, or one is more than a column."""
    if held.kind in ("tuple", "list") and None not in held.items and any(v.kind == "dict" for v in held.items.values()):
        return max(_columns(one, batched) for one in held.items.values())
    if held.kind not in ("dict", "list") or not held.items:
        return 0
    inside = list(held.items.values())
    if any(one.kind not in ("array", "tensor", "unknown") or len(one.shape or ()) > LARGE + batched for one in inside):
        return 0
    return (operators.minimum_length(held) or 0) if None in held.items else len(held.items)
