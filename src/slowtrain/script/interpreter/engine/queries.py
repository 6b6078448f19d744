"""Questions about a script that the interpreter's run answers: values of expressions, iterations of loops, callees.

An answer holds in all executions of a place. None: it is unknown, or the place is never executed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import prod

from slowtrain.script.interpreter.domain import operators, shape_rules
from slowtrain.script.interpreter.domain.abstract_values import NOT_KNOWN, Shape, Value
from slowtrain.script.interpreter.domain.call_events import Loop
from slowtrain.script.interpreter.engine import call_resolution, interpreter
from slowtrain.script.interpreter.engine.interpreter import value_at
from slowtrain.script.navigation import (
    call_arguments,
    call_index,
    class_members,
    name_bindings,
    node_lookup,
    scope_names,
)
from slowtrain.script.navigation.class_members import Function
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent

TENSOR, ARRAY, NUMBER, CONSTANT, UNKNOWN = "tensor", "array", "number", "constant", "unknown"  # NUMBER: it may change
SAME_ROWS_FUNCTIONS = frozenset("astype copy array asarray convert_to_tensor constant cast".split())
# Methods of objects of Python, Keras and NumPy: such a call need not mean a class of the file with this method.
COMMON_METHODS = frozenset(n for kind in (dict, list, set, str, bytes, int) for n in vars(kind)) | frozenset(
    "fit predict evaluate compile save build call load read write close open run train test reset next".split()
)
MAX_FEW_TURNS = 10  # iterations of a loop over settings, which does a thing few times


def constant_at(source: Source, node: ast.expr | None) -> object:
    """The number, text or truth that an expression is in every execution; None if unknown."""
    if isinstance(node, ast.Constant):
        return node.value
    found = value_at(source, node) if node is not None else None
    return found.known if found is not None and found.known is not NOT_KNOWN and not found.varies else None


def int_at(source: Source, node: ast.expr | None) -> int | None:
    """The int that an expression is; None if unknown."""
    known = constant_at(source, node)
    return known if isinstance(known, int) and not isinstance(known, bool) else None


def kind_at(source: Source, node: ast.expr) -> str:
    """The kind of an expression's value: one of the constants above."""
    found = value_at(source, node)
    if isinstance(node, ast.Constant) or found.kind == "none":
        return CONSTANT
    if found.kind in ("tensor", "variable"):
        return TENSOR
    if found.kind == "array":
        return ARRAY
    if found.kind in ("tuple", "dict") and found.items:  # an element of a data set
        parts = [one for one in found.nested_values() if one.kind not in ("tuple", "list", "dict")]
        return TENSOR if all(one.kind in ("tensor", "variable") for one in parts) else UNKNOWN
    known = found.known is not NOT_KNOWN and not found.varies
    return CONSTANT if known and found.kind in ("number", "text") else NUMBER if found.kind == "number" else UNKNOWN


def is_float32(source: Source, node: ast.expr) -> bool:
    """Whether an expression surely holds float32, or is a tensor."""
    return kind_at(source, node) == TENSOR or value_at(source, node).dtype == "float32"


def shape_at(source: Source, node: ast.expr | None) -> Shape | None:
    """The shape of an array, a tensor or a list, with None for unknown sizes; None if its rank is unknown."""
    found = value_at(source, node) if node is not None else None
    return shape_rules.shape_of(found) if found is not None and found.kind not in ("number", "tuple") else None


def row_count_at(source: Source, node: ast.expr | None, depth: int = 8) -> int | None:
    """The number of samples of an array or a list, or its minimum."""
    if node is None or not depth:
        return None
    found = value_at(source, node)
    if found.kind in ("text", "dataset"):
        return None
    rows = found.shape[0] if found.shape else operators.minimum_length(found)
    if rows is not None or found.kind in ("list", "dict", "tuple"):
        return rows
    return _written_row_count(source, node, depth - 1)


