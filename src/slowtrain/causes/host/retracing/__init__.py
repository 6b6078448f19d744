"""A tf.function is traced again and again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from slowtrain.causes import Cause
from slowtrain.columns.arrays import Floats, median_value
from slowtrain.columns.spans import Event
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.fixes.loops import traced_arguments
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import class_members
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.retraces import TracedFunction, common_axes, signature_changes, traces_by_function
from slowtrain.whatif import Drop, Remedy

MIN_RETRACES = 3  # of one function: Keras' own functions are traced again for a smaller last batch
MIN_COMPILE_SHARE = 0.2  # of the steady steps
SAME_OBJECTS = "give the function the same objects each time, and tensors for what changes"
TENSORS_AND_OPEN_SHAPES = (
    "pass the numbers that change as tensors, and leave the varying shapes open: reduce_retracing=True"
)
MAPPING_ENTRY = re.compile(r"(\w+)\['(\w+)'\]")  # its name in a signature
NEW_OBJECT = re.compile(r"a new (\w+) object each call")


@dataclass(frozen=True)
class ChangedArgument:
    """An argument that differs between the traces of a function, and how."""

    name: str
    traces: int
    change: str


@dataclass(frozen=True)
class RetracingFinding:
    """At least one retraced function, the costliest first, and the arguments that change for that one."""

    functions: tuple[TracedFunction, ...]
    changes: tuple[ChangedArgument, ...]

    @property
    def worst(self) -> TracedFunction:
        return self.functions[0]


class Retracing(Cause[RetracingFinding]):
    """A `tf.function` is traced again and again, because an argument keeps changing."""

    title = "A tf.function is traced again and again"
    needs = frozenset({Signal.STEPS, Signal.TRACES})
    words = (".function", "import function")

    def find(self, trace: Trace) -> RetracingFinding | None:
        functions = _retraced_functions(trace)
        if not functions:
            return None
        changes = (ChangedArgument(*row) for row in signature_changes(functions[0].events))
        return RetracingFinding(tuple(functions), tuple(changes))

    def evidence(self, trace: Trace, finding: RetracingFinding) -> Evidence:
        worst = finding.worst
        count, calls = len(worst.later_traces), max(len(worst.calls), len(worst.events))
        each = float(median_value([worst.extra_ms(e) for e in worst.later_traces]))
        what = "a profile does not hold its arguments" if trace.fact("profile") else _changes_text(finding.changes)
        places = [p for p in (worst.place, worst.definition) if p is not None]
        return Evidence(
            f"{worst.name} was traced again {count} times in {calls} calls, {format_number(each)} ms each: {what}",
            {"retraces": float(count), "calls": float(calls), "retrace_ms": each, "usual_ms": worst.usual_ms},
            source_locations.merge_places(_places_of_changes(trace, finding), places),
        )

    def remedies(self, trace: Trace, finding: RetracingFinding) -> Sequence[Remedy]:
        events = [(f, e) for f in finding.functions for e in f.later_traces]
        column, traced = _tracing_per_step(trace, events)
        steady = trace.steps.steady
        compiling = trace.categories.get(Category.COMPILE, np.zeros(len(trace.steps)))
        compile_ms = float(np.minimum(column, compiling)[steady].mean()) if steady.any() else 0.0
        # Garbage that is collected while tracing comes from tracing.
        collected = trace.categories.get(Category.GC, np.zeros(len(trace.steps)))
        rest = collected[steady & ~traced]
        own = np.maximum(collected - (rest.mean() if len(rest) else 0.0), 0.0)
        gc_ms = float(own[steady & traced].sum()) / max(int(steady.sum()), 1)
        # Padded inputs compute more than ragged ones. Without a call that did not trace, the rest is an estimate.
        spread = (0.97, 1.01) if all(f.measured for f in finding.functions) else (0.95, 1.015)
        return [Drop({Category.COMPILE: compile_ms, Category.GC: gc_ms}, spread=spread)]

    def cures(self, trace: Trace, finding: RetracingFinding) -> Iterable[Prescription]:
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


def _retraced_functions(trace: Trace) -> list[TracedFunction]:
    """Functions that continue to be traced, in order of decreasing cost."""
    found = [
        one
        for one in traces_by_function(trace)
        if len(one.later_traces) >= MIN_RETRACES and (_continues_retracing(one) or _takes_much_of_steps(trace, one))
    ]
    return sorted(found, key=lambda f: -sum(f.extra_ms(e) for e in f.later_traces))


def _takes_much_of_steps(trace: Trace, one: TracedFunction) -> bool:
    """Whether retracing takes much of the steady steps. It may end later, but a short run does not get that far."""
    steady = trace.steps.steady
    if not steady.any():
        return False
    begins = float(trace.steps.start_ms[steady][0])
    late = [e for e in one.later_traces if e.start_ms >= begins]
    return len(late) >= MIN_RETRACES and trace.share(Category.COMPILE) >= MIN_COMPILE_SHARE


def _continues_retracing(one: TracedFunction) -> bool:
    """Whether at least two traces are in the second half of the calls. If tracing stops earlier, it is warm-up."""
    starts = one.calls.start_ms if len(one.calls) else np.array([e.start_ms for e in one.events])
    middle = float(median_value(starts))
    return sum(e.start_ms > middle for e in one.events) >= 2


def _tracing_per_step(trace: Trace, events: list[tuple[TracedFunction, Event]]) -> tuple[Floats, np.ndarray]:
    """Milliseconds that the traces added to each step, and which steps contain traces."""
    column = np.zeros(len(trace.steps))
    for function, event in events:
        i = int(np.searchsorted(trace.steps.start_ms, event.end_ms)) - 1
        if i >= 0:
            column[i] += function.extra_ms(event)
    return column, column > 0


def _places_of_changes(trace: Trace, finding: RetracingFinding) -> tuple[Place, ...]:
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
        found += source_locations.file_places(
            trace,
            worst.place,
            lambda source, line, argument=argument, inside=inside: source_locations.argument_part_lines(  # type: ignore[misc]
                source, line, worst.name, argument, inside
            ),
        )
    return tuple(found)


def _changes_text(changes: Sequence[ChangedArgument]) -> str:
    if not changes:
        return "none of its recorded arguments changed; it may depend on Python state outside them"
    texts = [f"{one.name}: {one.change}" for one in changes[:2]]
    more = f" and {len(changes) - 2} more" if len(changes) > 2 else ""
    return "; ".join(texts) + more
