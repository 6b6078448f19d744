"""Where the cause compute/small-batch shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import prod

from slowtrain.causes.compute.small_batch.larger_batch_cure import MAX_GOAL_BATCH, WINDOWS_CURE, larger_batch_says
from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.script.evaluators import setting_origins
from slowtrain.script.fixes.models import batch_sizes
from slowtrain.script.interpreter.domain.abstract_values import UNKNOWN, Shape
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import keras_names, sample_counts, spots, step_code
from slowtrain.script.navigation import call_index, node_lookup, training_calls
from slowtrain.script.pipelines import interpreted_datasets, training_pipelines
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

MAX_TINY_BATCH = 4  # samples in a step. For dense layers, whose weights are read once per step:
DENSE_BATCH_LIMIT = 16
MIN_EPOCH_STEPS, GOAL_BATCH_SIZE = 8, 64  # see compute/small-batch
MIN_LONG_SEQUENCE = 500  # time steps of a single sequence that should be cut into windows
MAX_SMALL_IMAGE_NUMBERS = (
    32 * 32 * 3
)  # numbers in a sample. Convolutions over larger samples take longer than their launch.
MIN_SMALL_BATCH_ROWS = 1000
MAX_DENSE_SMALL_BATCH = DENSE_BATCH_LIMIT - 1  # samples, for a model of dense layers
MAX_TABLE_WEIGHTS = 1_000_000  # of a table. A pass over more of them is work for a CPU.


def find_spots(source: Source) -> Iterable[Spot]:
    """Steps with one to four of thousands of samples."""
    seen: set[ast.expr] = set()
    for given, says, goal, changed in tiny_batches(source):
        if given in seen:
            continue  # several calls use the same number
        seen.add(given)
        cured = larger_batch_says(goal, more=True) if goal else WINDOWS_CURE
        cure = Prescription("edit", Effect.CHANGES_TRAINING, cured, edits=changed)
        yield spots.node_spot(given, says, cure)
    for call, size, rows in () if seen else small_batches(source):
        larger = larger_batch_says(MAX_GOAL_BATCH, more=True)
        says = f"each step uses {size} of {rows:,} samples"
        place = (
            call_index.operation_range(call)
            if isinstance(call, ast.Call)
            else (edits.node_start(call), edits.node_end(call))
        )
        yield Spot(*place, says, Prescription("edit", Effect.CHANGES_TRAINING, larger))


def tiny_batches(source: Source) -> Iterator[tuple[ast.expr, str, int, tuple[Edit, ...]]]:
    """Find batches of a few of thousands of samples: the size, a description, a better size and the edits."""
    if not training_calls.takes_training_steps(source):
        return
    for call in call_index.index_of(source).called("fit"):
        given, data = node_lookup.argument_value(call, "batch_size", 2), node_lookup.argument_value(call, "x", 0)
        if given is None or data is None:
            continue
        yield from _too_small_batch(source, given, queries.shape_at(source, data), call.lineno)
    for flow in (
        dict.fromkeys(training_pipelines.training_chains(source)) if call_index.index_of(source).called("batch") else ()
    ):
        calls = [c for c in flow.calls if node_lookup.called_name(c) == "batch"]
        if (
            not flow.whole
            or len(calls) != 1
            or {"unbatch", "window", "flat_map", "filter", "interleave"} & set(flow.names)
        ):
            continue
        rows, _ = sample_counts.chain_rows_and_batch(source, flow)
        given = node_lookup.argument_value(calls[0], "batch_size", 0)
        data = flow.calls[0].args[0] if flow.calls[0].args else None
        data = data.elts[0] if isinstance(data, ast.Tuple) and data.elts else data
        if rows and given is not None:
            yield from _too_small_batch(source, given, queries.shape_at(source, data), calls[0].lineno)
    yield from _interpreted_batches(source)
    yield from _sliced_batches(source)


def _interpreted_batches(source: Source) -> Iterator[tuple[ast.expr, str, int, tuple[Edit, ...]]]:
    """Find tiny batches of data sets that objects, methods or settings create."""
    taken = [node_lookup.argument_value(call, "x", 0) for call in call_index.index_of(source).called("fit")]
    if any(name in source.text for name in step_code.STEP_NAMES):
        loops = call_index.nodes_of_kind(source, ast.For)
        taken += [n.iter for n in loops if step_code.takes_training_step(source, n.body)]
    for one in taken:
        inside = (
            one.args[0]
            if isinstance(one, ast.Call) and node_lookup.called_name(one) == "enumerate" and one.args
            else one
        )
        data = queries.dataset_at(source, inside)
        batches = [one for one in data.stages if one.name == "batch" and one.source is source] if data else []
        call = batches[0].given.node if data and len(batches) == 1 and data.data.get("batch") else None
        size = node_lookup.argument_value(call, "batch_size", 0) if isinstance(call, ast.Call) else None
        if data is None or size is None or any(one.name == "map" for one in data.stages):
            continue
        rows = data.data.get("rows") if not any(one.name in ("take", "skip") for one in data.stages) else None
        element = next(interpreted_datasets.element_leaves(data.stages[0].after)).shape
        if element is not None:
            yield from _too_small_batch(source, size, (rows, *element), size.lineno, data.data["batch"])


def _sliced_batches(source: Source) -> Iterator[tuple[ast.expr, str, int, tuple[Edit, ...]]]:
    """Find ``for i in range(0, n, 8)`` around a step that gets ``x[i:i + 8]``."""
    for loop in call_index.nodes_of_kind(source, ast.For):
        over = loop.iter if isinstance(loop, ast.For) else None
        if not isinstance(loop, ast.For) or not isinstance(over, ast.Call) or node_lookup.called_name(over) != "range":
            continue
        if (
            len(over.args) != 3
            or not isinstance(loop.target, ast.Name)
            or not step_code.takes_training_step(source, loop.body)
        ):
            continue
        parts = syntax_tree.nodes_inside(loop.body, ast.Subscript)
        cut = [n for n in parts if isinstance(n.slice, ast.Slice) and _starts_at(n.slice, loop.target.id)]
        if cut and cut[0].lineno >= loop.lineno:
            line = next((c.lineno for c in syntax_tree.nodes_inside(loop, ast.Call) if cut[0] in c.args), loop.lineno)
            yield from _too_small_batch(source, over.args[2], queries.shape_at(source, cut[0].value), line)


def _starts_at(part: ast.Slice, name: str) -> bool:
    return isinstance(part.lower, ast.Name) and part.lower.id == name


def _too_small_batch(
    source: Source, given: ast.expr, shape: Shape | None, line: int, size: int | None = None
) -> Iterator[tuple[ast.expr, str, int, tuple[Edit, ...]]]:
    size = queries.int_at(source, given) if size is None else size
    if size is None or not 1 <= size < DENSE_BATCH_LIMIT or not shape or shape[0] is None:
        return
    if size > MAX_TINY_BATCH and call_index.index_of(source).called(
        *keras_names.CONVOLUTION_LAYERS, *keras_names.RECURRENT_LAYERS, *keras_names.LARGE_LAYERS
    ):
        return
    if (
        shape[0] == 1
        and len(shape) == 3
        and (shape[1] or 0) >= MIN_LONG_SEQUENCE
        and call_index.index_of(source).called(*keras_names.RECURRENT_LAYERS)
    ):
        yield given, f"the one sequence of {shape[1]:,} turns is the whole batch", 0, ()
        return
    if shape[0] < MIN_EPOCH_STEPS * GOAL_BATCH_SIZE or _may_have_large_samples(source, shape):
        return
    says = f"a step takes {size} of {shape[0]:,} samples"
    written = setting_origins.literal_origin(source, given)
    given = written.node if written is not None else given
    yield given, says, GOAL_BATCH_SIZE, batch_sizes.enlarge_batches(source, [line], size, GOAL_BATCH_SIZE)


def _may_have_large_samples(source: Source, shape: Shape) -> bool:
    """Whether a sample may be large enough to keep the device busy in a step."""
    if not call_index.index_of(source).called(
        *keras_names.CONVOLUTION_LAYERS, *keras_names.RECURRENT_LAYERS, "MultiHeadAttention"
    ):
        return False
    numbers = 1
    for one in shape[1:]:
        if one is None:
            return True
        numbers *= one
    return len(shape) < 2 or numbers > MAX_SMALL_IMAGE_NUMBERS


def small_batches(source: Source) -> Iterator[tuple[ast.expr, int, int]]:
    """Find steps on few of very many small samples: the expression, the batch size and the number of samples."""
    for event in file_events(source):
        found = _fit_batch(event) if event.name == ".fit" else _sliced_batch(source, event)
        if found is None:
            continue
        size, rows, shape = found
        most = (
            MAX_TINY_BATCH
            if call_index.index_of(source).called(
                *keras_names.CONVOLUTION_LAYERS, *keras_names.RECURRENT_LAYERS, *keras_names.LARGE_LAYERS
            )
            else MAX_DENSE_SMALL_BATCH
        )
        if 1 <= size <= most and rows >= MIN_SMALL_BATCH_ROWS and _has_small_samples(source, shape):
            yield event.node, size, rows
            return


def _fit_batch(event: Event) -> tuple[int, int, tuple[int | None, ...] | None] | None:
    data = event.given.get("x", 0)
    if data.kind == "dataset":
        known: dict[str, int | None] = data.data if isinstance(data.data, dict) else {}
        size, rows, shape = known.get("batch"), known.get("rows"), None
    else:
        first, size = next(interpreted_datasets.element_leaves(data), data), event.given.get("batch_size", 2).known
        rows, shape = sample_counts.sample_count(data), first.shape[1:] if first.shape else None
    return (size, rows, shape) if isinstance(size, int) and rows else None


def _sliced_batch(source: Source, event: Event) -> tuple[int, int, tuple[int | None, ...] | None] | None:
    """Return the batch of a step in a loop that gets ``x[i : i + 2]``, directly or from a generator."""
    if event not in step_loops.step_events(source) or event.graph or not event.loops or not event.given.args:
        return None
    first = next(interpreted_datasets.element_leaves(event.given.args[0]), UNKNOWN)
    turns = _loop_turns(source, event)
    if not first.shape or not first.shape[0] or turns is None:
        return None
    return first.shape[0], turns * first.shape[0], first.shape[1:]


def _loop_turns(source: Source, event: Event) -> int | None:
    """Return the iterations of the surrounding loop, or of the generator that it consumes."""
    loop = event.loops[-1]
    if loop.turns is not None or loop.items.kind != "generator":
        return loop.turns if loop.number in event.given.varying_inside else None
    made_by = loop.items.node
    inside = [e.begun for e in file_events(source) if node_lookup.enclosing_function(source, e.node) is made_by]
    known = [one.turns for one in inside if one is not None and one.turns is not None]
    return max(known, default=None)


def _has_small_samples(source: Source, shape: tuple[int | None, ...] | None) -> bool:
    """Whether a sample is certainly too small to keep the device busy in a step."""
    for event in file_events(source):
        if event.name == "keras.layers.Embedding":
            size = [event.given.get("input_dim", 0).known, event.given.get("output_dim", 1).known]
            if not all(isinstance(n, int) for n in size) or prod(size) > MAX_TABLE_WEIGHTS:
                return False
    if call_index.index_of(source).called("MultiHeadAttention", "add_weight", "Bidirectional"):
        return False
    if not call_index.index_of(source).called(
        *keras_names.CONVOLUTION_LAYERS, *keras_names.RECURRENT_LAYERS, "Conv1D", "conv1d"
    ):
        return True
    return shape is not None and None not in shape and prod(n or 0 for n in shape) <= MAX_SMALL_IMAGE_NUMBERS
