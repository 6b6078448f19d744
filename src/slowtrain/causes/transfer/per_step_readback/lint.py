"""Where the cause transfer/per-step-readback shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
from slowtrain.script.properties import handwritten_steps
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

MIN_READ_VALUES = 4  # values. Each read takes about 20 µs, after the first one has waited for the device.
READ_CALLS = frozenset({"float", "int", "bool", ".numpy", ".item", ".tolist", "numpy.asarray", "numpy.array"})
TENSOR_KINDS = ("tensor", "variable")
NUMBER_BUILTINS = frozenset({"float", "int", "bool"})


@dataclass(frozen=True)
class TensorReadback:
    node: ast.stmt | ast.expr
    says: str


def find_spots(source: Source) -> Iterable[Spot]:
    """Many values read one by one, or values for a line of log, in every iteration of a loop of compiled steps."""
    known = list(step_readbacks(source))
    for read in known:
        made = tuple(deferred_readbacks.defer_readbacks(source, read.node.lineno))
        says = "read back every hundredth step, or all values at once at the end of an epoch"
        cure = Prescription("edit", Effect.EXACT, says, edits=made)
        end = edits.node_end(read.node.iter) if isinstance(read.node, ast.For) else edits.node_end(read.node)
        yield Spot(edits.node_start(read.node), end, read.says, cure)
    back = (*step_reads(source), *separate_reads(source))
    for more in spots.copies_not_known(_loops_of_readbacks(source, known), back):
        made = tuple(fix.read_by_index(source, more.node.lineno))
        cure = Prescription("edit" if made else "advice", Effect.EXACT, more.cure, edits=made)
        yield Spot(edits.node_start(more.node), edits.node_end(more.node), more.says, cure)


def _loops_of_readbacks(source: Source, known: Sequence[TensorReadback]) -> list[ast.AST]:
    """The loops of readbacks that are reported already: one cure serves all of a loop."""
    around = [(read.node, scope_names.enclosing_loops(source, read.node)) for read in known]
    return [loops[0] if loops else node for node, loops in around]


def step_reads(source: Source) -> Iterator[spots.StepCopy]:
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
        if event.name in (".numpy", "numpy.asarray", "numpy.array", ".get_weights"):
            what = _weights_text(event)
            if what and not any(one.number in busy for one in inner):
                seen.add(loop.number)
                yield spots.StepCopy(event.node, f"each step copies {what} to NumPy", "read it every hundredth step")
                continue
        read, (_, every) = _read_tensor(event), step_loops.loop_and_period(source, event) or (loop, 1)
        long = [one for one in inner if one.turns is None or one.turns >= MIN_READ_VALUES * every]
        if read is None or not long or any(one.number in busy for one in inner):
            continue
        if long[-1].number in read.varies and event.name != ".get_weights" and long[-1].number not in event.rare:
            seen.add(loop.number)
            says = "each step reads values of a tensor back one by one"
            yield spots.StepCopy(event.node, says, "read all of them at once: .numpy() before this loop")


def separate_reads(source: Source) -> Iterator[spots.StepCopy]:
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
            yield spots.StepCopy(every[0].node, says, cure)


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
    return f"all {count} numbers of a variable" if count >= spots.MIN_CONVERTED_NUMBERS else ""


def step_readbacks(source: Source) -> Iterator[TensorReadback]:
    """Find loops and comprehensions over tensors, and reports of values, in each iteration of a training loop."""
    for steps in handwritten_steps.step_loops_of(source):
        if not steps.graph:
            continue  # Keras returns Python numbers
        for one in handwritten_steps.statements_per_turn(steps.loop):
            found = (
                _loop_readback(one, steps.results)
                if isinstance(one, ast.For)
                else _comprehension_readback(one, steps.results)
            )
            if found is None and handwritten_steps.has_outer_loop(source, steps):
                found = _report_readback(one, steps.results)
            if found is not None:
                yield found
                break  # one finding per loop
        else:
            yield from _function_readbacks(source, steps)


def _function_readbacks(source: Source, steps: handwritten_steps.StepLoop) -> Iterator[TensorReadback]:
    """Find readbacks in called functions: loops over results of the step, copies of weights through NumPy."""
    for call, function in handwritten_steps.functions_per_turn(source, steps):
        names = {
            name for name in scope_names.parameter_names(function)
            if isinstance(given := call_arguments.argument_in(function, call, name),
            ast.Name) and given.id in steps.results
        }  # fmt: skip
        for one in handwritten_steps.statements_per_turn(function):
            back = frozenset(names)
            found = None
            if names:
                found = _loop_readback(one, back) if isinstance(one, ast.For) else _comprehension_readback(one, back)
            if found is None and not queries.has_few_turns(source, steps.loop):
                found = _weight_copy(function, one)
            if found is not None:
                yield found
                return
    for one in (
        handwritten_steps.statements_per_turn(steps.loop) if not queries.has_few_turns(source, steps.loop) else ()
    ):
        found = _weight_copy(steps.loop, one)
        if found is not None:
            yield found
            return


def _weight_copy(block: ast.For | ast.While | ast.FunctionDef, one: ast.stmt) -> TensorReadback | None:
    """Find ``set_weights`` with the result of ``get_weights`` in the same iteration."""
    if isinstance(one, (ast.For, ast.While)):
        return None
    taken = [
        n for n in syntax_tree.walk(one) if isinstance(n, ast.Call) and node_lookup.called_name(n) == "set_weights"
    ]
    every = {
        node_lookup.called_name(n)
        for s in handwritten_steps.statements_per_turn(block)
        for n in syntax_tree.walk(s)
        if isinstance(n, ast.Call)
    }
    if not taken or "get_weights" not in every:
        return None
    return TensorReadback(one, "each step copies all weights to NumPy and back")


def _loop_readback(one: ast.For, results: frozenset[str]) -> TensorReadback | None:
    """Find ``for value in per_sample: seen.append(float(value))``."""
    names = scope_names.bound_names(one.target)
    if not _iterates_tensors(one.iter, results) or not any(
        _is_readback(n, names) for s in one.body for n in syntax_tree.walk(s)
    ):
        return None
    return TensorReadback(one, "each step reads the values of a tensor back one by one")


def _comprehension_readback(one: ast.stmt, results: frozenset[str]) -> TensorReadback | None:
    """Find ``[g.numpy() for g in norms]``."""
    for node in syntax_tree.walk(one):
        if not isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            continue
        names = {n for g in node.generators for n in scope_names.bound_names(g.target)}
        if any(_iterates_tensors(g.iter, results) for g in node.generators) and any(
            _is_readback(n, names) for n in syntax_tree.walk(node.elt)
        ):
            return TensorReadback(one, "each step reads one tensor after the other back")
    return None


def _report_readback(one: ast.stmt, results: frozenset[str]) -> TensorReadback | None:
    """Find ``print(step, loss.numpy())`` in every step."""
    if not isinstance(one, ast.Expr) or not isinstance(one.value, ast.Call):
        return None
    if node_lookup.called_name(one.value) not in deferred_readbacks.REPORT_FUNCTIONS - {
        "scalar",
        "add_scalar",
        "flush",
    }:
        return None
    given = [*one.value.args, *(k.value for k in one.value.keywords)]
    if any(_is_readback(n, results) for g in given for n in syntax_tree.walk(g)):
        return TensorReadback(one, "every step reads values back for a line of log")
    return None


def _iterates_tensors(over: ast.expr, results: frozenset[str]) -> bool:
    """Whether a loop iterates over results of a step, or over variables."""
    if isinstance(over, ast.Call) and node_lookup.called_name(over) in ("zip", "enumerate", "reversed"):
        return any(_iterates_tensors(a, results) for a in over.args)
    if isinstance(over, ast.Attribute):
        return over.attr in keras_names.VARIABLE_ATTRIBUTES
    return isinstance(over, ast.Name) and over.id in results


def _is_readback(node: ast.AST, names: frozenset[str] | set[str]) -> bool:
    """Whether a value of ``names`` becomes a Python number or text: ``v.numpy()``, ``float(v)``, ``{v:.3f}``."""
    if isinstance(node, ast.FormattedValue):
        return isinstance(node.value, ast.Name) and node.value.id in names
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr in deferred_readbacks.READ_METHODS and not node.args:
        return bool(names & _names_in(node.func.value))
    if isinstance(node.func, ast.Name) and node.func.id in NUMBER_BUILTINS and len(node.args) == 1:
        return bool(names & _names_in(node.args[0]))
    return False


def _names_in(node: ast.AST) -> set[str]:
    return {n.id for n in syntax_tree.walk(node) if isinstance(n, ast.Name)}
