"""Lint rules about calls of ``fit`` and ``predict`` for little work, and about tiny batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from math import ceil

from slowtrain.model import Edit
from slowtrain.script.fixes.models import batch_sizes, keras_calls
from slowtrain.script.interpreter.domain.abstract_values import Shape
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.pipelines import dataset_chains, interpreted_datasets, whole_pipelines
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

MIN_LOOP_CALLS = 8  # of one line. A script may evaluate after each of a few stages.
MAX_LITTLE_ROWS = 32  # the default batch size of Keras. A call with fewer rows has the same fixed cost.
KERAS_PREDICT_ARGUMENTS = frozenset(
    {"verbose", "steps", "callbacks"}
)  # arguments that ``predict`` of other libraries lacks
KERAS_METHODS = frozenset(
    {"train_on_batch", "get_weights", "set_weights", "load_weights", "save_weights", "reset_states"}
)
KERAS_FIT_ARGUMENTS = frozenset(
    {"epochs", "batch_size", "validation_data"}
)  # arguments that ``fit`` of other libraries lacks
MAX_LITTLE_FIT_STEPS = 4  # of one call of fit, whose fixed cost is that of a dozen steps
MAX_TINY_BATCH = 4  # samples in a step. For dense layers, whose weights are read once per step:
DENSE_BATCH_LIMIT = 16
MIN_EPOCH_STEPS, GOAL_BATCH_SIZE = 8, 64  # see compute/small-batch
MIN_LONG_SEQUENCE = 500  # time steps of a single sequence that should be cut into windows
RECURRENT_LAYERS = ("LSTM", "GRU", "SimpleRNN")
CONVOLUTION_LAYERS = ("Conv2D", "Conv3D", "conv2d", "conv3d", "Conv2DTranspose", "DepthwiseConv2D", "SeparableConv2D")
LARGE_LAYERS = ("MultiHeadAttention", "Conv1D", "conv1d", "Bidirectional", "Embedding", "add_weight")
MAX_SMALL_IMAGE_NUMBERS = (
    32 * 32 * 3
)  # numbers in a sample. Convolutions over larger samples take longer than their launch.
STEP_NAMES = ("GradientTape", "train_on_batch")


# -- predict and fit for little work


def little_calls(source: Source) -> Iterator[tuple[ast.Call, str, tuple[Edit, ...]]]:
    """Find calls in a loop of ``predict`` with few rows or ``fit`` for one step, with a description and edits."""
    for call in call_index.index_of(source).called("predict"):
        if not isinstance(call.func, ast.Attribute) or not _is_in_loop(source, call):
            continue
        found = given_rows(source, node_lookup.argument_value(call, "x", 0)) or (
            1 if _reads_first_row(source, call) else None
        )
        if found is None or found > MAX_LITTLE_ROWS or not _is_keras_predict(source, call):
            continue
        says = f"predict() in a loop is given {found} row{'s' * (found > 1)} at a time"
        yield call, says, tuple(keras_calls.use_predict_on_batch(source, call.lineno))
    for call in call_index.index_of(source).called("fit"):
        if not _is_in_loop(source, call):
            continue
        found, size = (
            given_rows(source, node_lookup.argument_value(call, "x", 0)),
            node_lookup.argument_value(call, "batch_size", 2),
        )
        batch = 32 if size is None else queries.int_at(source, size)
        epochs = node_lookup.argument_value(call, "epochs", 3)
        once = epochs is None or queries.int_at(source, epochs) == 1
        whole = size is not None and _is_length_of(size, node_lookup.argument_value(call, "x", 0))
        steps = 1 if whole else ceil(found / batch) if found and batch else None
        if steps is None or steps > MAX_LITTLE_FIT_STEPS or not once or not isinstance(call.func, ast.Attribute):
            continue
        if not _is_model_rebound(source, call):
            changed = tuple(keras_calls.use_train_on_batch(source, call.lineno)) if steps == 1 else ()
            rows = f"{found} rows" if found else "one batch"
            taken = f"{steps} steps" if steps > 1 else "one step"
            yield call, f"fit() in a loop is given {rows} at a time, {taken}", changed


def given_rows(source: Source, data: ast.expr | None) -> int | None:
    """Return the samples of an argument; of several inputs, ``[a, b]``, those of the first."""
    written = data
    if isinstance(data, ast.Name):
        stores = [
            s
            for s in name_bindings.bindings_of(name_bindings.binding_scope(source, data, data.id), data.id)
            if isinstance(s, ast.expr)
        ]
        written = name_bindings.assigned_value(source, stores[0]) if len(stores) == 1 else data
    if not isinstance(written, ast.List | ast.Tuple) or len(written.elts) < 2:
        return queries.row_count_at(source, data)
    inputs = all(isinstance(one, ast.Name | ast.Subscript | ast.Call | ast.Attribute) for one in written.elts)
    return queries.row_count_at(source, written.elts[0] if inputs else data)


def _reads_first_row(source: Source, call: ast.Call) -> bool:
    """Whether only row 0 of the result is read, ``predict(state)[0]``, so that the call gets one row."""
    read = node_lookup.parents_of(source).get(call)
    if not isinstance(read, ast.Subscript) or read.value is not call:
        return False
    row = read.slice.elts[0] if isinstance(read.slice, ast.Tuple) and read.slice.elts else read.slice
    return isinstance(row, ast.Constant) and row.value == 0 and _has_one_output(source)


def _has_one_output(source: Source) -> bool:
    """Whether the models of the file have one output each. With several, ``predict(x)[0]`` is the first output."""
    built = call_index.index_of(source).called("Model")
    outputs = (node_lookup.argument_value(call, "outputs", 1) for call in built)
    if any(isinstance(one, ast.List | ast.Tuple) for one in outputs):
        return False
    return bool(built or call_index.index_of(source).called("Sequential"))


def _is_length_of(size: ast.expr, data: ast.expr | None) -> bool:
    """Whether ``size`` is ``len(x)`` or ``x.shape[0]`` of the same ``x``."""
    if isinstance(size, ast.Call) and node_lookup.called_name(size) == "len" and len(size.args) == 1:
        return data is not None and ast.dump(size.args[0]) == ast.dump(data)
    rows = isinstance(size, ast.Subscript) and isinstance(size.value, ast.Attribute) and size.value.attr == "shape"
    return rows and data is not None and ast.dump(size.value.value) == ast.dump(data)  # type: ignore[attr-defined]


def _is_in_loop(source: Source, call: ast.Call) -> bool:
    """Whether a loop contains the call, or a call of its function."""
    return queries.repeating_loop(source, call, MIN_LOOP_CALLS) is not None


def _is_keras_predict(source: Source, call: ast.Call) -> bool:
    """Whether ``predict`` belongs to a Keras model, by its arguments, other calls of the object, or its origin."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if any(k.arg in KERAS_PREDICT_ARGUMENTS for k in call.keywords):
        return True
    owner = call.func.value
    if any(_shows_keras_model(other, owner) for other in call_index.index_of(source).called(*KERAS_METHODS, "fit")):
        return True
    made = name_bindings.single_assignment(source, owner) if isinstance(owner, ast.Name) else None
    name = name_bindings.qualified_name(source, made.func) if isinstance(made, ast.Call) else ""
    return name.startswith("keras.") and name.endswith(("Sequential", "Model", "load_model"))


