"""Finds the cause host/retracing in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from msgspec import Struct

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.loops import traced_arguments
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.lint_rules import graph_code, spots
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text.source_file import Source

RETRACING_SETTINGS = ("input_signature", "reduce_retracing", "experimental_relax_shapes")


class ChangingArgument(Struct, frozen=True):
    """An argument that varies. ``number`` is its kind: "float", "int", "number" (either), or "" for a shape.

    "held": a dictionary, tuple or list with such a number. "text": a string with a number in it, or a container of one.
    """

    graph: graph_code.TracedFunction
    call: ast.Call
    parameter: str
    given: ast.expr
    number: str


def find_spots(source: Source) -> Iterable[Spot]:
    """Arguments that a loop changes as Python numbers, lists or shapes; methods of objects that it creates."""
    found: dict[ast.Call, list[ChangingArgument]] = {}
    for one in changing_arguments(source):
        if all(one.parameter != known.parameter for known in found.get(one.call, ())):
            found.setdefault(one.call, []).append(one)
    for several in found.values():
        yield _changing_arguments_spot(source, several)
    for call, kind in calls_on_new_objects(source):
        same = "create the object once before the loop: its tf.function is traced for each object"
        says = (
            f"{node_lookup.called_name(call)} is a tf.function of {kind}; each iteration creates a new one, which is "
            "traced"
        )
        yield spots.operation_spot(call, says, Prescription("edit", Effect.EXACT, same))


def _changing_arguments_spot(source: Source, several: list[ChangingArgument]) -> Spot:
    """The spot for the changing arguments of one call."""
    first = several[0]
    line, name = first.graph.function.lineno, first.graph.names[0]
    texts = [one.parameter for one in several if one.number == "text"]
    numbers = {one.parameter: "int" if one.number == "int" else "float" for one in several if one.number}
    known = {"": "an array of another shape", "object": "an object with other numbers",
             "held": "a structure with another Python number", "text": "another text, or contains one,"}  # fmt: skip
    what = known.get(first.number, "a Python number")
    says = f"{first.parameter} of {name}() is {what} in each iteration of the loop, and each is traced"
    if texts:
        cure = Prescription("edit", Effect.EXACT, f"do not pass the text to {name}(): {', '.join(texts)}")
    elif any(one.number in ("object", "held") for one in several):
        tensors = f"pass the parts of {first.parameter} that change as tensors (tf.constant)"
        cure = Prescription("edit", Effect.EQUIVALENT, tensors)
    elif len(numbers) == len(several):
        tensor = f"pass {first.parameter} as a tensor (tf.constant) or keep it in a tf.Variable"
        sure = all(one.number != "number" for one in several)
        changed = tuple(traced_arguments.pass_tensors(source, line, numbers)) if sure else ()
        cure = Prescription("edit", Effect.EQUIVALENT, tensor, edits=changed)
    else:
        opened = () if numbers else tuple(traced_arguments.reduce_retracing(source, line))
        pad = f"pad {first.parameter} to one shape, or declare an input_signature with None"
        left = f"let the graph leave the varying shape of {first.parameter} open: reduce_retracing=True"
        cure = Prescription("edit", Effect.EQUIVALENT, left if opened else pad, edits=opened)
    return spots.node_spot(first.given, says, cure)


def _assigned_in_loop(given: ast.expr, loop: ast.AST) -> ast.expr | None:
    """Return the value that the loop assigns to a name, or the expression itself."""
    if not isinstance(given, ast.Name):
        return given
    found = [
        n.value for n in scope_names.nodes_in_scope(list(getattr(loop, "body", [])))
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == given.id for t in n.targets)
    ]  # fmt: skip
    return found[0] if len(found) == 1 else None


def calls_on_new_objects(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Find calls of a ``tf.function`` method on an object that the loop creates, with the name of the class."""
    above = node_lookup.parents_of(source)
    for graph in graph_code.traced_functions(source):
        holder = above.get(graph.function)
        if not isinstance(holder, ast.ClassDef) or graph.function.name in ("call", "__call__"):
            continue
        for call in call_index.index_of(source).calls_of(graph.function.name):
            loops = scope_names.enclosing_loops(source, call)
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if (
                not loops
                or owner is None
                or scope_names.is_literal_loop(loops[0])
                or queries.has_few_turns(source, loops[0])
            ):
                continue
            made = _assigned_in_loop(owner, loops[0])
            if isinstance(made, ast.Call) and node_lookup.called_name(made) == holder.name:
                yield call, holder.name


def changing_arguments(source: Source) -> Iterator[ChangingArgument]:
    """Find arguments of a ``tf.function`` whose Python number, string or shape changes in each iteration of a loop."""
    for event, graph in graph_code.graph_calls(source):
        function = graph.of.node if graph.of is not None else None
        if not isinstance(function, ast.FunctionDef) or not isinstance(event.node, ast.Call):
            continue
        loops = {
            loop.number for loop in event.regular_loops(graph_code.MIN_REPEATED_TURNS) if loop.number not in graph.born
        }
        if not loops or any(name in graph.data for name in RETRACING_SETTINGS):
            continue
        found = graph_code.TracedFunction(function, (function.name,))
        for parameter, place, value in _given_arguments(event, event.node, function):
            number, held = _varying_part(value, loops)
            if number is not None:
                inside = (
                    interpreter.producing_expression(source, held) if held is not value and number != "text" else None
                )
                yield ChangingArgument(found, event.node, parameter, inside or place, number)


def _given_arguments(event: Event, call: ast.Call, function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr, Value]]:
    """Yield the parameter, the expression and the value of each argument."""
    names = scope_names.parameter_names(function)
    if event.on is not None and event.on.of is not None and event.on.of.of is not None:
        names = names[1:]  # a method's object
    written = [a for a in call.args if not isinstance(a, ast.Starred)]
    for i, value in enumerate(event.given.args):
        place = written[i] if len(written) == len(call.args) and i < len(written) else call.args[-1]
        yield names[i] if i < len(names) else "an argument", place, value
    places = {k.arg: k.value for k in call.keywords}
    for name, value in event.given.keywords.items():
        yield name, places.get(name, call), value


def _varying_part(value: Value, loops: set[int]) -> tuple[str | None, Value]:
    """Return how a value varies by iteration, as in ``retraces.Changing``, and the part that varies."""
    for one in value.nested_values():
        if one.kind == "number" and one.name not in ("bool", "few") and one.varies & loops:
            return (one.name or "number") if one is value else "object" if value.kind == "object" else "held", one
        if one.kind == "text" and one.name == "counted" and one.varies & loops and value.kind != "object":
            return "text", one
        if one.kind in ("array", "tensor") and one.ragged & loops:
            return "", one
    return None, value
