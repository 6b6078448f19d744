"""Finds the cause host/short-epochs in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import prod

from slowtrain.causes.host.short_epochs import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import keras_names, sample_counts, spots
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

MAX_EPOCH_STEPS = 4  # with as many, one iterator for all epochs made a run 2.9 times as fast
MIN_EPOCHS = 200  # each takes ten ms and more to start, so some seconds in all
# In an epoch of dense layers, with six operations for each weight and sample (two forward, four backward). A processor
# does this in ten ms, an accelerator in less.
MAX_EPOCH_OPERATIONS = 1_000_000_000


def find_spots(source: Source) -> Iterable[Spot]:
    """Hundreds of epochs of a few steps, with little data through dense layers."""
    yield from whole_batches(source)
    for node, says in short_epochs(source):
        changed = tuple(fix.repeat_dataset(source, node.lineno))
        place = (
            call_index.operation_range(node)
            if isinstance(node, ast.Call)
            else (edits.node_start(node), edits.node_end(node))
        )
        yield Spot(*place, says, Prescription("edit", Effect.EQUIVALENT, fix.KEEP_ITERATOR, edits=changed))


def whole_batches(source: Source) -> Iterator[Spot]:
    """Find ``fit(x, y, batch_size=len(x), epochs=1000)`` on data of unknown size."""
    for event in file_events(source) if "batch_size" in source.words and not _has_other_layers(source) else ():
        call, epochs = event.node, event.given.get("epochs", 3).known
        if event.name != ".fit" or not isinstance(call, ast.Call) or not isinstance(epochs, int) or epochs < MIN_EPOCHS:
            continue
        data, size = node_lookup.argument_value(call, "x", 0), node_lookup.argument_value(call, "batch_size", 2)
        if data is None or size is None or sample_counts.fit_epoch_steps(event) is not None:
            continue
        rows = {ast.unparse(n.args[0]) for n in node_lookup.length_queries(size) if isinstance(n, ast.Call) and n.args}
        if rows == {ast.unparse(data)}:
            says = f"each of {epochs:,} epochs of one step starts with a new iterator over the data"
            cure = Prescription("edit", Effect.EQUIVALENT, fix.KEEP_ITERATOR)
            yield spots.operation_spot(call, says, cure, "an epoch computes for less than some ten ms")


def _has_other_layers(source: Source) -> bool:
    """Whether there are layers of which the number of samples does not say how much they compute."""
    names = (*keras_names.CONVOLUTION_LAYERS, *keras_names.RECURRENT_LAYERS, *keras_names.LARGE_LAYERS)
    return bool(call_index.index_of(source).calls_of(*names))


def short_epochs(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Calls of ``fit`` with many short epochs, and loops over a data set in a loop over epochs, each with its text."""
    if _has_other_layers(source):
        return
    every = file_events(source)
    for event in every:
        found = _fit_epochs(event) if event.name == ".fit" else _loop_epochs(source, event)
        if found is None:
            continue
        many, steps, data = found
        work = _epoch_operations(every, data)
        if many >= MIN_EPOCHS and 1 <= steps <= MAX_EPOCH_STEPS and work is not None and work <= MAX_EPOCH_OPERATIONS:
            each = f"{steps} steps" if steps > 1 else "one step"
            yield event.node, f"each of {many:,} epochs of {each} starts with a new iterator over the data"


def _fit_epochs(event: Event) -> tuple[int, int, Value] | None:
    given, data = event.given, event.given.get("x", 0)
    many = given.get("epochs", 3).known
    if "steps_per_epoch" in given.keywords or not isinstance(many, int):
        return None  # with steps_per_epoch the data keeps its iterator
    steps = sample_counts.fit_epoch_steps(event)
    return (many, steps, data) if steps and event.on is not None and event.on.kind in ("keras", "object") else None


def _loop_epochs(source: Source, event: Event) -> tuple[int, int, Value] | None:
    """``for epoch in range(1000): for x, y in data: step(x, y)`` if the step is a graph."""
    loop = event.begun
    if (
        loop is None
        or loop.items.kind != "dataset"
        or not loop.turns
        or loop.number not in step_loops.loops_by_number(source)
    ):
        return None
    eager = any(e.loops and e.loops[-1] is loop and not e.graph
    and e.name in step_loops.UPDATE_CALLS - {".train_on_batch"}
                for e in file_events(source))  # fmt: skip
    around = [one.turns for one in event.loops[:-1] if one.number not in event.rare]
    many = prod(n for n in around if n is not None)
    return None if eager or not around or None in around else (many, loop.turns, loop.items)


def _epoch_operations(every: tuple[Event, ...], data: Value) -> int | None:
    """The operations of an epoch through dense layers; None unless all sizes are known."""
    rows, wide = _sample_counts(data)
    if not rows or not wide:
        return None
    widths, weights = [wide], 0
    for event in every:
        if event.name == "keras.layers.Dense":
            units = event.given.get("units", 0).known
            if not isinstance(units, int):
                return None
            weights += widths[-1] * units * prod(one.turns or 1 for one in event.loops)
            widths.append(units)
    return 6 * rows * weights or None


def _sample_counts(data: Value) -> tuple[int | None, int | None]:
    """The samples of an epoch and the numbers in one sample; None for what is not known."""
    if data.kind == "dataset":
        known: dict[str, int | None] = data.data if isinstance(data.data, dict) else {}
        steps, batch, first = operators.known_length(data), known.get("batch"), _first_component(data.of)
        rows = steps * batch if steps and batch else None
    else:
        rows, first = sample_counts.sample_count(data), _first_component(data)
    shape = first.shape if first is not None else None
    if not shape or None in shape[1:]:
        return rows, None
    return rows, prod(n or 1 for n in shape[1:])


def _first_component(data: Value | None) -> Value | None:
    while data is not None and data.kind in ("tuple", "list", "dict") and data.items and data.shape is None:
        data = next(iter(data.items.values()))
    return data