def _shows_keras_model(call: ast.Call, owner: ast.expr) -> bool:
    """Whether ``call`` calls a method of ``owner`` that only Keras models have."""
    if not isinstance(call.func, ast.Attribute) or ast.dump(call.func.value) != ast.dump(owner):
        return False
    return call.func.attr in KERAS_METHODS or any(k.arg in KERAS_FIT_ARGUMENTS for k in call.keywords)


def _is_model_rebound(source: Source, call: ast.Call) -> bool:
    """Whether the loop around ``fit`` rebinds the model in each iteration."""
    assert isinstance(call.func, ast.Attribute)
    name = scope_names.dotted_name(call.func.value).partition(".")[0]
    return not name or any(name in scope_names.bound_names(loop) for loop in scope_names.enclosing_loops(source, call))


def takes_training_step(source: Source, body: Sequence[ast.AST]) -> bool:
    """Whether statements, or functions that they call, take a training step."""
    parts = [p for one in body for p in source.called(one)]
    return any(
        isinstance(n, ast.Call) and node_lookup.called_name(n) in STEP_NAMES for p in parts for n in syntax_tree.walk(p)
    )


def chain_rows_and_batch(source: Source, flow: dataset_chains.DatasetChain) -> tuple[int | None, int | None]:
    """Return the samples and the batch size of a data set of arrays."""
    sizes = [c for c in flow.calls if node_lookup.called_name(c) == "batch"]
    if (
        not flow.whole
        or node_lookup.called_name(flow.calls[0]) != "from_tensor_slices"
        or len(sizes) != 1
        or not flow.calls[0].args
    ):
        return None, None
    given = flow.calls[0].args[0]
    if isinstance(given, ast.Tuple) and given.elts:
        given = given.elts[0]
    return queries.row_count_at(source, given), queries.int_at(
        source, node_lookup.argument_value(sizes[0], "batch_size", 0)
    )


