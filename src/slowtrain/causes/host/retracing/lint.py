"""Finds the cause host/retracing in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.loops import traced_arguments
from slowtrain.script.lint_rules.host import traced_functions
from slowtrain.script.lint_rules.steps import reached_code
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Arguments that a loop changes as Python numbers, lists or shapes; methods of objects that it creates."""
    found: dict[ast.Call, list[traced_functions.ChangingArgument]] = {}
    for one in reached_code.changing_arguments(source):
        if all(one.parameter != known.parameter for known in found.get(one.call, ())):
            found.setdefault(one.call, []).append(one)
    for several in found.values():
        yield _changing_arguments_spot(source, several)
    for call, kind in traced_functions.calls_on_new_objects(source):
        same = "create the object once before the loop: its tf.function is traced for each object"
        says = (
            f"{node_lookup.called_name(call)} is a tf.function of {kind}; each iteration creates a new one, which is "
            "traced"
        )
        yield Spot(*call_index.operation_range(call), says, Prescription("edit", Effect.EXACT, same))


def _changing_arguments_spot(source: Source, several: list[traced_functions.ChangingArgument]) -> Spot:
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
    return Spot(edits.node_start(first.given), edits.node_end(first.given), says, cure)
