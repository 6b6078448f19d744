"""The callee of a call, and the items of an iteration."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from slowtrain.source.reading.abstract import functional, library, things
from slowtrain.source.reading.abstract.events import Loop
from slowtrain.source.reading.abstract.values import EACH, NOTHING, UNKNOWN, Given, Value, joined, number

if TYPE_CHECKING:
    from slowtrain.source.reading.abstract.machine import Machine
    from slowtrain.source.reading.abstract.names import Scope

MADE_ONE_BY_ONE = ("list", "tuple", "rows", "generator")
REMEMBERING = ("functools.lru_cache", "functools.cache")
DESCRIPTORS = ("property", "staticmethod", "classmethod", "functools.cached_property")


def decorated(machine: Machine, node: ast.expr, made: Value, scope: Scope) -> Value:
    """A function with one of its decorators applied."""
    by = machine.value(node, scope)
    if by.kind == "graphing" or by.name == "tensorflow.function":
        settings = dict(by.data) if by.kind == "graphing" else {}
        return Value("graph", node=made.node, name=made.name, of=made, born=machine.born(), data=settings)
    if by.kind == "library" and by.name in DESCRIPTORS:
        return made.with_(dtype=by.name.rpartition(".")[2])
    if by.kind == "library" and by.name in REMEMBERING:
        return made.with_(dtype="remembered")
    if by.kind == "function":
        return called(machine, by, Given(node, [made]))
    if by.name == "numpy.vectorize":
        return Value("library", name=library.VECTORIZED, of=made, node=made.node)
    known = by.kind == "library" and by.name.startswith(("functools.", "contextlib.", "keras."))
    return made if known else UNKNOWN  # the decorator may do anything, e.g. numba compiles it


def called(machine: Machine, callee: Value, given: Given) -> Value:
    """The result of calling ``callee``; records the call."""
    if callee.kind == "partial" and callee.of is not None:
        return called(machine, callee.of, functional.whole(callee, given))
    name, on, function = callee.name, callee, callee
    if callee.kind == "method":
        if callee.of is None:
            owner = callee.data
            return noted(machine, f".{name}", owner, given, lambda: library.method(machine, owner, name, given))
        on, function = callee.data, callee.of
        given_too = Given(given.node, [on, *given.args], given.keywords)
    else:
        given_too = given
    gives: Callable[[], Value]
    if function.kind == "function":
        again = function.dtype == "remembered" and not given_too.varies & set(machine.depth())
        gives = lambda: _remembered(machine, function, given_too) if again else machine.run(function, given_too)  # noqa: E731
    elif function.kind == "graph":
        on, gives = function, lambda: _graph(machine, function, given_too)
    elif function.kind == "class":
        gives = lambda: _made(machine, function, given)  # noqa: E731
    elif function.kind == "library":
        gives = lambda: library.call(machine, name, given)  # noqa: E731
    elif function.kind == "keras":
        name, gives = "__call__", lambda: library.applied(function, given)
    elif function.kind == "object":
        method = things.attribute_of(function, "__call__") or things.attribute_of(function, "call")
        if method is None:
            return UNKNOWN.moving(given.varies)
        name, gives = "__call__", lambda: _applied(machine, method, given)
    else:
        handed(machine, given)
        name, gives = "", lambda: UNKNOWN.moving(given.varies)
    return noted(machine, name, on, given, gives)


def _remembered(machine: Machine, function: Value, given: Given) -> Value:
    """The result of a cached function: it runs at the first call with these arguments."""
    key = (bool(machine.silent), *(id(one) for one in given.every))
    if key not in function.items:
        with machine.once():
            function.items[key] = machine.run(function, given)
    return function.items[key]


def _applied(machine: Machine, method: Value, given: Given) -> Value:
    """The result of calling an object. A layer that a model is built of runs in the model's graph."""
    if method.name == "call" and isinstance(method.data, Value):
        _built(machine, method.data, given)
    if method.name != "call" or not any(one.name == "symbolic" for a in given.args for one in a.inside(2)):
        return called(machine, method, given)
    with machine.tracing():
        made = called(machine, method, given)
    return made.with_(kind="tensor", known=NOTHING, name="symbolic", items={}) if made.kind != "tuple" else made


def _built(machine: Machine, layer: Value, given: Given) -> None:
    """Runs ``build``, as Keras does before the first ``call``."""
    builds = things.attribute_of(layer, "build")
    if builds is None or "built" in layer.items:
        return
    layer.items["built"] = Value("number", True, name="bool")
    first = given.every[0] if given.every else UNKNOWN
    shape = library.attribute(first, "shape") if first.kind in ("tensor", "array") else UNKNOWN
    called(machine, builds, Given(given.node, [shape]))


def handed(machine: Machine, given: Given) -> None:
    """Runs functions of the script that an unknown callee receives, with unknown arguments."""
    for one in given.every:
        function = one.of if one.kind == "method" and one.of is not None else one
        if function.kind == "function":
            every = getattr(function.node, "args", None)
            count = len(every.posonlyargs) + len(every.args) if isinstance(every, ast.arguments) else 0
            machine.run(function, Given(given.node, [UNKNOWN] * count))