# -- batches of a few samples


def tiny_batches(source: Source) -> Iterator[tuple[ast.expr, str, int, tuple[Edit, ...]]]:
    """Find batches of a few of thousands of samples: the size, a description, a better size and the edits."""
    if not call_index.takes_training_steps(source):
        return
    for call in call_index.index_of(source).called("fit"):
        given, data = node_lookup.argument_value(call, "batch_size", 2), node_lookup.argument_value(call, "x", 0)
        if given is None or data is None:
            continue
        yield from _too_small_batch(source, given, queries.shape_at(source, data), call.lineno)
    for flow in (
        dict.fromkeys(whole_pipelines.training_chains(source)) if call_index.index_of(source).called("batch") else ()
    ):
        calls = [c for c in flow.calls if node_lookup.called_name(c) == "batch"]
        if (
            not flow.whole
            or len(calls) != 1
            or {"unbatch", "window", "flat_map", "filter", "interleave"} & set(flow.names)
        ):
            continue
        rows, _ = chain_rows_and_batch(source, flow)
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
    if any(name in source.text for name in STEP_NAMES):
        loops = [n for n in call_index.nodes_of_kind(source, ast.For) if isinstance(n, ast.For)]
        taken += [n.iter for n in loops if takes_training_step(source, n.body)]
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
        if len(over.args) != 3 or not isinstance(loop.target, ast.Name) or not takes_training_step(source, loop.body):
            continue
        parts = [n for one in loop.body for n in syntax_tree.walk(one) if isinstance(n, ast.Subscript)]
        cut = [n for n in parts if isinstance(n.slice, ast.Slice) and _starts_at(n.slice, loop.target.id)]
        if cut and cut[0].lineno >= loop.lineno:
            line = next(
                (c.lineno for c in syntax_tree.walk(loop) if isinstance(c, ast.Call) and cut[0] in c.args), loop.lineno
            )
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
        *CONVOLUTION_LAYERS, *RECURRENT_LAYERS, *LARGE_LAYERS
    ):
        return
    if (
        shape[0] == 1
        and len(shape) == 3
        and (shape[1] or 0) >= MIN_LONG_SEQUENCE
        and call_index.index_of(source).called(*RECURRENT_LAYERS)
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
    if not call_index.index_of(source).called(*CONVOLUTION_LAYERS, *RECURRENT_LAYERS, "MultiHeadAttention"):
        return False
    numbers = 1
    for one in shape[1:]:
        if one is None:
            return True
        numbers *= one
    return len(shape) < 2 or numbers > MAX_SMALL_IMAGE_NUMBERS
