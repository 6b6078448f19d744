"""Batches that a loop of steps puts together of Python's lists, or hands to TensorFlow as a list of arrays.

TensorFlow goes through both number by number, at some 0.4 µs each; NumPy through lists only, at a fifth of that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from slowtrain.script.evaluators import literal_sizes, setting_origins, value_kinds
from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import element_sizes, whole_pipelines
from slowtrain.script.properties import handwritten_steps
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.input import feeding_by_hand
from slowtrain.source.spots.input import turns
from slowtrain.values import dataclass

MANY = 2048  # numbers: nearly a millisecond
QUICKER = 8  # times, NumPy's own conversion of lists
LEAST_BATCH = 8  # samples, assumed where their number is not visible
NUMPYS = frozenset({"numpy.array", "numpy.asarray", "numpy.stack"})
DEPTH = 4


@dataclass(frozen=True)
class Listed:
    """``call`` converts ``numbers`` at least, of ``what``."""

    call: ast.Call
    numbers: int
    what: str


def converted(source: Source, steps: handwritten_steps.StepLoop) -> Iterator[Listed]:
    """Conversions of lists of lists, and of arrays, in every turn: in the loop, what it calls and goes through."""
    blocks: list[list[ast.AST]] = [list(handwritten_steps.statements_per_turn(steps.loop))]
    blocks += [
        list(handwritten_steps.statements_per_turn(made))
        for _, made in handwritten_steps.functions_per_turn(source, steps)
    ]
    made = _generator(source, steps.loop)
    blocks += [turns.turning(made)] if made is not None else []
    for call in (c for one in blocks for c in whole_pipelines.calls_in(one)):
        full = name_bindings.qualified_name(source, call.func) or scope_names.resolved_name(source, call.func)
        ours = full in feeding_by_hand.CONVERSIONS and node_lookup.called_name(call) != "cast"
        if not call.args or not (ours or full in NUMPYS):
            continue
        found = _listed(source, call.args[0], arrays=ours)
        if found is not None and found[0] >= (MANY if ours else MANY * QUICKER):
            yield Listed(call, *found)


def _generator(source: Source, loop: ast.For | ast.While) -> ast.FunctionDef | None:
    """The generator of this file that a loop goes through: a function, a method, an object's ``__iter__``."""
    over = loop.iter if isinstance(loop, ast.For) else None
    while isinstance(over, ast.Call) and node_lookup.called_name(over) in ("enumerate", "iter", "tqdm") and over.args:
        over = over.args[0]
    made = (
        node_lookup.function_named(source, node_lookup.called_name(over), over) if isinstance(over, ast.Call) else None
    )
    if made is None and over is not None and "__iter__" in source.text:
        holder = setting_origins.instance_class(source, over)
        found = class_members.own_method(holder, "__iter__") if holder is not None else None
        made = found if isinstance(found, ast.FunctionDef) else None
    yields = made is not None and any(isinstance(n, ast.Yield) for n in scope_names.nodes_in_scope(made.body))
    return made if yields else None


def _listed(source: Source, given: ast.expr, *, arrays: bool) -> tuple[int, str] | None:
    """How many numbers are in a list that is made for each batch, at least, and what it is a list of."""
    if isinstance(given, ast.Call) and given.args and scope_names.dotted_name(given.func) == "list":
        given = given.args[0]
    if isinstance(given, ast.Name):
        held = name_bindings.single_assignment(source, given)
        given = held if held is not None else given
    if not isinstance(given, (ast.ListComp, ast.GeneratorExp)) or len(given.generators) != 1:
        return None
    count = literal_sizes.loop_turns(source, given.generators[0]) or LEAST_BATCH
    several = list(_made(source, given.elt, DEPTH))
    what = "Python's lists" if several and all(_is_list(one) for one in several) else ""
    if not what and arrays and several and all(_is_array(source, one) for one in several):
        what = "arrays"
    each = [_numbers(source, one) for one in several]
    if not what or None in each:
        return None
    return count * min(n for n in each if n is not None), what


def _numbers(source: Source, value: ast.expr) -> int | None:
    """How many numbers a list or an array of several has, as far as is known."""
    of = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else None
    shape = literal_sizes.literal_shape(source, value)
    if shape is None and isinstance(value, ast.Subscript):
        whole = literal_sizes.literal_shape(source, value.value)
        shape = whole[1:] if whole is not None else None
    if shape is None and of is not None and node_lookup.called_name(value) in ("tolist", "astype"):  # type: ignore[arg-type]
        shape = literal_sizes.literal_shape(source, of)
    return prod(n for n in shape if n is not None) if shape else None


def _is_array(source: Source, value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        return _is_array(source, value.left) or _is_array(source, value.right)
    drawn = isinstance(value, ast.Call) and node_lookup.called_name(value) in element_sizes.FLOAT_DRAWS
    framework = isinstance(value, ast.Call) and name_bindings.qualified_name(source, value.func).startswith(
        ("tensorflow.", "keras.")
    )
    return value_kinds.kind_of(source, value) == value_kinds.ARRAY or (drawn and not framework)


def _is_list(value: ast.expr) -> bool:
    made = isinstance(value, ast.Call) and node_lookup.called_name(value) in ("tolist", "list")
    return made or isinstance(value, (ast.ListComp, ast.List))


def _made(source: Source, node: ast.expr, depth: int) -> Iterator[ast.expr]:
    """The expressions that made what an element of the list is: an attribute, an entry, a row."""
    if not depth:
        return
    if isinstance(node, ast.Attribute):
        yield from _of_attribute(source, node.attr)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        yield from _of_key(source, node.slice.value)
    elif isinstance(node, ast.Subscript) and isinstance(node.value, (ast.Name, ast.Attribute)):
        held = setting_origins.written_value(source, node.value)
        if isinstance(held, ast.ListComp):
            yield held.elt
        elif held is not None and value_kinds.kind_of(source, held) == value_kinds.ARRAY:
            yield node
    elif isinstance(node, ast.Call):
        yield node


def _of_attribute(source: Source, name: str) -> Iterator[ast.expr]:
    """What attributes of this name are given, in constructors of their own or by the calls of a data class."""
    for stored in class_members.attribute_stores(source, name):
        value = name_bindings.assigned_value(source, stored)
        yield value if value is not None else stored
    for kind in class_members.class_definitions(source):
        fields = class_members.dataclass_fields(source, kind)
        for call in class_members.constructor_calls(source, kind) if name in fields else ():
            given = node_lookup.argument_value(call, name, fields.index(name))
            yield given if given is not None else call


def _of_key(source: Source, name: str) -> Iterator[ast.expr]:
    """What stands under a key in the mappings that are written in the file."""
    for node in call_index.nodes_of_kind(source, ast.Dict):
        assert isinstance(node, ast.Dict)
        pairs = zip(node.keys, node.values, strict=True)
        yield from (value for key, value in pairs if isinstance(key, ast.Constant) and key.value == name)
    for call in call_index.index_of(source).called("dict"):
        yield from (k.value for k in call.keywords if k.arg == name)
