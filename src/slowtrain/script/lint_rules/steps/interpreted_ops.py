"""Lint rules on the interpreter's events about embedding tables, row-wise ops, number formats and batch sizes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import prod

from slowtrain.script.fixes.models import table_lookups as cured
from slowtrain.script.interpreter.domain.abstract_values import UNKNOWN, Value
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.interpreter.library import user_callbacks
from slowtrain.script.lint_rules.compute import embedding_tables, handwritten_ops, recurrent_layers
from slowtrain.script.lint_rules.host import fit_calls
from slowtrain.script.lint_rules.steps import reached_code
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

LOOKUP_FUNCTIONS = frozenset({"tensorflow.gather", "tensorflow.nn.embedding_lookup", "keras.ops.take"})
PRODUCT_FUNCTIONS = ("matmul", "einsum", "tensordot", "transpose")
MIN_SMALL_BATCH_ROWS = 1000
MAX_DENSE_SMALL_BATCH = fit_calls.DENSE_BATCH_LIMIT - 1  # samples, for a model of dense layers
MAX_TABLE_WEIGHTS = 1_000_000  # of a table. A pass over more of them is work for a CPU.
# Functions that give a different shape for each row, or run their own loop.
UNEVEN_FUNCTIONS = frozenset(
    "boolean_mask unique where repeat while_loop cond map_fn scan foldl py_function numpy_function".split()
)
FILE_FUNCTION_PREFIXES = ("tensorflow.image.", "tensorflow.io.", "tensorflow.strings.")
DTYPE_SETTERS = frozenset({"set_floatx", "set_dtype_policy", "set_global_policy"})
COMPUTING_LAYERS = frozenset("Dense LSTM GRU Conv1D Conv2D Conv3D MultiHeadAttention EinsumDense".split())


# -- tables


def densely_updated_tables(source: Source) -> Iterator[tuple[ast.Call, tuple[int, int]]]:
    """Find large tables that Adam updates and that are only used for lookups, in an otherwise small model."""
    if not any(name in source.text for name in ("Adam", "adam")):
        return
    every = file_events(source)
    found = {id(e.node): (e, size) for e in every if (size := _large_table_size(e)) is not None}
    if not found or not _uses_only_adam(every) or _has_heavy_ops(every, max(rows for _, (rows, _) in found.values())):
        return
    if any(e.name.startswith(".scatter_") for e in every):  # the step updates rows itself
        return
    looked = {id(e.given.args[0].node) for e in every if e.name in LOOKUP_FUNCTIONS and e.given.args}
    multiplied = {
        id(a.node) for e in every if e.name.endswith(PRODUCT_FUNCTIONS) for a in e.given.args if a.kind == "variable"
    }
    for node in call_index.nodes_of_kind(source, ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            multiplied |= {id(interpreter.value_at(source, side).node) for side in (node.left, node.right)}
    for key, (event, size) in found.items():
        used = event.name == "keras.layers.Embedding" or key in looked
        if used and key not in multiplied and isinstance(event.node, ast.Call):
            yield event.node, size


def _large_table_size(event: Event) -> tuple[int, int] | None:
    """Return rows and width of a large trainable table that an event creates; None for other events."""
    given = event.given
    if given.get("trainable").known is False:
        return None
    if event.name == "keras.layers.Embedding":
        rows, width = _largest_number(event, given.get("input_dim", 0)), given.get("output_dim", 1).known
        steered = any(name in given.keywords for name in handwritten_ops.STEERING_ARGUMENTS)
        size = (rows, width) if not steered else None
    elif event.name in ("tensorflow.Variable", ".add_weight"):
        shape = event.result.shape
        size = (shape[0], shape[1]) if shape is not None and len(shape) == 2 else None
    else:
        return None
    if size is None or not isinstance(size[0], int) or not isinstance(size[1], int):
        return None
    return (
        (size[0], size[1])
        if size[0] >= handwritten_ops.MIN_LARGE_TABLE_ROWS and prod(size) >= handwritten_ops.MIN_TABLE_NUMBERS
        else None
    )


def _largest_number(event: Event, number: Value) -> int | None:
    """Return a number, or the largest of the numbers that a loop takes from a list."""
    if isinstance(number.known, int):
        return number.known
    lists = [
        one.items.items.values() for one in event.loops if one.number in number.varies and one.items.kind == "list"
    ]
    known = [one.known for several in lists for one in several if isinstance(one.known, int)]
    return max(known) if known and number.kind == "number" else None


def _uses_only_adam(every: tuple[Event, ...]) -> bool:
    """Whether every optimizer is an Adam."""
    used = [e.given.get("optimizer", 0) for e in every if e.name == ".compile"]
    used += [e.on for e in every if e.name in (".apply_gradients", ".minimize") and e.on is not None]
    return bool(used) and all(_optimizer_name(one) in embedding_tables.ADAM_CLASSES for one in used)


def _optimizer_name(optimizer: Value) -> str:
    if isinstance(optimizer.known, str):
        return optimizer.known.lower()
    return optimizer.name.rpartition(".")[2].lower() if optimizer.kind == "keras" else ""


def _has_heavy_ops(every: tuple[Event, ...], rows: int) -> bool:
    """Whether a step contains ops that may take longer than a pass over the table."""
    for event in every:
        last = event.name.rpartition(".")[2]
        if last in embedding_tables.HEAVY_OPS and event.name.startswith(
            ("keras.layers.", "tensorflow.nn.", "keras.ops.")
        ):
            return True
        units = event.given.get("units", 0).known if event.name == "keras.layers.Dense" else 0
        if isinstance(units, int) and units >= min(rows, 4096):
            return True
    return False


def penalised_embeddings(source: Source) -> Iterator[tuple[ast.expr, tuple[int, int]]]:
    """Find norms of all rows of a large embedding in a step, with the size of the embedding."""
    if "embeddings" not in source.words or not step_loops.step_events(source):
        return
    every = file_events(source)
    tables_made = {id(e.node): size for e in every if (size := _large_table_size(e)) is not None}
    seen: set[ast.expr] = set()
    for event in every:
        given = event.given.get("", 0)
        whole = given.kind == "method" and given.name == "embeddings" and given.data is not None
        size = tables_made.get(id(given.data.node)) if whole else None
        norm = (
            event.name.startswith(("tensorflow.", "keras.ops."))
            and event.name.rpartition(".")[2] in embedding_tables.NORM_FUNCTIONS
        )
        if size is not None and norm and event.graph and event.node not in seen and not _has_heavy_ops(every, size[0]):
            seen.add(event.node)
            yield event.node, size


def table_wide_ops(source: Source) -> Iterator[tuple[ast.Call, int]]:
    """Find ops on all rows of a large table before a lookup in a step, with the number of rows."""
    every = file_events(source)
    by_row = {
        id(e.result): (e, rows)
        for e in every
        if e.graph
        and e.name in (*cured.ELEMENTWISE_FUNCTIONS, *cured.ROW_FUNCTIONS)
        and (rows := _row_wise_table_rows(e)) is not None
    }
    for event in every if by_row else ():
        if event.name in LOOKUP_FUNCTIONS and event.given.args and id(event.given.args[0]) in by_row:
            made, rows = by_row.pop(id(event.given.args[0]))
            if isinstance(made.node, ast.Call):
                yield made.node, rows


def _row_wise_table_rows(event: Event) -> int | None:
    table = event.given.args[0] if event.given.args else None
    axis = event.given.get("axis", 1).known
    if event.name in cured.ROW_FUNCTIONS and axis not in (1, -1) and "softmax" not in event.name:
        return None
    shape = table.shape if table is not None and table.kind == "variable" else None
    return (
        shape[0]
        if shape is not None and len(shape) == 2 and (shape[0] or 0) >= handwritten_ops.MIN_LARGE_TABLE_ROWS
        else None
    )


# -- rows and parts, one by one


def row_by_row_ops(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Find comprehensions over parts of a tensor and loops over rows in a graph, with a description."""
    for event in file_events(source) if reached_code.may_trace(source) else ():
        loop = event.begun
        if _is_mapped_in_step(source, event):
            yield event.node, "map_fn takes one row after another through ops that take all of them at once"
        if loop is None or not event.graph:
            continue
        if isinstance(loop.node, ast.comprehension) and loop.items.kind == "range":
            holder = node_lookup.parents_of(source).get(loop.node)
            turns = loop.turns or 0
            if (
                turns >= reached_code.MIN_UNROLLED_TURNS
                and holder is not None
                and _takes_tensor_parts(source, loop, holder)
            ):
                yield event.node, f"the graph gets the ops of each of {turns} parts, of the same shapes"
        elif isinstance(loop.node, ast.For) and loop.items.kind == "tensor" and _writes_row_by_row(source, loop.node):
            yield event.node, "this loop of the graph takes one row after another, and writes what each gives"


