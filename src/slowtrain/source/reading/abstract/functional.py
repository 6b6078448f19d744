"""Python's tools for functions and mappings: ``partial``, ``reduce``, ``dict``, loops over functions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from slowtrain.source import kept, trees
from slowtrain.source.reading import scopes
from slowtrain.source.reading.abstract import things
from slowtrain.source.reading.abstract.values import UNKNOWN, Given, Value, number

if TYPE_CHECKING:
    from slowtrain.source.reading.abstract.machine import Machine

MOST_APART = 16
CALLED = ("function", "method", "graph", "partial")
EMPTY = {"list": "list", "dict": "dict", "set": "list"}


@kept(4096)
def yields(function: ast.AST) -> bool:
    """Whether a function of the script is a generator function."""
    return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in scopes.own(scopes.body(function)))


def apart(items: Value, node: ast.For) -> list[Value]:
    """The items of a loop over callables, or over names for ``getattr``, since each does something else.

    Empty for any other loop.
    """
    several = _known(items)
    if several and all(one.kind in CALLED or _calls(one) for one in several):
        return several
    names = scopes.bound(node.target)
    if several and all(isinstance(one.known, str) for one in several) and names:
        asked = (n for one in node.body for n in trees.walk(one) if isinstance(n, ast.Call))
        looked_up = (scopes.read(n.args[1]) for n in asked if scopes.dotted(n.func) == "getattr" and len(n.args) == 2)
        return several if any(names & read for read in looked_up) else []
    return []


def _known(items: Value) -> list[Value]:
    """The items if there are several and each is known; else empty."""
    closed = items.kind in ("list", "tuple") and None not in items.items and items.data != "open"
    return list(items.items.values()) if closed and 1 < len(items.items) <= MOST_APART else []


def _calls(one: Value) -> bool:
    return one.kind == "object" and things.attribute_of(one, "__call__") is not None


def partial(_: Machine, given: Given) -> Value:
    """The value of ``functools.partial``."""
    if not given.args:
        return UNKNOWN
    function = given.args[0]
    return Value("partial", name=function.name, of=function, data=Given(given.node, given.args[1:], given.keywords))


def whole(made: Value, given: Given) -> Given:
    """All arguments of the function behind a ``partial``."""
    held: Given = made.data
    return Given(given.node, [*held.args, *given.args], {**held.keywords, **given.keywords})


def reduced(machine: Machine, given: Given) -> Value:
    """``reduce(f, items, first)`` if the items are known one by one."""
    several = _known(given.get("", 1))
    if not several:
        return UNKNOWN
    found, rest = (given.args[2], several) if len(given.args) > 2 else (several[0], several[1:])
    for one in rest:
        found = machine.call(given.args[0], Given(given.node, [found, one]))
    return found


def mapping(machine: Machine, given: Given) -> Value:
    """``dict(pairs, name=…)``."""
    items: dict[Any, Value] = dict(given.keywords)
    if given.args:
        first = given.args[0]
        pairs = [one for one in _known(first) if one.kind == "tuple"]
        if first.kind == "dict":
            items = {**first.items, **items}
        elif pairs and all(isinstance(things.item(one, 0).known, (str, int)) for one in pairs):
            items = {**{things.item(one, 0).known: things.item(one, 1) for one in pairs}, **items}
        else:
            with machine.looping(given.node, None, first) as loop:
                one = machine.each(first, loop, given.node)
            items[None] = things.item(one, 1) if one.kind == "tuple" else UNKNOWN
    return Value("dict", items=items, born=machine.born())


def defaulting(machine: Machine, given: Given) -> Value:
    """``defaultdict(list)``: every key exists."""
    made = given.get("", 0).name
    held = number(made) if made in ("int", "float") else Value(EMPTY.get(made, "unknown"), born=machine.born())
    return Value("dict", items={None: held}, born=machine.born())
