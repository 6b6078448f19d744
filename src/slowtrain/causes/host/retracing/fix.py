"""Passes tensors in place of numbers, and leaves shapes open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from slowtrain.causes.host.retracing import NEW_OBJECT, ChangedArgument, RetracingFinding, common_axes
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.fixes.loops import traced_arguments
from slowtrain.script.locations import source_locations, source_places
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import class_members
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.retraces import TracedFunction

SAME_OBJECTS = "give the function the same objects each time, and tensors for what changes"
TENSORS_AND_OPEN_SHAPES = (
    "pass the numbers that change as tensors, and leave the varying shapes open: reduce_retracing=True"
)
MAPPING_ENTRY = re.compile(r"(\w+)\['(\w+)'\]")  # its name in a signature


def find_cures(trace: Trace, finding: RetracingFinding) -> Iterable[Prescription]:
    worst, changes = finding.worst, finding.changes
    name, change = (changes[0].name, changes[0].change) if changes else ("", "")
    if trace.on_jax:
        yield Prescription("edit", Effect.EQUIVALENT, _jax_cure_text(name, change) if changes else SAME_OBJECTS)
    elif combined := _combined_edits(trace, worst, changes):
        yield Prescription("edit", Effect.EQUIVALENT, TENSORS_AND_OPEN_SHAPES, edits=combined)
    elif "Python" in change:
        says = f"pass {name} as a tensor (tf.constant) or keep it in a tf.Variable"
        yield Prescription("edit", Effect.EQUIVALENT, says, edits=_tensor_argument_edits(trace, worst, changes))
    elif "shape" in change or "list" in change:
        if opened := _open_shape_edits(trace, worst, changes):
            says = f"let the graph leave the varying shape of {name} open: reduce_retracing=True"
            yield Prescription("edit", Effect.EQUIVALENT, says, edits=opened)
        says = f"pad {name} to one shape, or declare an input_signature with None"
        yield Prescription("edit", Effect.EQUIVALENT, says)
    elif len(changes) == 1 and NEW_OBJECT.fullmatch(change):
        says = f"pass the numbers of {name} as tensors: each new object is traced"
        yield Prescription("edit", Effect.EQUIVALENT, says)
    else:
        yield Prescription("edit", Effect.EXACT, SAME_OBJECTS)


def find_lines(trace: Trace, finding: RetracingFinding) -> Iterable[Place]:
    """Lines that put the changing part into an argument, or that create the object which is new in each call."""
    worst = finding.worst
    written = recorded_source(trace, worst.definition.file) if worst.definition is not None else None
    function = (
        source_locations.function_defined_at(written, worst.definition.line)
        if written is not None and worst.definition is not None
        else None
    )
    if trace.fact("profile") or worst.place is None or written is None or function is None:
        return ()
    given, found = class_members.positional_parameters(written, function), list[Place]()
    for one in finding.changes:
        base = re.split(r"[.\[]", one.name, maxsplit=1)[0]
        inside = one.name[len(base) :]
        if base not in given or not (inside or NEW_OBJECT.fullmatch(one.change)):
            continue
        argument = (base, given.index(base))
        found += source_places.file_places(
            trace,
            worst.place,
            lambda source, line, argument=argument, inside=inside: source_locations.argument_part_lines(  # type: ignore[misc]
                source, line, worst.name, argument, inside
            ),
        )
    return tuple(found)


def _tensor_argument_edits(trace: Trace, worst: TracedFunction, changes: Sequence[ChangedArgument]) -> tuple[Edit, ...]:
    """Passes every argument that changes as a Python number as a tensor; empty if other arguments change too."""
    numbers: dict[str, str] = {}
    entries: dict[str, str] = {}
    for one in changes:
        kind = (
            "float" if one.change.endswith("a Python float") else "int" if one.change.endswith("a Python int") else ""
        )
        if not kind:
            return ()
        base = one.name.partition("[")[0].partition(".")[0]
        numbers[base] = "float" if "float" in (kind, numbers.get(base)) else kind
        entry = MAPPING_ENTRY.fullmatch(one.name)
        entries |= {entry.group(2): kind} if entry else {}
    written = [worst.definition] if worst.definition is not None else []
    if len(entries) == len(changes) and len(numbers) == 1:
        (whole,) = numbers
        return recorded_edits.first_applicable(
            trace, written, lambda source, line: traced_arguments.pass_tensor_entries(source, line, whole, entries)
        )
    return recorded_edits.first_applicable(
        trace, written, lambda source, line: traced_arguments.pass_tensors(source, line, numbers)
    )


def _open_shape_edits(trace: Trace, worst: TracedFunction, changes: Sequence[ChangedArgument]) -> tuple[Edit, ...]:
    """Adds ``reduce_retracing`` if only shapes change and each keeps its rank. With several ranks none is known."""
    if worst.definition is None or not all(one.change.startswith("shape") for one in changes):
        return ()
    known = common_axes(worst.events)
    if any(known.get(one.name, ()) is None for one in changes):
        return ()
    return recorded_edits.first_applicable(
        trace, [worst.definition], lambda source, line: traced_arguments.reduce_retracing(source, line, known)
    )


def _combined_edits(trace: Trace, worst: TracedFunction, changes: Sequence[ChangedArgument]) -> tuple[Edit, ...]:
    """Passes numbers as tensors and leaves shapes open, if the function is traced again for both."""
    shapes = [one for one in changes if one.change.startswith("shape")]
    numbers = [one for one in changes if one not in shapes]
    opened = _open_shape_edits(trace, worst, shapes) if shapes and numbers else ()
    given = _tensor_argument_edits(trace, worst, numbers) if opened else ()
    text = recorded_source(trace, opened[0].file) if opened else None
    together = tuple(dict.fromkeys((*given, *opened)))
    return together if given and text is not None and recorded_edits.are_valid_edits(text, together) else ()


def _jax_cure_text(name: str, change: str) -> str:
    """The cure on JAX, which traces numbers by their type unless the script declares them static."""
    if "Python" in change:
        return f"let {name} be traced: take it out of static_argnums and static_argnames"
    if "shape" in change or "list" in change:
        return f"pad {name} to one shape, or to a few"
    return f"give the function {name} as the same object, or the same kind of array, each time"