def _takes_tensor_parts(source: Source, loop: Loop, holder: ast.AST) -> bool:
    """Whether each iteration indexes a part of a tensor and only applies TensorFlow ops to it."""
    inside = [e for e in file_events(source) if loop in e.loops and e.begun is None]
    if not inside or not all(e.name.startswith(("tensorflow.", "keras.ops.")) for e in inside):
        return False
    names = scope_names.bound_names(getattr(loop.node, "target", loop.node))
    parts = [
        n for n in syntax_tree.walk(holder) if isinstance(n, ast.Subscript) and scope_names.read_names(n.slice) & names
    ]
    numbers = [
        n for n in syntax_tree.walk(holder) if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load)
    ]
    placed = {id(m) for n in parts for m in syntax_tree.walk(n.slice)}
    tensors = all(interpreter.value_at(source, n.value).kind in ("tensor", "variable") for n in parts)
    return bool(parts) and tensors and all(id(n) in placed for n in numbers)


def _writes_row_by_row(source: Source, loop: ast.For) -> bool:
    """Whether the loop is ``for i in tf.range(n): out = out.write(i, f(x[i]))`` with independent iterations."""
    over = loop.iter
    if not isinstance(over, ast.Call) or name_bindings.qualified_name(source, over.func) != "tensorflow.range":
        return False
    if not isinstance(loop.target, ast.Name):
        return False
    wrote, own = False, scope_names.bound_names(loop.body)
    given: set[str] = set()
    for one in loop.body:
        value = one.value if isinstance(one, (ast.Assign, ast.Expr)) else None
        if value is None:
            return False
        writes = isinstance(value, ast.Call) and node_lookup.called_name(value) == "write"
        kept = (
            scope_names.dotted_name(value.func.value)
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
            else ""
        )
        if scope_names.read_names(value) & (own - given - ({kept} if writes else set())):
            return False  # a value of the previous iteration
        given |= scope_names.bound_names(one)
        wrote = wrote or writes
    return wrote and _calls_row_safe_ops(source, loop.body)


