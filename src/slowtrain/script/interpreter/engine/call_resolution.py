"""The callee of a call, and the items of an iteration."""

from __future__ import annotations

import ast
from collections.abc import Callable

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import (
    EACH_ITEM,
    NOT_KNOWN,
    SEVERAL_CLASSES,
    UNKNOWN,
    CallArgs,
    Value,
    join_values,
    number_value,
)
from slowtrain.script.interpreter.domain.call_events import Loop
from slowtrain.script.interpreter.domain.run_context import RunContext, Scope
from slowtrain.script.interpreter.library import framework_calls, python_builtins

LAZY_KINDS = ("list", "tuple", "rows", "generator")
CACHE_DECORATORS = ("functools.lru_cache", "functools.cache")
DESCRIPTOR_DECORATORS = ("property", "staticmethod", "classmethod", "functools.cached_property")


def decorated_value(machine: RunContext, node: ast.expr, made: Value, scope: Scope) -> Value:
    """A function with one of its decorators applied."""
    by = machine.value(node, scope)
    if by.kind == "graphing" or by.name == "tensorflow.function":
        settings = dict(by.data) if by.kind == "graphing" else {}
        return Value("graph", node=made.node, name=made.name, of=made, born=machine.born(), data=settings)
    if by.kind == "library" and by.name in DESCRIPTOR_DECORATORS:
        return made.with_fields(dtype=by.name.rpartition(".")[2])
    if by.kind == "library" and by.name in CACHE_DECORATORS:
        return made.with_fields(dtype="remembered")
    if by.kind == "function":
        return call_result(machine, by, CallArgs(node, [made]))
    if by.name == "numpy.vectorize":
        return Value("library", name=framework_calls.VECTORIZED_NAME, of=made, node=made.node)
    known = by.kind == "library" and by.name.startswith(("functools.", "contextlib.", "keras."))
    return made if known else UNKNOWN  # the decorator may do anything, e.g. numba compiles it


def call_result(machine: RunContext, callee: Value, given: CallArgs) -> Value:
    """The result of calling ``callee``; records the call."""
    if callee.kind == "partial" and callee.of is not None:
        return call_result(machine, callee.of, python_builtins.full_arguments(callee, given))
    name, on, function = callee.name, callee, callee
    if callee.kind == "method":
        if callee.of is None:
            owner = callee.data
            return recorded_result(
                machine, f".{name}", owner, given, lambda: framework_calls.library_method(machine, owner, name, given)
            )
        on, function = callee.data, callee.of
        given_too = CallArgs(given.node, [on, *given.args], given.keywords)
    else:
        given_too = given
    gives: Callable[[], Value]
    if function.kind == "function":
        again = function.dtype == "remembered" and not given_too.varies & set(machine.depth())
        gives = lambda: _cached_result(machine, function, given_too) if again else machine.run(function, given_too)  # noqa: E731
    elif function.kind == "graph":
        on, gives = function, lambda: _graph_call(machine, function, given_too)
    elif function.kind == "class":
        gives = lambda: _new_object(machine, function, given)  # noqa: E731
    elif function.kind == "library":
        gives = lambda: framework_calls.library_call(machine, name, given)  # noqa: E731
    elif function.kind == "keras":
        name, gives = "__call__", lambda: framework_calls.layer_output(function, given)
    elif function.kind == "object":
        method = operators.find_attribute(function, "__call__") or operators.find_attribute(function, "call")
        if method is None:
            return UNKNOWN.varying_in(given.varies)
        name, gives = "__call__", lambda: _object_call(machine, method, given)
    else:
        run_handed_functions(machine, given)
        name, gives = "", lambda: UNKNOWN.varying_in(given.varies)
    return recorded_result(machine, name, on, given, gives)