def noted(machine: Machine, name: str, on: Value | None, given: Given, gives: Callable[[], Value]) -> Value:
    """Runs a call and records it before the calls that it leads to."""
    place = len(machine.events)
    result = gives()
    machine.note(name, on, given, result, place)
    return result


def _graph(machine: Machine, graph: Value, given: Given) -> Value:
    """The result of a tf.function; its Python code runs when it is traced, at the first call."""
    key = "seen" if machine.silent else "traced"
    if key not in graph.data and graph.of is not None:
        graph.data[key] = UNKNOWN  # for a function that calls itself
        inside = Given(given.node, [library.tensor_of(a) for a in given.args],
                       {k: library.tensor_of(v) for k, v in given.keywords.items()})  # fmt: skip
        with machine.tracing():
            graph.data[key] = machine.run(graph.of, inside)
    return library.tensors(graph.data.get(key, UNKNOWN)).moving(given.deep | set(machine.depth()))


def _made(machine: Machine, kind: Value, given: Given) -> Value:
    """A new object of a class of the script."""
    made = Value("object", name=kind.name, of=kind, node=given.node, born=machine.born())
    constructor = things.attribute_of(made, "__init__")
    if constructor is not None:
        called(machine, constructor, given)
    elif isinstance(kind.node, ast.ClassDef):
        names = things.fields(kind)
        defaults = {n: v for n in names if (v := things.attribute_of(kind, n)) is not None}
        handed_over = dict(zip(names, given.args, strict=False)) | dict(given.keywords)
        for name, default in defaults.items():
            if default.kind == "field" and default.of is not None and name not in handed_over:
                defaults[name] = called(machine, default.of, Given(given.node))
        made.items.update(defaults | handed_over)
        after = things.attribute_of(made, "__post_init__")
        if after is not None:
            called(machine, after, Given(given.node))
    return made


def mapping(machine: Machine, node: ast.expr, held: Value, scope: Scope) -> Value:
    """Treats an unknown value as a mapping because it is used as one; its other items are unknown."""
    made = Value("dict", items={None: held}, varies=held.varies)
    if isinstance(node, ast.Name):
        machine.store(node, made, scope)
    return made


def element(machine: Machine, items: Value, loop: Loop, node: ast.AST) -> Value:
    """The value of a loop's target, which changes in each turn."""
    if items.kind in ("list", "tuple") and list(items.items) == [0]:
        return items.items[0]  # one turn
    found = any_of(machine, items, node)
    ended = {EACH}
    if items.kind in MADE_ONE_BY_ONE:  # ragged in turns of loops that have ended, or that yield the items
        before = {v for one in found.inside() for v in one.ragged} - set(machine.depth())
        ended |= {v for v in before if not machine.few(v)}
    running = frozenset(machine.depth()) - {loop.number} if items.kind in ("generator", "rows") else None
    return _another(found, loop, ended, running)


def _another(found: Value, loop: Loop, ended: set[int], running: frozenset[int] | None, depth: int = 3) -> Value:
    """The item, changing in the loop's turns. ``running``: the loops around an iteration over lazy items."""
    if found.kind in ("tuple", "dict") and depth:
        found = found.with_(items={k: _another(v, loop, ended, running, depth - 1) for k, v in found.items.items()})
    if running is not None and found.kind in ("number", "text") and _same(found, running):
        return found
    moving = found.moving((loop.number,))
    if moving.ragged & ended:
        moving = moving.with_(ragged=moving.ragged - ended | {loop.number})
    return moving if moving.known is NOTHING else moving.with_(known=NOTHING)


def _same(found: Value, running: frozenset[int]) -> bool:
    """Whether it is the same number or text in all turns: a constant, or from outside."""
    return found.varies <= running if found.varies else found.known is not NOTHING


def any_of(machine: Machine, items: Value, node: ast.AST) -> Value:
    """The join of all items of an iterable."""
    if items.kind == "range":
        return number("int")
    if items.kind == "rows" and items.of is not None:
        return items.of
    if items.kind in ("list", "tuple") and items.items:
        return joined(items.items.values()).with_(known=NOTHING)
    if items.kind == "dict":
        return Value("text")
    if items.kind == "generator":
        return machine.yielded(items)
    if items.kind == "dataset":
        given = Given(getattr(node, "iter", node))
        return noted(machine, "taken", items, given, lambda: items.of or Value("tensor"))
    if items.kind in ("array", "tensor"):
        return items.with_(items={}, shape=items.shape[1:] if items.shape else None)
    if items.kind == "object":
        for name in ("__iter__", "__getitem__"):
            method = things.attribute_of(items, name)
            if method is not None:
                found = called(machine, method, Given(node, [number("int")] if name == "__getitem__" else []))
                after = things.attribute_of(found, "__next__") if found.kind == "object" else None
                if after is not None:  # an iterator class of the script
                    return called(machine, after, Given(node))
                return machine.yielded(found) if found.kind == "generator" else found
    return UNKNOWN.moving(items.varies)
