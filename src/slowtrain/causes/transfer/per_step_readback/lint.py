"""Where the cause transfer/per-step-readback shows in a script's text."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator
from math import prod

from slowtrain.causes.transfer.per_step_readback import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.loops import deferred_readbacks
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import keras_names, spots
from slowtrain.script.navigation import call_arguments, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

MIN_READ_VALUES = 4  # values. Each read takes about 20 µs, after the first one has waited for the device.
READ_CALLS = frozenset({"float", "int", "bool", ".numpy", ".item", ".tolist", "numpy.asarray", "numpy.array"})
TENSOR_KINDS = ("tensor", "variable")
NUMBER_BUILTINS = frozenset({"float", "int", "bool"})
MIN_COPIED_WEIGHTS = 16_384  # numbers (64 KB). Fewer are copied in about 20 µs.
RARE_PERIOD = 10  # steps. A copy of all weights each tenth step costs little per step.
WEIGHT_COPY_TEXT = "each step copies all weights to NumPy and back"
READ_METHODS = deferred_readbacks.READ_METHODS
REPORT_FUNCTIONS = deferred_readbacks.REPORT_FUNCTIONS - {"scalar", "add_scalar", "flush"}


def find_spots(source: Source) -> Iterable[Spot]:
    """Many values read one by one, or values for a line of log, in every iteration of a loop of compiled steps."""
    known = list(step_readbacks(source))
    for node, says in known:
        made = tuple(deferred_readbacks.defer_readbacks(source, node.lineno))
        rarer = "read back every hundredth step, or all values at once at the end of an epoch"
        yield spots.node_spot(node, says, Prescription("edit", Effect.EXACT, rarer, edits=made))
    # One cure serves all readbacks of a loop.
    loops = [next(iter(scope_names.enclosing_loops(source, node)), node) for node, _ in known]
    yield from spots.spots_outside(loops, (*step_reads(source), *separate_reads(source)))


def _read_spot(source: Source, node: ast.expr, says: str, cure: str) -> Spot:
    made = tuple(fix.read_by_index(source, node.lineno))
    return spots.node_spot(node, says, Prescription("edit" if made else "advice", Effect.EXACT, cure, edits=made))


def step_reads(source: Source) -> Iterator[Spot]:
    """Find tensor values that each step reads one by one, and weights that it copies completely."""
    if not step_loops.step_events(source):
        return
    busy = {one.number for e in file_events(source) if _runs_model(e) for one in e.loops}
    seen: set[int] = set()  # one cure for all that a loop reads
    for event in file_events(source):
        if event.name not in READ_CALLS and event.name != ".get_weights":
            continue
        loop = step_loops.step_loop_of(source, event)
        if loop is None or loop.number in seen:
            continue
        inner = event.loops[event.loops.index(loop) + 1 :]
        _, every = step_loops.loop_and_period(source, event) or (loop, 1)
        if event.name == ".get_weights" and every >= RARE_PERIOD:
            continue
        if event.name in (".numpy", "numpy.asarray", "numpy.array", ".get_weights"):
            what = _weights_text(event)
            if what and not any(one.number in busy for one in inner):
                seen.add(loop.number)
                yield _read_spot(
                    source, event.node, f"each step copies {what} to NumPy", "read it every hundredth step"
                )
                continue
        read = _read_tensor(event)
        long = [one for one in inner if one.turns is None or one.turns >= MIN_READ_VALUES * every]
        if read is None or not long or any(one.number in busy for one in inner):
            continue
        if long[-1].number in read.varies and event.name != ".get_weights" and long[-1].number not in event.rare:
            seen.add(loop.number)
            says = "each step reads values of a tensor back one by one"
            yield _read_spot(source, event.node, says, "read all of them at once: .numpy() before this loop")


def separate_reads(source: Source) -> Iterator[Spot]:
    """Find several values that each step reads back by separate calls."""
    found: dict[int, list[Event]] = {}
    for event in file_events(source) if step_loops.step_events(source) else ():
        loop = step_loops.step_loop_of(source, event) if event.name in READ_CALLS else None
        if loop is not None and event.loops[-1] is loop and _read_tensor(event) is not None:
            found.setdefault(loop.number, []).append(event)
    for every in found.values():
        count = len({id(event.node) for event in every})
        if count >= MIN_READ_VALUES:
            says = f"each step waits for {count} values and reads them back one by one"
            cure = "add them up in keras.metrics.Mean inside the step, and read these once an epoch"
            yield _read_spot(source, every[0].node, says, cure)


def _runs_model(event: Event) -> bool:
    """Whether a model or graph runs in the event, so that each iteration has a new result."""
    return event.name == "taken" or (event.on is not None and event.on.kind in ("graph", "keras", "dataset"))


def _read_tensor(event: Event) -> Value | None:
    """Return the tensor that is converted to Python numbers."""
    given = event.on if event.name.startswith(".") else event.given.get("", 0)
    return given if given is not None and given.kind in TENSOR_KINDS else None


def _weights_text(event: Event) -> str:
    """Return a description of the weights that are read completely, if they are certainly large."""
    if event.name == ".get_weights":
        return "all weights" if event.on is not None and event.on.kind in ("keras", "object") else ""
    read = _read_tensor(event)
    if read is None or read.kind != "variable" or not read.shape:
        return ""
    count = prod(n or 1 for n in read.shape)
    return f"all {count} numbers of a variable" if count >= MIN_COPIED_WEIGHTS else ""


def step_readbacks(source: Source) -> Iterator[tuple[ast.stmt, str]]:
    """Find loops and comprehensions over tensors, and reports of values, in each iteration of a training loop."""
    for steps in step_loops.step_loops_of(source):
        if steps.graph:  # Keras returns Python numbers
            yield from itertools.islice(_loop_readbacks(source, steps), 1)


def _loop_readbacks(source: Source, steps: step_loops.StepLoop) -> Iterator[tuple[ast.stmt, str]]:
    """Find readbacks in a loop, then in functions that it calls: also copies of weights through NumPy."""
    nested = step_loops.has_outer_loop(source, steps)
    for one in step_loops.statements_per_turn(steps.loop):
        says = _iterated_readback(one, steps.results) or (_report_readback(one, steps.results) if nested else None)
        if says is not None:
            yield one, says
    many = not queries.has_few_turns(source, steps.loop)
    for call, function in step_loops.functions_per_turn(source, steps):
        given = {
            name: call_arguments.argument_in(function, call, name) for name in scope_names.parameter_names(function)
        }
        names = frozenset(k for k, v in given.items() if isinstance(v, ast.Name) and v.id in steps.results)
        for one in step_loops.statements_per_turn(function):
            says = _iterated_readback(one, names) if names else None
            if says is not None or (many and _copies_weights(function, one)):
                yield one, says or WEIGHT_COPY_TEXT
    for one in step_loops.statements_per_turn(steps.loop) if many else ():
        if _copies_weights(steps.loop, one):
            yield one, WEIGHT_COPY_TEXT


def _copies_weights(block: ast.For | ast.While | ast.FunctionDef, one: ast.stmt) -> bool:
    """Whether it is ``set_weights`` with the result of ``get_weights`` in the same iteration."""
    if isinstance(one, (ast.For, ast.While)) or "set_weights" not in _called_names([one]):
        return False
    return "get_weights" in _called_names(step_loops.statements_per_turn(block))


def _called_names(parts: Iterable[ast.stmt]) -> set[str]:
    return {node_lookup.called_name(call) for call in syntax_tree.nodes_inside(parts, ast.Call)}


def _iterated_readback(one: ast.stmt, results: frozenset[str]) -> str | None:
    """``for value in per_sample: seen.append(float(value))`` or ``[g.numpy() for g in norms]``."""
    if isinstance(one, ast.For):
        read = _iterates_tensors(one.iter, results) and _reads_back(one.body, scope_names.bound_names(one.target))
        return "each step reads the values of a tensor back one by one" if read else None
    for node in syntax_tree.walk(one):
        if not isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            continue
        names = {n for g in node.generators for n in scope_names.bound_names(g.target)}
        if any(_iterates_tensors(g.iter, results) for g in node.generators) and _reads_back([node.elt], names):
            return "each step reads one tensor after the other back"
    return None


def _report_readback(one: ast.stmt, results: frozenset[str]) -> str | None:
    """``print(step, loss.numpy())`` in every step."""
    match one:
        case ast.Expr(value=ast.Call() as call) if node_lookup.called_name(call) in REPORT_FUNCTIONS:
            given = [*call.args, *(k.value for k in call.keywords)]
            return "every step reads values back for a line of log" if _reads_back(given, results) else None
    return None


def _iterates_tensors(over: ast.expr, results: frozenset[str]) -> bool:
    """Whether a loop iterates over results of a step, or over variables."""
    match over:
        case ast.Call() if node_lookup.called_name(over) in ("zip", "enumerate", "reversed"):
            return any(_iterates_tensors(a, results) for a in over.args)
        case ast.Attribute(attr=attr):
            return attr in keras_names.VARIABLE_ATTRIBUTES
        case ast.Name(id=name):
            return name in results
    return False


def _reads_back(parts: Iterable[ast.AST], names: frozenset[str] | set[str]) -> bool:
    return any(_is_readback(node, names) for part in parts for node in syntax_tree.walk(part))


def _is_readback(node: ast.AST, names: frozenset[str] | set[str]) -> bool:
    """Whether a value of ``names`` becomes a Python number or text: ``v.numpy()``, ``float(v)``, ``{v:.3f}``."""
    match node:
        case ast.FormattedValue(value=ast.Name(id=name)):
            return name in names
        case ast.Call(func=ast.Attribute(value=read, attr=method), args=[]) if method in READ_METHODS:
            pass
        case ast.Call(func=ast.Name(id=function), args=[read]) if function in NUMBER_BUILTINS:
            pass
        case _:
            return False
    return not names.isdisjoint(n.id for n in syntax_tree.nodes_inside(read, ast.Name))