def function_run_by(callee: Value) -> ast.AST | None:
    """The function or lambda of the script that calling a value runs; None for all others."""
    at: Value | None = callee
    if callee.kind == "method" and isinstance(callee.data, Value) and callee.data.dtype == SEVERAL_CLASSES:
        return None
    while at is not None and at.kind != "function":
        at = (
            operators.find_attribute(at, "__call__")
            if at.kind == "object"
            else at.of
            if at.kind in ("partial", "method", "graph")
            else None
        )
    return at.node if at is not None else None


def _cached_result(machine: RunContext, function: Value, given: CallArgs) -> Value:
    """The result of a cached function: it runs at the first call with these arguments."""
    key = (bool(machine.silent), *(id(one) for one in given.every))
    if key not in function.items:
        with machine.once():
            function.items[key] = machine.run(function, given)
    return function.items[key]


def _object_call(machine: RunContext, method: Value, given: CallArgs) -> Value:
    """The result of calling an object. A layer that a model is built of runs in the model's graph."""
    if method.name == "call" and isinstance(method.data, Value):
        _run_build(machine, method.data, given)
    if method.name != "call" or not any(one.name == "symbolic" for a in given.args for one in a.inside(2)):
        return call_result(machine, method, given)
    with machine.tracing():
        made = call_result(machine, method, given)
    return made.with_fields(kind="tensor", known=NOT_KNOWN, name="symbolic", items={}) if made.kind != "tuple" else made


def _run_build(machine: RunContext, layer: Value, given: CallArgs) -> None:
    """Runs ``build``, as Keras does before the first ``call``."""
    builds = operators.find_attribute(layer, "build")
    if builds is None or "built" in layer.items:
        return
    layer.items["built"] = Value("number", True, name="bool")
    first = given.every[0] if given.every else UNKNOWN
    shape = framework_calls.library_attribute(first, "shape") if first.kind in ("tensor", "array") else UNKNOWN
    call_result(machine, builds, CallArgs(given.node, [shape]))


def run_handed_functions(machine: RunContext, given: CallArgs) -> None:
    """Runs functions of the script that an unknown callee receives, with unknown arguments."""
    for one in given.every:
        function = one.of if one.kind == "method" and one.of is not None else one
        if function.kind == "function":
            every = getattr(function.node, "args", None)
            count = len(every.posonlyargs) + len(every.args) if isinstance(every, ast.arguments) else 0
            machine.run(function, CallArgs(given.node, [UNKNOWN] * count))


def recorded_result(
    machine: RunContext, name: str, on: Value | None, given: CallArgs, gives: Callable[[], Value]
) -> Value:
    """Runs a call and records it before the calls that it leads to."""
    place = len(machine.events)
    result = gives()
    machine.note(name, on, given, result, place)
    return result


def _graph_call(machine: RunContext, graph: Value, given: CallArgs) -> Value:
    """The result of a tf.function; its Python code runs when it is traced, at the first call."""
    key = "seen" if machine.silent else "traced"
    if key not in graph.data and graph.of is not None:
        graph.data[key] = UNKNOWN  # for a function that calls itself
        inside = CallArgs(given.node, [framework_calls.graph_argument(a) for a in given.args],
                       {k: framework_calls.graph_argument(v) for k, v in given.keywords.items()})  # fmt: skip
        with machine.tracing():
            graph.data[key] = machine.run(graph.of, inside)
    return framework_calls.graph_result(graph.data.get(key, UNKNOWN)).varying_in(
        given.varying_inside | set(machine.depth())
    )


def _new_object(machine: RunContext, kind: Value, given: CallArgs) -> Value:
    """A new object of a class of the script."""
    made = Value("object", name=kind.name, of=kind, node=given.node, born=machine.born())
    if kind.node is not None and not machine.silent:
        machine.made.setdefault(kind.node, []).append(made)
    constructor = operators.find_attribute(made, "__init__")
    if constructor is not None:
        call_result(machine, constructor, given)
    elif isinstance(kind.node, ast.ClassDef):
        names = operators.dataclass_fields(kind)
        defaults = {n: v for n in names if (v := operators.find_attribute(kind, n)) is not None}
        handed_over = dict(zip(names, given.args, strict=False)) | dict(given.keywords)
        for name, default in defaults.items():
            if default.kind == "field" and default.of is not None and name not in handed_over:
                defaults[name] = call_result(machine, default.of, CallArgs(given.node))
        made.items.update(defaults | handed_over)
        after = operators.find_attribute(made, "__post_init__")
        if after is not None:
            call_result(machine, after, CallArgs(given.node))
    return made


