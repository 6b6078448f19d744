"""Where the cause compute/small-batch shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import prod

from slowtrain.causes.compute.small_batch import MAX_GOAL_BATCH
from slowtrain.causes.compute.small_batch.fix import WINDOWS_CURE, larger_batch_says
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.number_text import format_count
from slowtrain.script.fixes.models import batch_sizes
from slowtrain.script.interpreter.domain.abstract_values import UNKNOWN, Shape
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import keras_names, sample_counts, spots
from slowtrain.script.navigation import call_index, node_lookup, setting_origins
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

MAX_TINY_BATCH = 4  # samples in a step. For dense layers, whose weights are read once per step:
DENSE_BATCH_LIMIT = 16
MIN_EPOCH_STEPS, GOAL_BATCH_SIZE = 8, 64  # see compute/small-batch
MIN_LONG_SEQUENCE = 500  # time steps of a single sequence that should be cut into windows
# Numbers in a sample. Convolutions over larger samples take longer than their launch.
MAX_SMALL_IMAGE_NUMBERS = 32 * 32 * 3
RESHAPING_STAGES = frozenset("map unbatch window flat_map filter interleave".split())
MIN_SMALL_BATCH_ROWS = 1000
MAX_TABLE_WEIGHTS = 1_000_000  # of a table. A pass over more of them is work for a CPU.


def find_spots(source: Source) -> Iterable[Spot]:
    """Steps with one to four of thousands of samples."""
    known = tiny_batches(source) if call_index.takes_training_steps(source) else ()
    yield from spots.distinct_spots(known) or small_batches(source)


def _batch_spot(node: ast.expr, says: str, cure: str, worth_if: str | None = None) -> Spot:
    return spots.operation_spot(node, says, Prescription("edit", Effect.CHANGES_TRAINING, cure), worth_if)


def tiny_batches(source: Source) -> Iterator[Spot]:
    """Find the sizes of batches of a few of thousands of samples, as they are written."""
    for call in call_index.index_of(source).calls_of("fit"):
        given, data = node_lookup.argument_value(call, "batch_size", 2), node_lookup.argument_value(call, "x", 0)
        if given is not None and data is not None:
            yield from _too_small_batch(source, given, queries.shape_at(source, data), call.lineno)
    yield from _dataset_batches(source)
    yield from _sliced_batches(source)


def _dataset_batches(source: Source) -> Iterator[Spot]:
    """Find tiny batches of data sets that ``fit`` or a loop of steps takes."""
    taken = [node_lookup.argument_value(call, "x", 0) for call in call_index.index_of(source).calls_of("fit")]
    if any(name in source.text for name in call_index.STEP_CALLS):
        loops = call_index.nodes_of_class(source, ast.For)
        taken += [n.iter for n in loops if call_index.reaches_training_step(source, n.body)]
    for one in taken:
        if isinstance(one, ast.Call) and node_lookup.called_name(one) == "enumerate" and one.args:
            one = one.args[0]
        data = queries.dataset_at(source, one)
        batches = [stage for stage in data.stages if stage.name == "batch" and stage.source is source] if data else []
        call = batches[0].given.node if data and len(batches) == 1 and data.data.get("batch") else None
        size = node_lookup.argument_value(call, "batch_size", 0) if isinstance(call, ast.Call) else None
        names = {stage.name for stage in data.stages} if data is not None else set()
        if data is None or size is None or names & RESHAPING_STAGES:
            continue
        rows = data.data.get("rows") if not names & {"take", "skip"} else None
        element = next(interpreted_datasets.element_leaves(data.stages[0].after)).shape
        if element is not None:
            yield from _too_small_batch(source, size, (rows, *element), size.lineno, data.data["batch"])


def _sliced_batches(source: Source) -> Iterator[Spot]:
    """Find ``for i in range(0, n, 8)`` around a step that gets ``x[i:i + 8]``."""
    for loop in call_index.nodes_of_class(source, ast.For):
        match loop:
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[_, _, step])):
                if not call_index.reaches_training_step(source, loop.body):
                    continue
            case _:
                continue
        cut = [n for n in syntax_tree.nodes_inside(loop.body, ast.Subscript) if _starts_at(n.slice, name)]
        if cut:
            calls = syntax_tree.nodes_inside(loop, ast.Call)
            line = next((c.lineno for c in calls if cut[0] in c.args), loop.lineno)
            yield from _too_small_batch(source, step, queries.shape_at(source, cut[0].value), line)


def _starts_at(part: ast.expr, name: str) -> bool:
    return isinstance(part, ast.Slice) and isinstance(part.lower, ast.Name) and part.lower.id == name


def _too_small_batch(
    source: Source, given: ast.expr, shape: Shape | None, line: int, size: int | None = None
) -> Iterator[Spot]:
    size = queries.int_at(source, given) if size is None else size
    if size is None or not 1 <= size <= _max_small_batch(source) or not shape or shape[0] is None:
        return
    match shape:
        case (1, int(turns), _) if turns >= MIN_LONG_SEQUENCE and _has_layers(source, *keras_names.RECURRENT_LAYERS):
            yield _batch_spot(given, f"the one sequence of {turns:,} turns is the whole batch", WINDOWS_CURE)
            return
    if shape[0] >= MIN_EPOCH_STEPS * GOAL_BATCH_SIZE and not _may_have_large_samples(source, shape):
        written = setting_origins.literal_origin(source, given)
        changed = batch_sizes.enlarge_batches(source, [line], size, GOAL_BATCH_SIZE)
        says = f"a step takes {size} of {shape[0]:,} samples"
        cure = larger_batch_says(GOAL_BATCH_SIZE, more=True)
        yield spots.node_spot(
            written.node if written is not None else given,
            says,
            Prescription("edit", Effect.CHANGES_TRAINING, cure, edits=changed),
        )


def _max_small_batch(source: Source) -> int:
    names = (*keras_names.CONVOLUTION_LAYERS, *keras_names.RECURRENT_LAYERS, *keras_names.LARGE_LAYERS)
    return MAX_TINY_BATCH if _has_layers(source, *names) else DENSE_BATCH_LIMIT - 1


def _has_layers(source: Source, *names: str) -> bool:
    return bool(call_index.index_of(source).calls_of(*names))


def _may_have_large_samples(source: Source, shape: Shape) -> bool:
    """Whether a sample may be large enough to keep the device busy in a step."""
    names = (*keras_names.CONVOLUTION_LAYERS, *keras_names.RECURRENT_LAYERS, "MultiHeadAttention")
    return _has_layers(source, *names) and (len(shape) < 2 or not _is_small_sample(shape[1:]))


def _is_small_sample(shape: Shape) -> bool:
    return None not in shape and prod(n or 0 for n in shape) <= MAX_SMALL_IMAGE_NUMBERS


def small_batches(source: Source) -> Iterator[Spot]:
    """Find a step on few of very many small samples, by the interpreter's events."""
    for event in file_events(source):
        found = _fit_batch(event) if event.name == ".fit" else _sliced_batch(source, event)
        if found is None:
            continue
        size, rows, shape = found
        few = rows is not None and rows < MIN_SMALL_BATCH_ROWS
        # Elements of a data set of unknown size are mostly pictures.
        made = rows is None and event.given.get("x", 0).kind == "dataset"
        most = MAX_TINY_BATCH if made else _max_small_batch(source)
        if few or not 1 <= size <= most or not _has_small_samples(source, shape, rows):
            continue
        cure = larger_batch_says(MAX_GOAL_BATCH, more=True)
        samples = f"{size} of {rows:,} samples" if rows else f"only {format_count(size, 'sample')}"
        worth_if = None if rows else f"the data has more than {MIN_SMALL_BATCH_ROWS:,} samples"
        yield _batch_spot(event.node, f"each step uses {samples}", cure, worth_if)
        return


