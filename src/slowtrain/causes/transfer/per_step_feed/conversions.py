"""Conversions between the steps of a loop, in it or in functions that it calls: of unchanged data, and of lists.

A list of arrays is converted number by number as Python objects, one array of them in a single copy.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from slowtrain.script.fixes.input import hoisted_conversions
from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.navigation import call_arguments, class_members, node_lookup, scope_names, setting_origins
from slowtrain.script.pipelines import whole_pipelines
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

MIN_NUMBERS = 16_384  # numbers, 64 KB: less is converted in some 20 µs
MIN_RECORDS = 256  # at some 0.1 µs a look-up, and as much for each number in it
CONVERTING_FUNCTIONS = frozenset(
    {"numpy.array", "numpy.asarray", "numpy.stack", *hoisted_conversions.CONVERSION_FUNCTIONS}
)
MAX_NAME_DEPTH = 4


class NeedlessConversion(Struct, frozen=True):
    call: ast.Call
    says: str
    cure: str
    same: bool = False  # the same data in every iteration


def find_needless_conversions(source: Source) -> Iterator[NeedlessConversion]:
    """Conversions in every step of data that no step changes, and of lists that each step makes."""
    for steps in step_loops.step_loops_of(source):
        if queries.has_few_turns(source, steps.loop):
            continue
        for call in _conversions_per_iteration(source, steps):
            name, given = node_lookup.called_name(call), call.args[0]
            if _is_unchanged_in_loop(source, steps, given):
                says = f"{name} converts the same data again in every iteration, between two steps"
                yield NeedlessConversion(call, says, "convert once before the loop", same=True)
            elif _is_new_list_of_arrays(source, given):
                says = f"{name} converts this list of arrays number by number, in every iteration"
                yield NeedlessConversion(
                    call, says, "make one array of the list first with np.asarray(), or use an array from the start"
                )
        record = next(_record_conversions(source, steps), None)
        if record is not None:
            yield record


def _record_conversions(source: Source, steps: step_loops.StepLoop) -> Iterator[NeedlessConversion]:
    """``np.array([r["x"] for r in rows])`` of many records in every iteration."""
    blocks = [list(step_loops.statements_per_turn(steps.loop))]
    blocks += [list(step_loops.statements_per_turn(made)) for _, made in step_loops.functions_per_turn(source, steps)]
    for call in (c for one in blocks for c in whole_pipelines.calls_in(one)):
        inner = call.args[0] if call.args else None
        if scope_names.resolved_name(source, call.func) not in CONVERTING_FUNCTIONS or not isinstance(
            inner, ast.ListComp
        ):
            continue
        many = queries.loop_turns(source, inner.generators[0])
        if many is not None and many >= MIN_RECORDS and isinstance(inner.elt, (ast.Subscript, ast.Attribute)):
            says = f"each iteration takes its batch out of {many} records one by one"
            yield NeedlessConversion(
                call, says, "keep the records as columns, with one array for each, and take rows of these"
            )


def _conversions_per_iteration(source: Source, steps: step_loops.StepLoop) -> Iterator[ast.Call]:
    """Conversions in the loop and in functions of the file that it calls at least once in every iteration."""
    blocks: list[tuple[list[ast.stmt], ast.AST | None]] = [
        (list(step_loops.statements_per_turn(steps.loop)), steps.loop)
    ]
    blocks += [
        (list(step_loops.statements_per_turn(made)), None) for _, made in step_loops.functions_per_turn(source, steps)
    ]
    for statements, loop in blocks:
        for call in whole_pipelines.calls_in(statements):
            known = scope_names.resolved_name(source, call.func) in hoisted_conversions.CONVERSION_FUNCTIONS and bool(
                call.args
            )
            inner = scope_names.enclosing_loops(source, call)[:1]
            if known and node_lookup.called_name(call) != "cast" and (loop is None or inner == [loop]):
                yield call


def _is_unchanged_in_loop(source: Source, steps: step_loops.StepLoop, given: ast.expr) -> bool:
    """Whether it is an array bound before the loop and not in it, and not known to be small."""
    if isinstance(given, ast.Attribute):
        return class_members.is_self_attribute(given) and _is_made_in_constructor(source, given)
    inside = node_lookup.enclosing_function(source, given) is node_lookup.enclosing_function(source, steps.loop)
    if not isinstance(given, ast.Name) or not inside or given.id in scope_names.bound_names(steps.loop):
        return False
    function = node_lookup.enclosing_function(source, given)
    if function is not None and given.id in scope_names.declared_outer_names(function):
        return False
    return _is_large_array(source, given)


def _is_made_in_constructor(source: Source, given: ast.Attribute) -> bool:
    """Whether it is an array or a list, such as ``self.rows``, that only the constructor makes and fills."""
    stored = class_members.attribute_stores(source, given.attr)
    holder = class_members.enclosing_class(source, given)
    functions = [node_lookup.enclosing_function(source, n) for n in stored]
    if holder is None or len(stored) != 1 or functions[0] is None or functions[0].name != "__init__":
        return False
    if class_members.enclosing_class(source, stored[0]) is not holder or _is_changed(source, given.attr, functions[0]):
        return False
    value = setting_origins.written_value(source, given)
    filled = isinstance(value, ast.List) and given.attr in class_members.extended_names(source)
    return filled or (value is not None and _is_large_array(source, value))


def _is_changed(source: Source, name: str, constructor: ast.AST) -> bool:
    """Whether anything outside the constructor adds to an attribute."""
    for call in whole_pipelines.calls_in([source.tree]):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        filling = isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "extend", "insert", "shuffle")
        touched = [owner, *call.args] if filling else []
        mine = any(isinstance(n, ast.Attribute) and n.attr == name for n in touched)
        if mine and node_lookup.enclosing_function(source, call) is not constructor:
            return True
    return False


def _is_large_array(source: Source, node: ast.expr) -> bool:
    """Whether it is an array, or a list made of one, and not known to be small."""
    known = queries.shape_at(source, node)
    if known is not None and None not in known:
        return prod(n for n in known if n is not None) >= MIN_NUMBERS
    value = setting_origins.written_value(source, node) if isinstance(node, ast.Name) else node
    if isinstance(value, ast.Call) and node_lookup.called_name(value) == "tolist":
        return True
    return (
        value is not None
        and isinstance(value, (ast.Call, ast.BinOp))
        and queries.kind_at(source, value) == queries.ARRAY
    )


def _is_new_list_of_arrays(source: Source, given: ast.expr, depth: int = MAX_NAME_DEPTH) -> bool:
    """Whether it is a new list whose elements are more than numbers."""
    if isinstance(given, ast.Call):
        inner = given.args[0] if len(given.args) == 1 else None
        return scope_names.dotted_name(given.func) == "list" and inner is not None and _is_unzipped_list(source, inner)
    if not isinstance(given, ast.Name) or not depth:
        return False
    above = node_lookup.parents_of(source)
    outer: ast.AST | None = above.get(given)
    while outer is not None and not isinstance(outer, ast.stmt):
        for loop in getattr(outer, "generators", ()):
            if scope_names.dotted_name(loop.target) == given.id:
                return any(
                    _is_new_list_of_arrays(source, one, depth - 1) for one in _parts_of_varargs(source, loop.iter)
                )
        outer = above.get(outer)
    return False


def _parts_of_varargs(source: Source, over: ast.expr) -> list[ast.expr]:
    """The arguments for a function's ``*fields``: the parts of a tuple that another function returns."""
    function = node_lookup.enclosing_function(source, over)
    star = function.args.vararg if isinstance(function, FUNCTION_NODES) else None
    if function is None or star is None or scope_names.dotted_name(over) != star.arg:
        return []
    found: list[ast.expr] = []
    for call in call_arguments.function_calls(source, function):
        for given in call.args:
            inner = given.value if isinstance(given, ast.Starred) else None
            made = (
                node_lookup.function_named(source, node_lookup.called_name(inner), call)
                if isinstance(inner, ast.Call)
                else None
            )
            back = (
                [n.value for n in scope_names.nodes_in_scope(made.body) if isinstance(n, ast.Return)]
                if made is not None
                else []
            )
            if len(back) == 1 and isinstance(back[0], ast.Tuple):
                found += back[0].elts
            elif inner is None:
                found.append(given)
    return found


def _is_unzipped_list(source: Source, node: ast.expr) -> bool:
    """Whether it is one of the lists of ``a, b = zip(*(draw(i) for i in ...))``."""
    if not isinstance(node, ast.Name):
        return False
    function = node_lookup.enclosing_function(source, node)
    for statement in scope_names.binding_statements(source, node.id, function if function is not None else source.tree):
        value = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(value, ast.Call) and node_lookup.called_name(value) == "zip" and len(value.args) == 1:
            return isinstance(value.args[0], ast.Starred)
    return False