def assume_mapping(machine: RunContext, node: ast.expr, held: Value, scope: Scope) -> Value:
    """Treats an unknown value as a mapping because it is used as one; its other items are unknown."""
    made = Value("dict", items={None: held}, varies=held.varies)
    if isinstance(node, ast.Name):
        machine.store(node, made, scope)
    return made


def loop_item(machine: RunContext, items: Value, loop: Loop, node: ast.AST) -> Value:
    """The value of a loop's target, which changes in each turn."""
    if items.kind in ("list", "tuple") and list(items.items) == [0]:
        return items.items[0]  # one turn
    found = any_item(machine, items, node)
    ended = {EACH_ITEM}
    if items.kind in LAZY_KINDS:  # ragged in turns of loops that have ended, or that yield the items
        before = {v for one in found.inside() for v in one.ragged} - set(machine.depth())
        ended |= {v for v in before if not machine.has_few_turns(v)}
    running = frozenset(machine.depth()) - {loop.number} if items.kind in ("generator", "rows") else None
    return _varied_item(found, loop, ended, running)


def _varied_item(found: Value, loop: Loop, ended: set[int], running: frozenset[int] | None, depth: int = 3) -> Value:
    """The item, changing in the loop's turns. ``running``: the loops around an iteration over lazy items."""
    if found.kind in ("tuple", "dict") and depth:
        found = found.with_fields(
            items={k: _varied_item(v, loop, ended, running, depth - 1) for k, v in found.items.items()}
        )
    if running is not None and found.kind in ("number", "text") and _is_loop_invariant(found, running):
        return found
    moving = found.varying_in((loop.number,))
    if moving.ragged & ended:
        moving = moving.with_fields(ragged=moving.ragged - ended | {loop.number})
    return moving if moving.known is NOT_KNOWN else moving.with_fields(known=NOT_KNOWN)


def _is_loop_invariant(found: Value, running: frozenset[int]) -> bool:
    """Whether it is the same number or text in all turns: a constant, or from outside."""
    return found.varies <= running if found.varies else found.known is not NOT_KNOWN


def any_item(machine: RunContext, items: Value, node: ast.AST) -> Value:
    """The join of all items of an iterable."""
    if items.kind == "range":
        return number_value("int")
    if items.kind == "rows" and items.of is not None:
        return items.of
    if items.kind in ("list", "tuple") and items.items:
        return join_values(items.items.values()).with_fields(known=NOT_KNOWN)
    if items.kind == "dict":
        return Value("text")
    if items.kind == "generator":
        return machine.yielded(items)
    if items.kind == "dataset":
        given = CallArgs(getattr(node, "iter", node))
        return recorded_result(machine, "taken", items, given, lambda: items.of or Value("tensor"))
    if items.kind in ("array", "tensor"):
        return items.with_fields(items={}, shape=items.shape[1:] if items.shape else None)
    if items.kind == "object":
        for name in ("__iter__", "__getitem__"):
            method = operators.find_attribute(items, name)
            if method is not None:
                found = call_result(
                    machine, method, CallArgs(node, [number_value("int")] if name == "__getitem__" else [])
                )
                after = operators.find_attribute(found, "__next__") if found.kind == "object" else None
                if after is not None:  # an iterator class of the script
                    return call_result(machine, after, CallArgs(node))
                return machine.yielded(found) if found.kind == "generator" else found
    return UNKNOWN.varying_in(items.varies)
