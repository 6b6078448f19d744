"""Where the cause transfer/small-copies shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import spots
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.text.source_file import Source

# At some 20 µs each, two thirds of a millisecond a step: as long as a step of a model of a table.
MIN_COLUMNS = 32
MAX_COLUMN_AXES = 2  # of a batch: the bytes of pictures or of texts' vectors cost more than the start of a copy


def find_spots(source: Source) -> Iterable[Spot]:
    """Tables in which every column is a tensor of its own."""
    for call, count in find_datasets_of_columns(source):
        says = "join the columns of one type in one array (np.column_stack), and take them apart in the model"
        cure = Prescription("advice", Effect.EQUIVALENT, says)
        says = f"a batch of this data is {count} small tensors, and each step copies every one by itself"
        yield spots.operation_spot(call, says, cure)


def find_datasets_of_columns(source: Source) -> Iterator[tuple[ast.Call, int]]:
    """Calls that make such a data set or give ``fit`` such arrays, each with the number of tensors of a batch."""
    seen: set[ast.AST] = set()
    for node, value, batched in _training_data(source):
        count = _minimum_columns(value, batched)
        if count >= MIN_COLUMNS and node not in seen and isinstance(node, ast.Call):
            seen.add(node)
            yield node, count


def _training_data(source: Source) -> Iterator[tuple[ast.AST, Value, bool]]:
    for one in interpreted_datasets.datasets_of(source):
        made = interpreted_datasets.stage_call(source, one.stages[0])
        if made is not None:
            yield made, one.stages[-1].after, bool(interpreted_datasets.gives_batches(one.stages))
    for event in file_events(source):
        if event.name == ".fit" and event.given.get("x", 0).kind in ("dict", "list"):
            yield event.node, event.given.get("x", 0), True


def _minimum_columns(held_value: Value, batched: bool) -> int:
    """The least number of columns; 0 if it is no mapping or list of columns."""
    if (
        held_value.kind in ("tuple", "list")
        and None not in held_value.items
        and any(v.kind == "dict" for v in held_value.items.values())
    ):
        return max(_minimum_columns(one, batched) for one in held_value.items.values())
    if held_value.kind not in ("dict", "list") or not held_value.items:
        return 0
    inside = list(held_value.items.values())
    if any(
        one.kind not in ("array", "tensor", "unknown") or len(one.shape or ()) > MAX_COLUMN_AXES + batched
        for one in inside
    ):
        return 0
    return (operators.minimum_length(held_value) or 0) if None in held_value.items else len(held_value.items)
