"""Where the cause compute/handwritten-op shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.script.fixes.models import table_lookups
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.interpreter.library import user_callbacks
from slowtrain.script.lint_rules import graph_code, spots, step_code
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
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
    known = [*one_hot_products(source), *mapped_rows(source), *output_branches(source)]
    starts = [spot.start[0] for spot in known]
    for loop, turns in graph_code.unrolled_graph_loops(source, chained=False):
        if not any(loop.lineno <= start <= (loop.end_lineno or 0) for start in starts):
            says = f"the graph gets the ops of each of {turns} turns of this loop, of the same shapes"
            known.append(_op_spot(loop, says, "stack what the turns take and let one op run over all of them"))
    yield from known or row_by_row_ops(source)


def _op_spot(node: ast.expr | ast.For, says: str, cure: str, changed: tuple[Edit, ...] = ()) -> Spot:
    return spots.node_spot(node, says, Prescription("edit", Effect.EQUIVALENT, cure, edits=changed))


def one_hot_products(source: Source) -> Iterator[Spot]:
    if "one_hot" not in source.words or not name_bindings.may_name(source, *table_lookups.LOOKUP_FUNCTIONS):
        return
    for call in call_index.index_of(source).calls_of("one_hot"):
        depth = node_lookup.argument_value(call, "depth", 1) or node_lookup.argument_value(call, "num_classes", 1)
        rows = queries.int_at(source, depth)
        changed = (
            table_lookups.use_gather(source, edits.node_end(call.func)[0]) if (rows or 0) >= MIN_ONE_HOT_ROWS else ()
        )
        if changed:
            says = f"a product with one-hot rows of {rows:,} numbers looks up one row each"
            cure = "look rows up with tf.gather or layers.Embedding instead of multiplying"
            yield _op_spot(call, says, cure, changed)


def mapped_rows(source: Source) -> Iterator[Spot]:
    """Find ``tf.map_fn`` in a step over a function that accepts all rows at once."""
    for call in call_index.index_of(source).calls_of("map_fn"):
        mapped = name_bindings.qualified_name(source, call.func) == "tensorflow.map_fn"
        changed = (
            table_lookups.use_vectorized_map(source, call.lineno)
            if mapped and step_code.is_in_step(source, call)
            else ()
        )
        if changed:
            cure = Prescription("edit", Effect.EQUIVALENT, "work on the whole batch", edits=tuple(changed))
            says = "map_fn takes one row of the batch after another through ops that take all of them at once"
            yield Spot(edits.node_start(call), edits.node_end(call.func), says, cure)


def output_branches(source: Source) -> Iterator[Spot]:
    """Find loops that apply equal layers to the same input, for each of many outputs."""
    if ")(" not in source.text or not name_bindings.may_name(source, "keras.layers."):
        return
    for loop in call_index.nodes_of_class(source, ast.For) if call_index.takes_training_steps(source) else ():
        calls = syntax_tree.nodes_inside(loop.body, ast.Call)
        made = [(call, call.func.func) for call in calls if isinstance(call.func, ast.Call)]
        put = [c for c, maker in made if name_bindings.qualified_name(source, maker).startswith("keras.layers.")]
        turns = queries.loop_turns(source, loop) if put else None
        if turns is not None and turns >= MIN_PARTS and _has_equal_layers(loop, put) and _keeps_each_output(loop):
            says = f"{turns} branches of layers alike are built, traced and run one by one on the same input"
            cure = "make one layer of all of them: a wide Dense, or EinsumDense for those behind it"
            yield _op_spot(loop, says, cure)


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
    stores = any(isinstance(n.ctx, ast.Store) for n in syntax_tree.nodes_inside(loop, ast.Subscript))
    return stores or any(node_lookup.called_name(n) == "append" for n in syntax_tree.nodes_inside(loop, ast.Call))


def row_by_row_ops(source: Source) -> Iterator[Spot]:
    """Find comprehensions over parts of a tensor and loops over rows in a graph."""
    for event in file_events(source) if graph_code.may_trace(source) else ():
        loop, says = event.begun, ""
        if _is_mapped_in_step(source, event):
            says = "map_fn takes one row after another through ops that take all of them at once"
        if loop is not None and event.graph:
            match loop.node:
                case ast.comprehension() if _takes_tensor_parts(source, loop):
                    says = f"the graph gets the ops of each of {loop.turns} parts, of the same shapes"
                case ast.For() as node if loop.items.kind == "tensor" and _writes_row_by_row(source, node):
                    says = "this loop of the graph takes one row after another, and writes what each gives"
        if says:
            yield _op_spot(event.node, says, "use one op for all of them: another axis, or einsum")


def _takes_tensor_parts(source: Source, loop: Loop) -> bool:
    """Whether each of many iterations indexes a part of a tensor and only applies TensorFlow ops to it."""
    holder = node_lookup.parents_of(source).get(loop.node)
    if loop.items.kind != "range" or (loop.turns or 0) < graph_code.MIN_UNROLLED_TURNS or holder is None:
        return False
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
    match loop:
        case ast.For(target=ast.Name(), iter=ast.Call(func=over)):
            if name_bindings.qualified_name(source, over) != "tensorflow.range":
                return False
        case _:
            return False
    wrote, own = False, scope_names.bound_names(loop.body)
    given: set[str] = set()
    for one in loop.body:
        kept = set()
        match one:
            case (
                ast.Assign(value=ast.Call(func=ast.Attribute(attr="write", value=array)))
                | ast.Expr(value=ast.Call(func=ast.Attribute(attr="write", value=array)))
            ):
                kept, wrote = {scope_names.dotted_name(array)}, True
            case ast.Assign() | ast.Expr():
                pass
            case _:
                return False
        if scope_names.read_names(one.value) & (own - given - kept):
            return False  # a value of the previous iteration
        given |= scope_names.bound_names(one)
    return wrote and _calls_row_safe_ops(source, loop.body)


def _calls_row_safe_ops(source: Source, body: Iterable[ast.AST]) -> bool:
    """Whether all calls are TensorFlow ops that accept many rows."""
    calls = [n for n in syntax_tree.nodes_inside(body, ast.Call) if node_lookup.called_name(n) != "write"]
    names = [name_bindings.qualified_name(source, c.func) for c in calls]
    uneven = any(
        name.rpartition(".")[2] in UNEVEN_FUNCTIONS or name.startswith(FILE_FUNCTION_PREFIXES) for name in names
    )
    return bool(names) and not uneven and all(name.startswith(("tensorflow.", "keras.ops.")) for name in names)


def _is_mapped_in_step(source: Source, event: Event) -> bool:
    """Whether the event is ``tf.map_fn`` in a step, outside data sets, over a function of plain ops."""
    if event.name != "tensorflow.map_fn" or not event.graph or event.producer or not event.given.args:
        return False
    if any(node_lookup.called_name(call) in user_callbacks.MAPPING_OPERATIONS for call in event.path):
        return False
    function = event.given.args[0].node
    known = isinstance(function, (*FUNCTION_NODES, ast.Lambda))
    return known and function is not None and _calls_row_safe_ops(source, scope_names.scope_body(function))