def _calls_row_safe_ops(source: Source, body: Iterable[ast.AST]) -> bool:
    """Whether all calls are TensorFlow ops that accept many rows."""
    calls = [
        n
        for one in body
        for n in syntax_tree.walk(one)
        if isinstance(n, ast.Call) and node_lookup.called_name(n) != "write"
    ]
    names = [name_bindings.qualified_name(source, c.func) for c in calls]
    framework = all(name.startswith(("tensorflow.", "keras.ops.")) for name in names)
    apart = any(
        name.rpartition(".")[2] in UNEVEN_FUNCTIONS or name.startswith(FILE_FUNCTION_PREFIXES) for name in names
    )
    return bool(names) and framework and not apart


def _is_mapped_in_step(source: Source, event: Event) -> bool:
    """Whether the event is ``tf.map_fn`` in a step, outside data sets, over a function of plain ops."""
    if event.name != "tensorflow.map_fn" or not event.graph or event.producer or not event.given.args:
        return False
    if any(node_lookup.called_name(call) in user_callbacks.MAPPING_OPERATIONS for call in event.path):
        return False
    function = event.given.args[0].node
    return (
        function is not None
        and isinstance(function, (*FUNCTION_NODES, ast.Lambda))
        and _calls_row_safe_ops(source, scope_names.scope_body(function))
    )


# -- float64


def double_precision_settings(source: Source) -> Iterator[ast.Call]:
    """Find settings that make all layers, or one layer, use float64."""
    every = file_events(source) if "float64" in source.text else ()
    setting = [e for e in every if e.name.rpartition(".")[2] in DTYPE_SETTERS and e.name.startswith("keras.")]
    for event in every:
        if not isinstance(event.node, ast.Call):
            continue
        last = event.name.rpartition(".")[2]
        chosen = setting == [event] and event.given.get("", 0).known == "float64"  # and no other call resets it
        wide = event.name.startswith("keras.layers.") and last in COMPUTING_LAYERS
        if chosen or (wide and event.given.get("dtype").known == "float64"):
            yield event.node
            return


# -- batches of a few samples


def small_batches(source: Source) -> Iterator[tuple[ast.expr, int, int]]:
    """Find steps on few of very many small samples: the expression, the batch size and the number of samples."""
    for event in file_events(source):
        found = _fit_batch(event) if event.name == ".fit" else _sliced_batch(source, event)
        if found is None:
            continue
        size, rows, shape = found
        most = (
            fit_calls.MAX_TINY_BATCH
            if call_index.index_of(source).called(
                *fit_calls.CONVOLUTION_LAYERS, *fit_calls.RECURRENT_LAYERS, *fit_calls.LARGE_LAYERS
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
        rows, shape = recurrent_layers.sample_count(data), first.shape[1:] if first.shape else None
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
        *fit_calls.CONVOLUTION_LAYERS, *fit_calls.RECURRENT_LAYERS, "Conv1D", "conv1d"
    ):
        return True
    return shape is not None and None not in shape and prod(n or 0 for n in shape) <= fit_calls.MAX_SMALL_IMAGE_NUMBERS
