"""The callee of a call, the items of an iteration, and the items, slices and masks of a subscript."""

from __future__ import annotations

import ast

from slowtrain.script.interpreter.domain import operators, shape_rules
from slowtrain.script.interpreter.domain.abstract_values import (
    EACH_ITEM,
    NO_LOOPS,
    NO_VALUE,
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
from slowtrain.script.interpreter.library import data_calls, framework_calls, python_builtins

LAZY_KINDS = ("list", "tuple", "rows", "generator")
CACHE_DECORATORS = ("functools.lru_cache", "functools.cache")
DESCRIPTOR_DECORATORS = ("property", "staticmethod", "classmethod", "functools.cached_property")


def decorated_value(machine: RunContext, node: ast.expr, function: Value, scope: Scope) -> Value:
    """A function with one of its decorators applied."""
    by = machine.value(node, scope)
    if by.kind == "graphing" or by.name == "tensorflow.function":
        settings = dict(by.data) if by.kind == "graphing" else {}
        return Value("graph", node=function.node, name=function.name, of=function, born=machine.born(), data=settings)
    if by.kind == "library" and by.name in DESCRIPTOR_DECORATORS:
        return function.with_fields(dtype=by.name.rpartition(".")[2])
    if by.kind == "library" and by.name in CACHE_DECORATORS:
        return function.with_fields(dtype="remembered")
    if by.kind == "function":
        return call_result(machine, by, CallArgs(node, [function]))
    if by.name == "numpy.vectorize":
        return Value("library", name=framework_calls.VECTORIZED_NAME, of=function, node=function.node)
    known = by.kind == "library" and by.name.startswith(("functools.", "contextlib.", "keras."))
    return function if known else UNKNOWN  # the decorator may do anything, e.g. numba compiles it


def call_result(machine: RunContext, callee: Value, call: CallArgs) -> Value:
    """The result of calling ``callee``; records the call."""
    if callee.kind == "partial" and callee.of is not None:
        return call_result(machine, callee.of, python_builtins.full_arguments(callee, call))
    name, on, function, full_call = callee.name, callee, callee, call
    place = len(machine.events)  # before the calls that this one leads to
    if callee.kind == "method":
        on = callee.data
        if callee.of is None:
            result = framework_calls.library_method(machine, on, name, call)
            machine.note(f".{name}", on, call, result, place)
            return result
        function = callee.of
        full_call = CallArgs(call.node, [on, *call.args], call.keywords)
    match function.kind:
        case "library":
            result = framework_calls.library_call(machine, name, call)
        case "function":
            again = function.dtype == "remembered" and not full_call.varies & set(machine.depth())
            result = (
                _cached_result(machine, function, full_call) if again else machine.run_function(function, full_call)
            )
        case "graph":
            on, result = function, _graph_call(machine, function, full_call)
        case "class":
            result = _new_object(machine, function, call)
        case "keras":
            name, result = "__call__", framework_calls.layer_output(function, call)
        case "object":
            method = operators.find_attribute(function, "__call__") or operators.find_attribute(function, "call")
            if method is None:
                return UNKNOWN.varying_in(call.varies)
            name, result = "__call__", _object_call(machine, method, call)
        case _:
            run_handed_functions(machine, call)
            name, result, place = "", UNKNOWN.varying_in(call.varies), len(machine.events)
    machine.note(name, on, call, result, place)
    return result


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


def _cached_result(machine: RunContext, function: Value, call: CallArgs) -> Value:
    """The result of a cached function: it runs at the first call with these arguments."""
    key = (bool(machine.silent), *(id(one) for one in call.every))
    if key not in function.items:
        with machine.outside_loops():
            function.items[key] = machine.run_function(function, call)
    return function.items[key]


def _object_call(machine: RunContext, method: Value, call: CallArgs) -> Value:
    """The result of calling an object. A layer that a model is built of runs in the model's graph."""
    if method.name == "call" and isinstance(method.data, Value):
        _run_build(machine, method.data, call)
    if method.name != "call" or not any(one.name == "symbolic" for a in call.args for one in a.nested_values(2)):
        return call_result(machine, method, call)
    with machine.tracing():
        result = call_result(machine, method, call)
    if result.kind == "tuple":
        return result
    return result.with_fields(kind="tensor", known=NOT_KNOWN, name="symbolic", items={})


def _run_build(machine: RunContext, layer: Value, call: CallArgs) -> None:
    """Runs ``build``, as Keras does before the first ``call``."""
    builds = operators.find_attribute(layer, "build")
    if builds is None or "built" in layer.items:
        return
    layer.items["built"] = Value("number", True, name="bool")
    first = call.every[0] if call.every else UNKNOWN
    shape = framework_calls.library_attribute(first, "shape") if first.kind in ("tensor", "array") else UNKNOWN
    call_result(machine, builds, CallArgs(call.node, [shape]))


def run_handed_functions(machine: RunContext, call: CallArgs) -> None:
    """Runs functions of the script that an unknown callee receives, with unknown arguments."""
    for one in call.every:
        function = one.of if one.kind == "method" and one.of is not None else one
        if function.kind == "function":
            every = getattr(function.node, "args", None)
            count = len(every.posonlyargs) + len(every.args) if isinstance(every, ast.arguments) else 0
            machine.run_function(function, CallArgs(call.node, [UNKNOWN] * count))


def _graph_call(machine: RunContext, graph: Value, call: CallArgs) -> Value:
    """The result of a tf.function; its Python code runs when it is traced, at the first call."""
    key = "seen" if machine.silent else "traced"
    if key not in graph.data and graph.of is not None:
        graph.data[key] = UNKNOWN  # for a function that calls itself
        inside = CallArgs(call.node, [framework_calls.graph_argument(a) for a in call.args],
                       {k: framework_calls.graph_argument(v) for k, v in call.keywords.items()})  # fmt: skip
        with machine.tracing():
            graph.data[key] = machine.run_function(graph.of, inside)
    return framework_calls.graph_result(graph.data.get(key, UNKNOWN)).varying_in(
        call.varying_inside | set(machine.depth())
    )


def _new_object(machine: RunContext, kind: Value, call: CallArgs) -> Value:
    """A new object of a class of the script."""
    instance = Value("object", name=kind.name, of=kind, node=call.node, born=machine.born())
    if kind.node is not None and not machine.silent:
        machine.made.setdefault(kind.node, []).append(instance)
    constructor = operators.find_attribute(instance, "__init__")
    if constructor is not None:
        call_result(machine, constructor, call)
    elif isinstance(kind.node, ast.ClassDef):
        names = operators.dataclass_fields(kind)
        defaults = {n: v for n in names if (v := operators.find_attribute(kind, n)) is not None}
        handed_over = dict(zip(names, call.args, strict=False)) | dict(call.keywords)
        for name, default in defaults.items():
            if default.kind == "field" and default.of is not None and name not in handed_over:
                defaults[name] = call_result(machine, default.of, CallArgs(call.node))
        instance.items.update(defaults | handed_over)
        after = operators.find_attribute(instance, "__post_init__")
        if after is not None:
            call_result(machine, after, CallArgs(call.node))
    return instance


def assume_mapping(machine: RunContext, node: ast.expr, value: Value, scope: Scope) -> Value:
    """Treats an unknown value as a mapping because it is used as one; its other items are unknown."""
    mapping = Value("dict", items={None: value}, varies=value.varies)
    if isinstance(node, ast.Name):
        machine.store(node, mapping, scope)
    return mapping


def loop_item(machine: RunContext, items: Value, loop: Loop, node: ast.AST) -> Value:
    """The value of a loop's target, which changes in each iteration."""
    if items.kind in ("list", "tuple") and list(items.items) == [0]:
        return items.items[0]  # one iteration
    found = any_item(machine, items, node)
    ended = {EACH_ITEM}
    if items.kind in LAZY_KINDS:  # ragged in iterations of loops that have ended, or that yield the items
        before = {v for one in found.nested_values() for v in one.ragged} - set(machine.depth())
        ended |= {v for v in before if not machine.has_few_turns(v)}
    running = frozenset(machine.depth()) - {loop.number} if items.kind in ("generator", "rows") else None
    return _varied_item(found, loop, ended, running)


def _varied_item(found: Value, loop: Loop, ended: set[int], running: frozenset[int] | None, depth: int = 3) -> Value:
    """The item, which changes in each iteration. ``running``: the loops around an iteration over lazy items."""
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
    """Whether it is the same number or text in all iterations: a constant, or from outside."""
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
        return machine.yielded_value(items)
    if items.kind == "dataset":
        taken = items.of or Value("tensor")
        machine.note("taken", items, CallArgs(getattr(node, "iter", node)), taken)
        return taken
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
                return machine.yielded_value(found) if found.kind == "generator" else found
    return UNKNOWN.varying_in(items.varies)


def subscript_value(machine: RunContext, node: ast.Subscript, scope: Scope) -> Value:
    value = machine.value(node.value, scope)
    cut = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not any(isinstance(one, ast.Slice) or _adds_axis(one, value) for one in cut):
        key = machine.value(node.slice, scope)
        part = data_calls.table_subscript(value, key) if data_calls.is_pandas(value) else None
        if part is not None:
            return part.varying_in(key.varies_inside(1))
        found = operators.item_value(value, NOT_KNOWN if key.varies else key.known)
        if value.kind == "array" and key.kind == "array":  # rows by index, or by a mask
            masked = key.dtype == "bool"
            rows = (None,) if masked or key.shape is None else key.shape
            taken = len(key.shape) if masked and key.shape else 1  # the axes of a mask
            shape = (*rows, *value.shape[taken:]) if value.shape else None
            found = found.with_fields(ragged=key.varies if masked else key.ragged, shape=shape)
        elif (
            found.shape is not None and value.kind != "dict" and key.kind != "number"
        ):  # a slice under a name, or indices on several axes
            single = key.kind == "tuple" and all(one.kind == "number" for one in key.items.values())
            found = found.with_fields(shape=value.shape[len(cut) :] if single and value.shape else None)
        ended = found.ragged - set(machine.depth()) if value.kind in ("list", "tuple") else frozenset[int]()
        if not all(map(machine.has_few_turns, ended)):  # made in iterations of a loop that has ended
            found = found.with_fields(ragged=found.ragged | key.varies)
        return found.varying_in(key.varies_inside(1))
    parts = [machine.value(p, scope) for one in cut if isinstance(one, ast.Slice)
             for p in (one.lower, one.upper, one.step) if p is not None]  # fmt: skip
    varies = NO_LOOPS.union(*[one.varies for one in parts])
    if value.kind in ("list", "tuple"):
        whole = (operators.known_length(value),)
        shape = shape_rules.sliced_shape(whole, cut, lambda one, rows: _sliced_rows(machine, one, rows, scope))
        return value.with_fields(known=NOT_KNOWN, data="open", shape=None if shape == (None,) else shape).varying_in(
            varies
        )
    ragged = frozenset(v for one in cut if isinstance(one, ast.Slice) for v in _uneven_loops(machine, one, scope))
    shape = shape_rules.sliced_shape(value.shape, cut, lambda one, rows: _sliced_rows(machine, one, rows, scope))
    column = len(cut) > 1 and any(isinstance(one, (ast.Constant, ast.UnaryOp)) for one in cut[1:])
    ragged |= value.ragged - {EACH_ITEM} if column else value.ragged  # a column of padded rows
    return operators.item_value(value, NOT_KNOWN).varying_in(varies).with_fields(ragged=ragged, shape=shape)


def _adds_axis(one: ast.expr, value: Value) -> bool:
    """Whether it is ``...``, or ``None`` as a new axis; no key."""
    plain = isinstance(one, ast.Constant) and one.value is None and value.kind in ("array", "tensor", "variable")
    return plain or (isinstance(one, ast.Constant) and one.value is ...)


def _sliced_rows(machine: RunContext, cut: ast.Slice, rows: int | None, scope: Scope) -> int | None:
    """The number of rows that a slice takes of ``rows``; None if unknown."""
    low, high = cut.lower, cut.upper
    if low is None and high is None and cut.step is None:
        return rows
    window = _window_length_node(low, high) if cut.step is None else None
    if window is not None:
        wide = machine.value(window, scope)
        return wide.known if isinstance(wide.known, int) and not wide.varies else None
    ends = [machine.value(one, scope) if one is not None else NO_VALUE for one in (low, high, cut.step)]
    known = [one.known for one in ends]
    if any(one.varies or not isinstance(one.known, int | None) for one in ends) or known[2] == 0:
        return None
    if rows is None:  # an upper bound
        ahead = known[2] is None and isinstance(known[1], int) and known[1] > 0 <= (known[0] or 0)
        return max(known[1] - (known[0] or 0), 0) if ahead else None
    return len(range(rows)[slice(*known)])


def slice_length_node(cut: ast.Slice) -> ast.expr | None:
    """The upper bound of a slice's length: ``n`` of ``x[:n]`` and ``x[i : i + n]``."""
    if cut.step is not None:
        return None
    return cut.upper if cut.lower is None else _window_length_node(cut.lower, cut.upper)


def _window_length_node(low: ast.expr | None, high: ast.expr | None) -> ast.expr | None:
    """The length of a slice whose ends move together: ``n`` of ``x[i : i + n]`` and ``x[i * n : (i + 1) * n]``."""
    if low is None or not isinstance(high, ast.BinOp):
        return None
    if isinstance(high.op, ast.Add) and ast.dump(high.left) == ast.dump(low):
        return high.right
    if not isinstance(high.op, ast.Mult) or not isinstance(low, ast.BinOp) or not isinstance(low.op, ast.Mult):
        return None
    next_ = high.left if isinstance(high.left, ast.BinOp) and isinstance(high.left.op, ast.Add) else None
    one = next_ is not None and isinstance(next_.right, ast.Constant) and next_.right.value == 1
    if next_ is None or not one or ast.dump(next_.left) != ast.dump(low.left):
        return None
    return high.right if ast.dump(high.right) == ast.dump(low.right) else None


def _uneven_loops(machine: RunContext, cut: ast.Slice, scope: Scope) -> frozenset[int]:
    """The loops that change the length of a slice, because its ends do not move together."""
    low = machine.value(cut.lower, scope).varies if cut.lower is not None else frozenset()
    high = machine.value(cut.upper, scope).varies if cut.upper is not None else frozenset()
    if cut.upper is None or not high:
        return frozenset()  # the remainder: one iteration in many, as with batches
    if cut.lower is None:
        return high
    between_items = isinstance(cut.lower, ast.Subscript) and isinstance(cut.upper, ast.Subscript)
    return high if between_items and low & high else frozenset()  # x[ends[i] : ends[i + 1]]
