"""A tf.function is traced again and again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from slowtrain.causes import Cause
from slowtrain.columns.array_statistics import median_value
from slowtrain.columns.arrays import Floats
from slowtrain.columns.spans import Event
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import class_members
from slowtrain.source.cures import measured
from slowtrain.source.cures.host import retraced
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.retraces import TracedFunction, common_axes, signature_changes, traces_by_function
from slowtrain.whatif import Drop, Remedy

LEAST = 3  # traces of one function after its first: Keras' own functions see a last, smaller batch, and relax
DEAR = 0.2  # of the steady steps
OTHERWISE = "give the function the same objects each time, and tensors for what changes"
BOTH = "pass the numbers that change as tensors, and leave the varying shapes open: reduce_retracing=True"
ENTRY = re.compile(r"(\w+)\['(\w+)'\]")  # of a mapping, as a signature calls it
ITEM = re.compile(r"\w+\[\d+\]")  # of a tuple, with names or without
NEW_OBJECT = re.compile(r"a new (\w+) object each call")


class Retracing(Cause[Evidence]):
    """A `tf.function` is traced again and again, because an argument keeps changing."""

    title = "a tf.function is traced again and again"
    needs = frozenset({Signal.STEPS, Signal.TRACES})
    words = (".function", "import function")

    def find(self, trace: Trace) -> Evidence | None:
        found = trace.once(_again)
        if not found:
            return None
        worst = found[0]
        count, calls = len(worst.again), max(len(worst.calls), len(worst.events))
        each = float(median_value([worst.extra_ms(e) for e in worst.again]))
        what = "a profile does not hold its arguments" if trace.fact("profile") else _what(trace.once(_changed))
        places = [p for p in (worst.place, worst.written) if p is not None]
        return Evidence(
            f"{worst.name} was traced again {count} times in {calls} calls, {format_number(each)} ms each: {what}",
            {"retraces": float(count), "calls": float(calls), "retrace_ms": each, "usual_ms": worst.usual_ms},
            source_locations.merge_places(_made(trace, worst), places),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = trace.once(_again)
        events = [(f, e) for f in found for e in f.again]
        column, traced = _added(trace, events)
        steady = trace.steps.steady
        compiling = trace.categories.get(Category.COMPILE, np.zeros(len(trace.steps)))
        compile_ms = float(np.minimum(column, compiling)[steady].mean()) if steady.any() else 0.0
        # What is collected while tracing was made by tracing.
        collected = trace.categories.get(Category.GC, np.zeros(len(trace.steps)))
        rest = collected[steady & ~traced]
        own = np.maximum(collected - (rest.mean() if len(rest) else 0.0), 0.0)
        gc_ms = float(own[steady & traced].sum()) / max(int(steady.sum()), 1)
        # Padded inputs compute more than ragged ones; without a call that traced nothing the rest is an estimate.
        spread = (0.97, 1.01) if all(f.measured for f in found) else (0.95, 1.015)
        return [Drop({Category.COMPILE: compile_ms, Category.GC: gc_ms}, spread=spread)]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        found = trace.once(_again)
        rows = trace.once(_changed)
        text = rows[0][2] if rows else ""
        if trace.on_jax:
            yield Prescription("edit", Effect.EQUIVALENT, _on_jax(rows[0][0], text) if rows else OTHERWISE)
        elif both := _both(trace, found[0], rows) if found else ():
            yield Prescription("edit", Effect.EQUIVALENT, BOTH, edits=both)
        elif "Python" in text:
            tensor = f"pass {rows[0][0]} as a tensor (tf.constant) or keep it in a tf.Variable"
            yield Prescription("edit", Effect.EQUIVALENT, tensor, edits=_as_tensors(trace, found[0], rows))
        elif "shape" in text or "list" in text:
            opened = _opened(trace, found[0], rows)
            if opened:
                says = f"let the graph leave the varying shape of {rows[0][0]} open: reduce_retracing=True"
                yield Prescription("edit", Effect.EQUIVALENT, says, edits=opened)
            pad = f"pad {rows[0][0]} to one shape, or declare an input_signature with None"
            yield Prescription("edit", Effect.EQUIVALENT, pad)
        elif len(rows) == 1 and NEW_OBJECT.fullmatch(text):
            says = f"pass the numbers of {rows[0][0]} as tensors: each new object is traced"
            yield Prescription("edit", Effect.EQUIVALENT, says)
        else:
            yield Prescription("edit", Effect.EXACT, OTHERWISE)


def _as_tensors(trace: Trace, worst: TracedFunction, rows: list[tuple[str, int, str]]) -> tuple[Edit, ...]:
    """Calls with every argument that changes as a Python number given as a tensor; none where others change too."""
    numbers: dict[str, str] = {}
    entries: dict[str, str] = {}
    for name, _, text in rows:
        kind = "float" if text.endswith("a Python float") else "int" if text.endswith("a Python int") else ""
        if not kind:
            return ()
        base = name.partition("[")[0].partition(".")[0]
        numbers[base] = "float" if "float" in (kind, numbers.get(base)) else kind
        entry = ENTRY.fullmatch(name)
        entries |= {entry.group(2): kind} if entry else {}
    written = [worst.written] if worst.written is not None else []
    if len(entries) == len(rows) and len(numbers) == 1:
        (whole,) = numbers
        return measured.first(trace, written, lambda source, line: retraced.as_entries(source, line, whole, entries))
    return measured.first(trace, written, lambda source, line: retraced.as_tensors(source, line, numbers))


def _opened(trace: Trace, worst: TracedFunction, rows: list[tuple[str, int, str]]) -> tuple[Edit, ...]:
    """``reduce_retracing``, where nothing but shapes changes, each of one rank: of several, a graph would know none."""
    if worst.written is None or not all(text.startswith("shape") for _, _, text in rows):
        return ()
    known = common_axes(worst.events)
    if any(known.get(name, ()) is None for name, _, _ in rows):
        return ()
    return measured.first(trace, [worst.written], lambda source, line: retraced.reduced(source, line, known))


def _both(trace: Trace, worst: TracedFunction, rows: list[tuple[str, int, str]]) -> tuple[Edit, ...]:
    """Numbers as tensors and shapes left open, where a function is traced for either."""
    shapes = [row for row in rows if row[2].startswith("shape")]
    numbers = [row for row in rows if row not in shapes]
    opened = _opened(trace, worst, shapes) if shapes and numbers else ()
    given = _as_tensors(trace, worst, numbers) if opened else ()
    text = recorded_source(trace, opened[0].file) if opened else None
    together = tuple(dict.fromkeys((*given, *opened)))
    return together if given and text is not None and measured.parses(text, together) else ()


def _on_jax(name: str, changed: str) -> str:
    """There numbers are traced by their type alone, unless the script says that they are static."""
    if "Python" in changed:
        return f"let {name} be traced: take it out of static_argnums and static_argnames"
    if "shape" in changed or "list" in changed:
        return f"pad {name} to one shape, or to a few"
    return f"give the function {name} as the same object, or the same kind of array, each time"


def _again(trace: Trace) -> list[TracedFunction]:
    """Functions that go on being traced, those that cost most first."""
    found = []
    for one in traces_by_function(trace):
        if len(one.again) < LEAST or not (_goes_on(one) or _dear(trace, one)):
            continue
        found.append(one)
    return sorted(found, key=lambda f: -sum(f.extra_ms(e) for e in f.again))


def _dear(trace: Trace, one: TracedFunction) -> bool:
    """Whether tracing again, though it may end, takes much of the steady steps: short runs never get to its end."""
    steady = trace.steps.steady
    if not steady.any():
        return False
    begins = float(trace.steps.start_ms[steady][0])
    late = [e for e in one.again if e.start_ms >= begins]
    return len(late) >= LEAST and trace.share(Category.COMPILE) >= DEAR


def _goes_on(one: TracedFunction) -> bool:
    """Whether at least two traces lie in the second half of the calls: what stops early was warm-up."""
    starts = one.calls.start_ms if len(one.calls) else np.array([e.start_ms for e in one.events])
    middle = float(median_value(starts))
    return sum(e.start_ms > middle for e in one.events) >= 2


def _added(trace: Trace, events: list[tuple[TracedFunction, Event]]) -> tuple[Floats, np.ndarray]:
    """Ms that the traces added to each step, and which steps they were in."""
    column = np.zeros(len(trace.steps))
    for function, event in events:
        i = int(np.searchsorted(trace.steps.start_ms, event.end_ms)) - 1
        if i >= 0:
            column[i] += function.extra_ms(event)
    return column, column > 0


def _made(trace: Trace, worst: TracedFunction) -> tuple[Place, ...]:
    """Where what changes is put into an argument that holds more, or the object is made that is new in each call."""
    written = recorded_source(trace, worst.written.file) if worst.written is not None else None
    function = (
        source_locations.function_defined_at(written, worst.written.line)
        if written is not None and worst.written is not None
        else None
    )
    if trace.fact("profile") or worst.place is None or written is None or function is None:
        return ()
    given, found = class_members.positional_parameters(written, function), list[Place]()
    for name, _, text in trace.once(_changed):
        base = re.split(r"[.\[]", name, maxsplit=1)[0]
        inside = name[len(base) :]
        if base not in given or not (inside or NEW_OBJECT.fullmatch(text)):
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


def _changed(trace: Trace) -> list[tuple[str, int, str]]:
    """What differs between the traces of the worst of them."""
    found = trace.once(_again)
    return signature_changes(found[0].events) if found else []


def _what(rows: Sequence[tuple[str, int, str]]) -> str:
    if not rows:
        return "none of its arguments changed as recorded; it may depend on Python state outside them"
    texts = [f"{name}: {text}" for name, _, text in rows[:2]]
    more = f" and {len(rows) - 2} more" if len(rows) > 2 else ""
    return "; ".join(texts) + more
