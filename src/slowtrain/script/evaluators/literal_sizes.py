"""Loop turns and sizes, as exactly as a lint rule needs them. None: the text does not show it.

Only literals, and names whose value is a literal, count. What comes from a file or an argument is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from slowtrain.script.evaluators import array_rules, expression_values, setting_origins, value_kinds
from slowtrain.script.navigation import call_index, higher_order_calls, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

TRAINING_CALLS = ("fit", "fit_generator", "train_on_batch", "GradientTape", "minimize")
MAX_FEW_TURNS = 10  # turns of a loop: a loop over settings, which does a thing few times
MAX_DEPTH = 8
Shape = array_rules.Shape


def takes_training_steps(source: Source) -> bool:
    """Whether the file calls something that takes training steps."""
    return bool(call_index.index_of(source).called(*TRAINING_CALLS))


def is_compiled_loss(source: Source, name: str) -> bool:
    """Whether ``compile()`` receives the function of this name as its loss."""
    given = (node_lookup.argument_value(c, "loss", 1) for c in call_index.index_of(source).called("compile"))
    return any(isinstance(one, ast.Name) and one.id == name for one in given)


def literal_int(source: Source, node: ast.expr | None, depth: int = MAX_DEPTH) -> int | None:
    """The int that an expression is; None if unknown."""
    if node is None or not depth:
        return None
    if isinstance(node, ast.BinOp):
        left, right = literal_int(source, node.left, depth - 1), literal_int(source, node.right, depth - 1)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.FloorDiv):
            return left // right if right else None
        plain = {ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right}
        return plain.get(type(node.op))
    if isinstance(node, ast.Call) and node_lookup.called_name(node) == "len" and len(node.args) == 1:
        return row_count(source, node.args[0], depth - 1)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        found = literal_shape(source, node.value.value, depth - 1)
        at = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return found[at] if found is not None and isinstance(at, int) and -len(found) <= at < len(found) else None
    written = setting_origins.literal_int(source, node)
    return written if written is not None else expression_values.int_value(source, node)


def row_count(source: Source, node: ast.expr | None, depth: int = MAX_DEPTH) -> int | None:
    """The number of samples of an array or a list."""
    found = literal_shape(source, node, depth)
    return found[0] if found else None


def literal_shape(source: Source, node: ast.expr | None, depth: int = MAX_DEPTH) -> Shape | None:
    """The shape of an array, with None for unknown sizes; None if its rank is unknown."""
    found = _shape_of_node(source, node, depth)
    if not depth or (found and found[0] is not None):
        return found
    followed = expression_values.shape_value(source, node)
    return followed if followed and (not found or followed[0] is not None) else found


def _shape_of_node(source: Source, node: ast.expr | None, depth: int) -> Shape | None:
    if node is None or not depth:
        return None
    if isinstance(node, ast.Name):
        return _shape_of_name(source, node, depth)
    if isinstance(node, ast.BinOp):
        sides = [literal_shape(source, side, depth - 1) for side in (node.left, node.right)]
        return max((s for s in sides if s is not None), key=len, default=None)
    if isinstance(node, ast.Subscript):
        return _shape_of_subscript(source, node, depth)
    if isinstance(node, (ast.List, ast.Tuple)):
        if any(isinstance(e, ast.Starred) for e in node.elts):
            return None
        return (len(node.elts), *((literal_shape(source, node.elts[0], depth - 1) or ()) if node.elts else ()))
    if isinstance(node, ast.ListComp) and len(node.generators) == 1 and not node.generators[0].ifs:
        return (_iteration_count(source, node.generators[0].iter, depth),)
    return _shape_of_call(source, node, depth) if isinstance(node, ast.Call) else None


def _shape_of_call(source: Source, call: ast.Call, depth: int) -> Shape | None:
    name = node_lookup.called_name(call)
    if name == "reshape":
        method = isinstance(call.func, ast.Attribute) and not name_bindings.qualified_name(source, call.func)
        return _shape_from_arguments(source, call.args if method else call.args[1:], depth)
    if name in array_rules.SAME_SHAPE_FUNCTIONS:
        method = isinstance(call.func, ast.Attribute) and not name_bindings.qualified_name(source, call.func)
        kept = [call.func.value] if method and isinstance(call.func, ast.Attribute) else call.args[:1]
        return literal_shape(source, kept[0], depth - 1) if kept else None
    if name in ("expand_dims", "stack") and call.args:
        axis = node_lookup.argument_value(call, "axis", 1)
        first = axis is None if name == "stack" else axis is not None
        if (axis is not None and setting_origins.literal_int(source, axis) != 0) or (
            not first and name == "expand_dims"
        ):
            return None
        inner = literal_shape(source, call.args[0], depth - 1)
        return inner if name == "stack" else (1, *(inner or ()))
    if name == "to_categorical" and call.args:
        found = literal_shape(source, call.args[0], depth - 1)
        return (*found, None) if found else None
    if name in ("rand", "randn"):
        return _shape_from_arguments(source, call.args, depth)
    if name in array_rules.SHAPED_FUNCTIONS and isinstance(call.func, ast.Attribute):
        whole = name_bindings.qualified_name(source, call.func)
        later = 0 if whole.startswith(("tensorflow.", "keras.")) else array_rules.SHAPE_POSITIONS.get(name, 0)
        given = node_lookup.argument_value(call, "size") or node_lookup.argument_value(call, "shape", later)
        return _shape_from_arguments(source, [given], depth) if given is not None else None
    if name == "range":
        return (_iteration_count(source, call, depth),)
    return None


def _shape_from_arguments(source: Source, sizes: Sequence[ast.expr], depth: int) -> Shape | None:
    """A shape given as a tuple, a number, or several arguments."""
    every = sizes[0].elts if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)) else sizes
    found = tuple(literal_int(source, e, depth - 1) for e in every)
    return tuple(None if n is not None and n < 0 else n for n in found) if found else None


def _shape_of_subscript(source: Source, node: ast.Subscript, depth: int) -> Shape | None:
    """The shape of ``x[None]``, ``x[:n]``, ``x[i:i + 1]``."""
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    if name_bindings.is_new_axis(source, first):
        return (1,)
    if not isinstance(first, ast.Slice) or first.step is not None:
        return None
    whole = literal_shape(source, node.value, depth - 1)
    rest = () if isinstance(node.slice, ast.Tuple) or whole is None else whole[1:]
    if first.upper is None:
        return whole if first.lower is None else (None, *rest)
    if first.lower is None:
        upper = literal_int(source, first.upper, depth - 1)
        return (upper if upper is None or upper >= 0 else None, *rest)
    added = first.upper.right if isinstance(first.upper, ast.BinOp) and isinstance(first.upper.op, ast.Add) else None
    if added is not None and ast.dump(first.upper.left) == ast.dump(first.lower):  # type: ignore[attr-defined]
        return (literal_int(source, added, depth - 1), *rest)
    return None


def _shape_of_name(source: Source, node: ast.Name, depth: int) -> Shape | None:
    """The shape of a name whose assignments all agree, apart from updates of itself."""
    where = name_bindings.binding_scope(source, node, node.id)
    if isinstance(where, FUNCTION_NODES) and node.id in scope_names.parameter_names(where):
        given = list(value_kinds.arguments_for(source, where, node.id))
        return literal_shape(source, given[0], depth - 1) if len(given) == 1 else None
    found: set[Shape | None] = set()
    for store in name_bindings.bindings_of(where, node.id):
        if not isinstance(store, ast.Name):
            return None
        holder = node_lookup.parents_of(source).get(store)
        if isinstance(holder, (ast.For, ast.comprehension)) and store is holder.target:
            inner = literal_shape(source, holder.iter, depth - 1)
            if inner is not None:
                found.add(inner[1:])
                continue
        value = name_bindings.assigned_value(source, store)
        if value is not None and any(isinstance(n, ast.Name) and n.id == node.id for n in syntax_tree.walk(value)):
            continue  # x = x / 255
        if isinstance(holder, ast.AugAssign):
            continue
        found.add(
            literal_shape(source, value, depth - 1) if value is not None else _shape_of_target(source, store, depth)
        )
    return found.pop() if len(found) == 1 else None


def _shape_of_target(source: Source, store: ast.Name, depth: int) -> Shape | None:
    """The shape of a target of ``(x, y), _ = mnist.load_data()``, or of a loop over a generator of the file."""
    above = node_lookup.parents_of(source)
    outer: ast.AST | None = above.get(store)
    holder: ast.AST = store
    while isinstance(outer, (ast.Tuple, ast.List)):
        holder, outer = outer, above.get(outer)
    if isinstance(outer, ast.Assign) and isinstance(outer.value, ast.Call) and isinstance(holder, ast.Tuple):
        name = name_bindings.qualified_name(source, outer.value.func)
        first = holder.elts[0]
        if name.startswith("keras.datasets.") and store in syntax_tree.walk(first):
            last = name.split(".")[2]
            row = (
                array_rules.KERAS_SAMPLE_SHAPES.get(last, (None,))
                if isinstance(first, ast.Tuple) and store is first.elts[0]
                else ()
            )
            return (array_rules.KERAS_DATASET_ROWS.get(last, (None,))[0], *row)
    if isinstance(outer, ast.For) and holder is outer.target:
        over = outer.iter
        counted = isinstance(over, ast.Call) and node_lookup.called_name(over) == "enumerate"
        items = outer.target.elts[1:] if isinstance(outer.target, ast.Tuple) else []
        if counted and isinstance(over, ast.Call) and over.args and store in items:
            inner = literal_shape(source, over.args[0], depth - 1)
            if inner is not None:
                return inner[1:]
        yielded = yielded_item(source, outer, store)
        return literal_shape(source, yielded, depth - 1)
    return None


def yielded_item(source: Source, loop: ast.For, name: ast.Name) -> ast.expr | None:
    """What a generator of this file yields for one target of a loop: ``for i, (x, y) in enumerate(f())``."""
    target, over = loop.target, loop.iter
    while isinstance(over, ast.Call) and node_lookup.called_name(over) in ("enumerate", "tqdm", "iter") and over.args:
        if node_lookup.called_name(over) == "enumerate":
            if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
                return None
            target = target.elts[1]
        over = over.args[0]
    made = generator_function(source, over)
    if made is None:
        return None
    yields = [
        n.value
        for n in scope_names.nodes_in_scope(scope_names.scope_body(made))
        if isinstance(n, ast.Yield) and n.value is not None
    ]
    if len(yields) != 1:
        return None
    if isinstance(target, ast.Name):
        return yields[0] if target.id == name.id else None
    if isinstance(target, ast.Tuple) and isinstance(yields[0], ast.Tuple) and len(target.elts) == len(yields[0].elts):
        for one, value in zip(target.elts, yields[0].elts, strict=True):
            if isinstance(one, ast.Name) and one.id == name.id:
                return value
    return None


def generator_function(source: Source, call: ast.expr) -> ast.FunctionDef | None:
    """The function of this file that ``call`` calls by name."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    return node_lookup.function_named(source, call.func.id, call)