def _fit_batch(event: Event) -> tuple[int, int | None, Shape | None] | None:
    data = event.given.get("x", 0)
    if data.kind == "dataset":
        known: dict[str, int | None] = data.data if isinstance(data.data, dict) else {}
        size, rows, shape = known.get("batch"), known.get("rows"), None
    else:
        first, size = next(interpreted_datasets.element_leaves(data), data), event.given.get("batch_size", 2).known
        rows, shape = sample_counts.sample_count(data), first.shape[1:] if first.shape else None
    return (size, rows, shape) if isinstance(size, int) else None


def _sliced_batch(source: Source, event: Event) -> tuple[int, int, Shape | None] | None:
    """Return the batch of a step in a loop that gets ``x[i : i + 2]``, directly or from a generator."""
    if event.graph or not event.loops or not event.given.args or event not in step_loops.step_events(source):
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


def _has_small_samples(source: Source, shape: Shape | None, rows: int | None) -> bool:
    """Whether a sample is too small to keep the device busy in a step; by the layers if the rows are unknown."""
    if rows is None and not _has_layers(source, "Dense"):
        return False
    for event in file_events(source):
        if event.name == "keras.layers.Embedding":
            size = [event.given.get("input_dim", 0).known, event.given.get("output_dim", 1).known]
            if not all(isinstance(n, int) for n in size) or prod(size) > MAX_TABLE_WEIGHTS:
                return False
    if _has_layers(source, "MultiHeadAttention", "add_weight", "Bidirectional"):
        return False
    recurrent = keras_names.RECURRENT_LAYERS if rows is not None else ()
    names = (*keras_names.CONVOLUTION_LAYERS, *recurrent, "Conv1D", "conv1d")
    return not _has_layers(source, *names) or (shape is not None and _is_small_sample(shape))
