"""Python's tools for functions and mappings: ``partial_value``, ``reduce``, ``dict``, loops over functions."""

from __future__ import annotations

import ast
from typing import Any

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import UNKNOWN, CallArgs, Value, number_value
from slowtrain.script.interpreter.domain.run_context import RunContext
from slowtrain.script.navigation import scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import cache_recent

MAX_UNROLLED_ITEMS = 16
CALLABLE_KINDS = ("function", "method", "graph", "partial")
EMPTY_KINDS = {"list": "list", "dict": "dict", "set": "list"}


@cache_recent(4096)
def is_generator(function: ast.AST) -> bool:
    """Whether a function of the script is a generator function."""
    return any(
        isinstance(n, (ast.Yield, ast.YieldFrom)) for n in scope_names.nodes_in_scope(scope_names.scope_body(function))
    )


def unrolled_items(items: Value, node: ast.For) -> list[Value]:
    """The items of a loop over callables, or over names for ``getattr``, since each does something else.

    Empty for any other loop.
    """
    several = _known_items(items)
    if several and all(one.kind in CALLABLE_KINDS or _is_callable_object(one) for one in several):
        return several
    names = scope_names.bound_names(node.target)
    if several and all(isinstance(one.known, str) for one in several) and names:
        asked = (n for one in node.body for n in syntax_tree.walk(one) if isinstance(n, ast.Call))
        looked_up = (
            scope_names.read_names(n.args[1])
            for n in asked
            if scope_names.dotted_name(n.func) == "getattr" and len(n.args) == 2
        )
        return several if any(names & read for read in looked_up) else []
    return []


def _known_items(items: Value) -> list[Value]:
    """The items if there are several and each is known; else empty."""
    closed = items.kind in ("list", "tuple") and None not in items.items and items.data != "open"
    return list(items.items.values()) if closed and 1 < len(items.items) <= MAX_UNROLLED_ITEMS else []


def _is_callable_object(one: Value) -> bool:
    return one.kind == "object" and operators.find_attribute(one, "__call__") is not None


def partial_value(_: RunContext, given: CallArgs) -> Value:
    """The value of ``functools.partial``."""
    if not given.args:
        return UNKNOWN
    function = given.args[0]
    return Value("partial", name=function.name, of=function, data=CallArgs(given.node, given.args[1:], given.keywords))


def full_arguments(made: Value, given: CallArgs) -> CallArgs:
    """All arguments of the function behind a ``partial_value``."""
    held: CallArgs = made.data
    return CallArgs(given.node, [*held.args, *given.args], {**held.keywords, **given.keywords})


def reduce_result(machine: RunContext, given: CallArgs) -> Value:
    """``reduce(f, items, first)`` if the items are known one by one."""
    several = _known_items(given.get("", 1))
    if not several:
        return UNKNOWN
    found, rest = (given.args[2], several) if len(given.args) > 2 else (several[0], several[1:])
    for one in rest:
        found = machine.call(given.args[0], CallArgs(given.node, [found, one]))
    return found


def dict_value(machine: RunContext, given: CallArgs) -> Value:
    """``dict(pairs, name=…)``."""
    items: dict[Any, Value] = dict(given.keywords)
    if given.args:
        first = given.args[0]
        pairs = [one for one in _known_items(first) if one.kind == "tuple"]
        if first.kind == "dict":
            items = {**first.items, **items}
        elif pairs and all(isinstance(operators.item_value(one, 0).known, (str, int)) for one in pairs):
            items = {**{operators.item_value(one, 0).known: operators.item_value(one, 1) for one in pairs}, **items}
        else:
            with machine.enter_loop(given.node, None, first) as loop:
                one = machine.each(first, loop, given.node)
            items[None] = operators.item_value(one, 1) if one.kind == "tuple" else UNKNOWN
    return Value("dict", items=items, born=machine.born())


def defaultdict_value(machine: RunContext, given: CallArgs) -> Value:
    """``defaultdict(list)``: every key exists."""
    made = given.get("", 0).name
    held = (
        number_value(made) if made in ("int", "float") else Value(EMPTY_KINDS.get(made, "unknown"), born=machine.born())
    )
    return Value("dict", items={None: held}, born=machine.born())