def loop_turns(source: Source, loop: ast.AST) -> int | None:
    """The number of turns of a loop; None if unknown."""
    return _iteration_count(source, loop.iter, MAX_DEPTH) if isinstance(loop, (ast.For, ast.comprehension)) else None


def has_few_turns(source: Source, loop: ast.AST) -> bool:
    """Whether a loop is known to take few turns."""
    known = loop_turns(source, loop)
    return known is not None and known <= MAX_FEW_TURNS


def is_literal_loop(loop: ast.AST) -> bool:
    """Whether a loop iterates a list literal, i.e. settings."""
    return isinstance(loop, ast.For) and isinstance(loop.iter, (ast.List, ast.Tuple, ast.Dict, ast.Set))


def _iteration_count(source: Source, over: ast.expr, depth: int) -> int | None:
    if not depth:
        return None
    if isinstance(over, (ast.List, ast.Tuple, ast.Set)):
        return None if any(isinstance(e, ast.Starred) for e in over.elts) else len(over.elts)
    if isinstance(over, ast.Dict):
        return len(over.keys)
    if not isinstance(over, ast.Call):
        return row_count(source, over, depth - 1)
    name = node_lookup.called_name(over)
    if name in ("enumerate", "tqdm", "list", "sorted", "reversed", "items", "keys", "values"):
        inner = over.args[0] if over.args else over.func.value if isinstance(over.func, ast.Attribute) else None
        return _iteration_count(source, inner, depth - 1) if inner is not None else None
    if name in ("range", "trange"):
        bounds = [literal_int(source, a, depth - 1) for a in over.args]
        if not bounds or None in bounds or (len(bounds) == 3 and not bounds[2]):
            return None
        return len(range(*[b for b in bounds if b is not None]))
    made = generator_function(source, over)
    if made is None:
        return row_count(source, over, depth - 1)
    loops = [n for n in scope_names.nodes_in_scope(scope_names.scope_body(made)) if isinstance(n, (ast.For, ast.While))]
    if len(loops) != 1 or not isinstance(loops[0], ast.For) or not isinstance(loops[0].iter, ast.Call):
        return None
    inside = loops[0].iter
    if len(inside.args) == 1 and isinstance(inside.args[0], ast.Name) and node_lookup.called_name(inside) == "range":
        given = value_kinds.argument_in(made, over, inside.args[0].id)
        if given is not None:
            return literal_int(source, given, depth - 1)
    return _iteration_count(source, inside, depth - 1)


