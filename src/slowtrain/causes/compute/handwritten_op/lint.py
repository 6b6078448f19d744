"""Where the cause compute/handwritten-op shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.script.fixes.models import table_lookups, vectorized_maps
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.interpreter.library import user_callbacks
from slowtrain.script.lint_rules import graph_code, spots, step_code
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, training_calls
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

MIN_ONE_HOT_ROWS = 1000  # of a table. The product with one-hot rows is then mostly with zeros.
MIN_PARTS = 20  # each with its own ops. Starting fewer of them costs too little to report.
# Functions that give a different shape for each row, or run their own loop.
UNEVEN_FUNCTIONS = frozenset(
    "boolean_mask unique where repeat while_loop cond map_fn scan foldl py_function numpy_function".split()
)
FILE_FUNCTION_PREFIXES = ("tensorflow.image.", "tensorflow.io.", "tensorflow.strings.")


def find_spots(source: Source) -> Iterable[Spot]:
    """Products with one-hot rows; convolutions and many small products in Python loops."""
    known = list(reached_handwritten_ops(source))
    for one in known:
        cure = Prescription("edit", Effect.EQUIVALENT, one.cure, edits=one.changed)
        yield Spot(one.start, one.end, one.says, cure)
    for node, says in () if known else row_by_row_ops(source):
        whole = Prescription("edit", Effect.EQUIVALENT, "use one op for all of them: another axis, or einsum")
        yield spots.node_spot(node, says, whole)


def find_handwritten_ops(source: Source) -> Iterator[spots.HandwrittenOp]:
    for call in (
        call_index.index_of(source).called("one_hot")
        if name_bindings.may_name(source, *table_lookups.LOOKUP_FUNCTIONS)
        else ()
    ):
        depth = node_lookup.argument_value(call, "depth", 1) or node_lookup.argument_value(call, "num_classes", 1)
        rows = queries.int_at(source, depth)
        if rows is None or rows < MIN_ONE_HOT_ROWS:
            continue
        changed = table_lookups.use_gather(source, edits.node_end(call.func)[0])
        if changed:
            says = f"a product with one-hot rows of {rows:,} numbers looks up one row each"
            cure = "look rows up with tf.gather or layers.Embedding instead of multiplying"
            yield spots.HandwrittenOp(edits.node_start(call), edits.node_end(call), says, cure, changed)
    yield from _row_by_row_ops(source)


def _row_by_row_ops(source: Source) -> Iterator[spots.HandwrittenOp]:
    for call, changed in mapped_rows(source):
        says = "map_fn takes one row of the batch after another through ops that take all of them at once"
        yield spots.HandwrittenOp(
            edits.node_start(call), edits.node_end(call.func), says, "work on the whole batch", changed
        )
    for loop, count in output_branches(source):
        says = f"{count} branches of layers alike are built, traced and run one by one on the same input"
        cure = "make one layer of all of them: a wide Dense, or EinsumDense for those behind it"
        yield spots.HandwrittenOp(edits.node_start(loop), edits.node_end(loop.iter), says, cure, ())


def mapped_rows(source: Source) -> Iterator[tuple[ast.Call, tuple[Edit, ...]]]:
    """Find ``tf.map_fn`` in a step over a function that accepts all rows at once, with the edits."""
    for call in call_index.index_of(source).called("map_fn"):
        if name_bindings.qualified_name(source, call.func) != "tensorflow.map_fn" or not step_code.is_in_step(
            source, call
        ):
            continue
        changed = tuple(vectorized_maps.use_vectorized_map(source, call.lineno))
        if changed:
            yield call, changed


def output_branches(source: Source) -> Iterator[tuple[ast.For, int]]:
    """Find loops that apply equal layers to the same input, for each of many outputs."""
    if ")(" not in source.text or "for " not in source.text or not name_bindings.may_name(source, "keras.layers."):
        return
    if not training_calls.takes_training_steps(source):
        return
    for loop in call_index.nodes_of_kind(source, ast.For):
        if not isinstance(loop, ast.For) or len(loop.body) > 6 or any(isinstance(s, ast.For) for s in loop.body):
            continue
        layers = syntax_tree.nodes_inside(loop.body, ast.Call)
        put = [n for n in layers if isinstance(n.func, ast.Call) and _is_layer_call(source, n.func)]
        turns = queries.loop_turns(source, loop) if put else None
        if turns is not None and turns >= MIN_PARTS and _has_equal_layers(loop, put) and _keeps_each_output(loop):
            yield loop, turns


def _is_layer_call(source: Source, call: ast.Call) -> bool:
    return name_bindings.qualified_name(source, call.func).startswith("keras.layers.")


def _has_equal_layers(loop: ast.For, put: list[ast.Call]) -> bool:
    """Whether the input of the first layer is fixed and no layer size depends on the iteration. Layer names may."""
    own = scope_names.bound_names(loop)
    inputs = [a for call in put for a in call.args]
    if not any(isinstance(a, ast.Name) and a.id not in own for a in inputs):
        return False
    makers = [call.func for call in put if isinstance(call.func, ast.Call)]
    sizes = [a for m in makers for a in (*m.args, *(k.value for k in m.keywords if k.arg != "name"))]
    return not scope_names.read_names(sizes) & own


def _keeps_each_output(loop: ast.For) -> bool:
    """Whether each iteration stores a separate output, under a key or in a list."""
    stores = any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for n in syntax_tree.walk(loop))
    return stores or any(
        isinstance(n, ast.Call) and node_lookup.called_name(n) == "append" for n in syntax_tree.walk(loop)
    )


def row_by_row_ops(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Find comprehensions over parts of a tensor and loops over rows in a graph, with a description."""
    for event in file_events(source) if graph_code.may_trace(source) else ():
        loop = event.begun
        if _is_mapped_in_step(source, event):
            yield event.node, "map_fn takes one row after another through ops that take all of them at once"
        if loop is None or not event.graph:
            continue
        if isinstance(loop.node, ast.comprehension) and loop.items.kind == "range":
            holder = node_lookup.parents_of(source).get(loop.node)
            turns = loop.turns or 0
            if (
                turns >= graph_code.MIN_UNROLLED_TURNS
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
    parts = [n for n in syntax_tree.nodes_inside(holder, ast.Subscript) if scope_names.read_names(n.slice) & names]
    numbers = [n for n in syntax_tree.nodes_inside(holder, ast.Name) if n.id in names and isinstance(n.ctx, ast.Load)]
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
    calls = [n for n in syntax_tree.nodes_inside(body, ast.Call) if node_lookup.called_name(n) != "write"]
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


def reached_handwritten_ops(source: Source) -> Iterator[spots.HandwrittenOp]:
    """Find handwritten ops, and loops whose iterations one op could process together."""
    known = list(find_handwritten_ops(source))
    yield from known
    for loop, turns in graph_code.unrolled_graph_loops(source, chained=False):
        if not any(loop.lineno <= one.start[0] <= (loop.end_lineno or 0) for one in known):
            says = f"the graph gets the ops of each of {turns} turns of this loop, of the same shapes"
            whole = "stack what the turns take and let one op run over all of them"
            yield spots.HandwrittenOp(edits.node_start(loop), edits.node_end(loop.iter), says, whole, ())