def _written_row_count(source: Source, node: ast.expr, depth: int) -> int | None:
    """The rows of an array of unknown shape by what makes it: ``x[None]``, ``x[i : i + n]``, ``x.reshape(1, -1)``."""
    if isinstance(node, ast.Name):
        bound = name_bindings.bindings_of(name_bindings.binding_scope(source, node, node.id), node.id)
        values = [name_bindings.assigned_value(source, one) if isinstance(one, ast.Name) else None for one in bound]
        counts = {row_count_at(source, one, depth) for one in values}
        return counts.pop() if len(counts) == 1 else None
    if isinstance(node, (ast.List, ast.Tuple)) and not any(isinstance(e, ast.Starred) for e in node.elts):
        return len(node.elts)
    if isinstance(node, ast.Subscript):
        first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
        count = call_resolution.slice_length_node(first) if isinstance(first, ast.Slice) else None
        return 1 if name_bindings.is_new_axis(source, first) else int_at(source, count)
    name = node_lookup.called_name(node) if isinstance(node, ast.Call) else ""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return None
    method = not name_bindings.qualified_name(source, node.func)
    if name in SAME_ROWS_FUNCTIONS:
        return row_count_at(source, node.func.value if method else node.args[0], depth)
    if name == "expand_dims":
        return 1 if int_at(source, node_lookup.argument_value(node, "axis", 1)) == 0 else None
    sizes = node.args if method else node.args[1:]
    sizes = sizes[0].elts if sizes and isinstance(sizes[0], (ast.Tuple, ast.List)) else sizes
    rows = int_at(source, sizes[0]) if name == "reshape" and sizes else None
    return rows if rows is None or rows >= 0 else None


def loop_turns(source: Source, loop: ast.AST) -> int | None:
    """The number of iterations of a loop, or its minimum; None if unknown or if it is executed with several numbers."""
    known = _turns_by_loop(source).get(loop)
    if known is not None:
        return next(iter(known)) if len(known) == 1 else None
    return row_count_at(source, loop.iter) if isinstance(loop, (ast.For, ast.comprehension)) else None


def has_few_turns(source: Source, loop: ast.AST) -> bool:
    """Whether a loop is known to have few iterations; a loop over a data set repeats in each epoch."""
    if isinstance(loop, ast.For) and is_dataset(source, loop.iter):
        return False
    known = loop_turns(source, loop)
    return known is not None and known <= MAX_FEW_TURNS


@cache_recent(4)
def _turns_by_loop(source: Source) -> dict[ast.AST, set[int | None]]:
    turns: dict[int, int | None] = {}
    for event in interpreter.project_events(source):
        inner = event.begun
        if inner is not None:
            loose = inner.turns or is_lengthened(source, inner.items, event.loops[:-1])
            turns[inner.number] = inner.turns if loose else operators.minimum_length(inner.items)
        outer = event.loops[-2] if inner is not None and len(event.loops) > 1 else None
        if inner is not None and outer is not None and _yields_in(outer.items, inner.node):
            turns[outer.number] = turns.get(inner.number)
    found: dict[ast.AST, set[int | None]] = {}
    for event in interpreter.project_events(source):
        one = event.begun
        if one is not None and one.source is source:
            found.setdefault(one.node, set()).add(turns[one.number])
    return found


def is_lengthened(source: Source, value: Value, loops: Iterable[Loop]) -> bool:
    """Whether these loops add to a list from before them, so that its length in an iteration is unknown."""
    numbers = {one.number for one in loops} - set(value.born)
    return value.kind == "list" and bool(numbers & _lengthening_loops(source).get(id(value.items), frozenset()))


@cache_recent(4)
def _lengthening_loops(source: Source) -> dict[int, frozenset[int]]:
    """The loops around all that adds to a list, by the identity of its items."""
    found: dict[int, frozenset[int]] = {}
    for event in interpreter.project_events(source):
        if event.name in (".append", ".extend") and event.on is not None and event.on.kind == "list":
            key = id(event.on.items)
            found[key] = found.get(key, frozenset()) | {one.number for one in event.loops}
    return found


