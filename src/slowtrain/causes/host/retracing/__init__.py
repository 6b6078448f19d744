"""A tf.function is traced again and again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slowtrain.causes import Cause
from slowtrain.columns.arrays import Floats, median_value
from slowtrain.columns.spans import Event
from slowtrain.model import Category, Evidence, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_places
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.retraces import TracedFunction, signature_changes, traces_by_function
from slowtrain.whatif import Drop, Remedy

MIN_RETRACES = 3  # of one function: Keras' own functions are traced again for a smaller last batch
MIN_COMPILE_SHARE = 0.2  # of the steady steps
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
            source_places.merge_places(self.lines_to_change(trace, finding), places),
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


def _changes_text(changes: Sequence[ChangedArgument]) -> str:
    if not changes:
        return "none of its recorded arguments changed; it may depend on Python state outside them"
    texts = [f"{one.name}: {one.change}" for one in changes[:2]]
    more = f" and {len(changes) - 2} more" if len(changes) > 2 else ""
    return "; ".join(texts) + more