def length_queries(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that query a length: ``len(x)``, ``x.shape``."""
    for one in syntax_tree.walk(node):
        if (isinstance(one, ast.Call) and node_lookup.called_name(one) == "len") or (
            isinstance(one, ast.Attribute) and one.attr == "shape"
        ):
            yield one


def repeating_loop(source: Source, node: ast.AST, least: int, depth: int = 3) -> ast.AST | None:
    """The loop around ``node``, or around a call of its function, that may take ``least`` turns; else None.

    Also the items of a call that receives the function and runs it for each.
    """
    for loop in enclosing_loops(source, node):
        known = loop_turns(source, loop)
        if known is None or known >= least:
            return loop
    for items in higher_order_calls.applied_items(source, node):
        known = _iteration_count(source, items, MAX_DEPTH)
        if known is None or known >= least:
            return items
    function = node_lookup.enclosing_function(source, node)
    if function is None or not depth:
        return None
    for call in call_index.index_of(source).called(function.name):
        found = (
            repeating_loop(source, call, least, depth - 1)
            if function is not node_lookup.enclosing_function(source, call)
            else None
        )
        if found is not None:
            return found
    return None


def enclosing_loops(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    """Loops and comprehensions around ``node`` in its function that repeat it, the innermost first."""
    above = node_lookup.parents_of(source)
    child, at = node, above.get(node)
    while at is not None and not isinstance(at, node_lookup.SCOPE_NODES):
        if isinstance(at, ast.While) or (isinstance(at, (ast.For, ast.AsyncFor)) and child in at.body):
            yield at
        elif isinstance(at, scope_names.COMPREHENSIONS):
            yield from (g for g in at.generators if child is not g)
        child, at = at, above.get(at)