def _yields_in(items: Value, loop: ast.AST) -> bool:
    """Whether a generator yields in this loop, the only one that it has, so that both have the same iterations."""
    if items.kind != "generator" or items.node is None or not isinstance(loop, (ast.For, ast.While)):
        return False
    inside = list(syntax_tree.walk(items.node))
    yields = [n for n in inside if isinstance(n, (ast.Yield, ast.YieldFrom))]
    loops = [n for n in inside if isinstance(n, (ast.For, ast.While))]
    return loops == [loop] and len(yields) == 1 and yields[0] in syntax_tree.walk(loop)


def object_class_at(source: Source, node: ast.expr | None) -> ast.ClassDef | None:
    """The class of this file whose object an expression gives."""
    found = value_at(source, node) if node is not None else None
    kind = found.of.node if found is not None and found.kind == "object" and found.of is not None else None
    return kind if isinstance(kind, ast.ClassDef) and kind in class_members.class_definitions(source) else None


def call_method_at(source: Source, node: ast.expr) -> ast.FunctionDef | None:
    """The ``__call__`` of the object that an expression gives, if its class is in this file."""
    kind = object_class_at(source, node)
    method = class_members.own_method(kind, "__call__") if kind is not None else None
    return method if isinstance(method, ast.FunctionDef) else None


def dataset_at(source: Source, node: ast.expr | None) -> Value | None:
    """The data set that an expression gives; its ``data`` holds "rows", "batch" and "iterations"."""
    found = value_at(source, node) if node is not None else None
    return found if found is not None and found.kind == "dataset" and isinstance(found.data, dict) else None


def is_dataset(source: Source, node: ast.expr) -> bool:
    """Whether an expression gives a data set or an iterator of one."""
    return value_at(source, node).kind == "dataset"


def is_endless(dataset: Value) -> bool:
    """Whether a data set repeats without end."""
    repeats = [one.given.get("count", 0) for one in dataset.stages if one.name == "repeat"]
    return any(one.known in (None, -1) or (one.kind == "unknown" and one.known is NOT_KNOWN) for one in repeats)


def called_function(source: Source, call: ast.Call) -> Function | None:
    """The function of this file that ``call`` runs; None if that is not certain."""
    known = interpreter.called_functions(source)
    if call not in known and value_at(source, call).kind == "unknown" and call not in known:
        return _function_by_name(source, call)
    several = known.get(call, set())
    one = next(iter(several)) if len(several) == 1 else None
    return one if isinstance(one, FUNCTION_NODES) else None


def _function_by_name(source: Source, call: ast.Call) -> Function | None:
    """The only function of this file with the name of an unknown callee; of methods, none that libraries have too."""
    if isinstance(call.func, ast.Name):
        found = node_lookup.function_named(source, call.func.id, call)
        return None if found is None or class_members.is_method(source, found) else found
    if not isinstance(call.func, ast.Attribute) or call.func.attr in COMMON_METHODS:
        return None
    found = node_lookup.function_named(source, call.func.attr)
    return found if found is not None and class_members.is_method(source, found) else None


def calls_running(source: Source, function: Function) -> list[ast.Call]:
    """The calls of this file that run a function."""
    several = [*call_index.index_of(source).calls_of(function.name), *interpreter.called_functions(source)]
    return [call for call in dict.fromkeys(several) if called_function(source, call) is function]


def loops_running(source: Source, node: ast.AST, depth: int = 3) -> Iterator[tuple[ast.For | ast.While, ast.stmt]]:
    """The loops that run ``node`` in every iteration, in its function or its callers, each with the statement there.

    Goes up from a node and stops at anything that decides whether it runs: an ``if``, a loop without iterations.
    """
    above = node_lookup.parents_of(source)
    child: ast.AST = node
    at = above.get(node)
    while at is not None:
        if isinstance(at, (ast.For, ast.While)) and isinstance(child, ast.stmt) and child in at.body:
            yield at, child
            return
        if isinstance(at, (ast.If, ast.Try, ast.IfExp, ast.Lambda, ast.ClassDef, *scope_names.COMPREHENSIONS)):
            return
        if isinstance(at, FUNCTION_NODES):
            for call in calls_running(source, at) if depth else ():
                yield from loops_running(source, call, depth - 1)
            return
        child, at = at, above.get(at)


def repeating_loop(source: Source, node: ast.AST, least: int, depth: int = 3) -> ast.AST | None:
    """The loop around ``node``, or around a call of its function, that may have ``least`` iterations; else None.

    Also the items of a call that receives the function and runs it for each.
    """
    for loop in scope_names.loops_and_comprehensions(source, node):
        known = loop_turns(source, loop)
        if known is None or known >= least:
            return loop
    for items in call_arguments.applied_items(source, node):
        known = row_count_at(source, items)
        if known is None or known >= least:
            return items
    function = node_lookup.enclosing_function(source, node)
    if function is None or not depth:
        return None
    for call in call_index.index_of(source).calls_of(function.name):
        found = (
            repeating_loop(source, call, least, depth - 1)
            if function is not node_lookup.enclosing_function(source, call)
            else None
        )
        if found is not None:
            return found
    return None


Rank = tuple[str, int]  # name of the array of unknown rank or "", and the rank relative to it
SCALAR: Rank = ("", 0)


def array_rank(source: Source, node: ast.expr) -> Rank | None:
    """The rank of an array: ("", n), or (name, n) relative to the unknown rank of a name. None if unknown."""
    found = interpreter.value_at(source, node)
    if found.kind == "number":
        return SCALAR
    if found.kind == "array" and found.shape is not None:
        return ("", len(found.shape))
    if not isinstance(node, ast.Name):
        return None
    where = name_bindings.binding_scope(source, node, node.id)
    bound = name_bindings.bindings_of(where, node.id)
    holders = [node_lookup.parents_of(source).get(one) for one in bound]
    loop = holders[0] if len(holders) == 1 else None
    if isinstance(loop, (ast.For, ast.comprehension)):
        over = array_rank(source, loop.iter) if loop.target is bound[0] else None
        return (over[0], over[1] - 1) if over is not None else None
    like = _array_of_same_shape(loop.value) if isinstance(loop, ast.Assign) and loop.targets == [*bound] else None
    if like is not None:
        return array_rank(source, like)
    plain = len(bound) == 1 and (isinstance(bound[0], ast.arg) or isinstance(loop, ast.Assign))
    return (node.id, 0) if plain or found.kind == "array" else None


def _array_of_same_shape(node: ast.expr) -> ast.expr | None:
    """``x`` of ``np.empty(x.shape)`` and ``np.zeros_like(x)``."""
    first = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if isinstance(first, ast.Attribute) and first.attr == "shape":
        return first.value
    return first if isinstance(node, ast.Call) and node_lookup.called_name(node).endswith("_like") else None


def is_array(source: Source, name: ast.Name) -> bool:
    """Whether ``name`` holds a NumPy array: created by NumPy, or its shape is read in the same scope."""
    if kind_at(source, name) == ARRAY:
        return True
    found = array_rank(source, name)
    if found is not None and not found[0] and found[1] > 0:
        return True
    scope = call_arguments.binding_function(source, name)
    shapes = (
        [n for n in syntax_tree.walk(scope) if isinstance(n, ast.Attribute) and n.attr in ("shape", "ndim")]
        if scope
        else []
    )
    return any(isinstance(n.value, ast.Name) and n.value.id == name.id for n in shapes)


def is_keras_object(value: Value | None, name: str) -> bool:
    """Whether a value is an object of the Keras class with this full name."""
    return value is not None and value.kind == "keras" and value.name == name


def least_turns(loops: Iterable[Loop]) -> int:
    """The number of iterations of nested loops together; a loop whose iterations and items are unknown counts once."""
    return prod(loop.turns or operators.minimum_length(loop.items) or 1 for loop in loops)
