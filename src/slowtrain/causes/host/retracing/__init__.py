"""A tf.function is traced again and again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.arrays import Floats, median_value
from slowtrain.columns.spans import Event
from slowtrain.model import Category, Evidence, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_places
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.retraces import TracedFunction, traces_by_function
from slowtrain.whatif import Drop, Remedy

MIN_RETRACES = 3  # of one function: Keras' own functions are traced again for a smaller last batch
MIN_COMPILE_SHARE = 0.2  # of the steady steps
NEW_OBJECT = re.compile(r"a new (\w+) object each call")
SignatureLeaves = Mapping[str, Mapping[str, Any]]


class ChangedArgument(Struct, frozen=True):
    """An argument that differs between the traces of a function, and how."""

    name: str
    traces: int
    change: str


class RetracingFinding(Struct, frozen=True):
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


def signature_changes(events: Sequence[Event]) -> list[tuple[str, int, str]]:
    """Return leaves that differ between traces: name, number of traces, newest change in words; most frequent first."""
    seen: dict[str, tuple[int, str]] = {}
    signatures = [e.data.get("signature") or {} for e in events]
    for i, after in enumerate(signatures[1:], 1):
        before = _nearest_signature(signatures[:i], after)
        grown = [
            n
            for n, leaf in after.items()
            if leaf.get("kind") == "sequence" and n in before and _leaf_change(before[n], leaf)
        ]
        for name, leaf in after.items():
            if any(name.startswith(f"{g}[") for g in grown) and name not in before:
                continue  # new items of a longer list are covered by the change of its length
            text = _leaf_change(before.get(name), leaf)
            if text:
                count, _ = seen.get(name, (0, ""))
                seen[name] = (count + 1, text)
    return sorted(((n, c, t) for n, (c, t) in seen.items()), key=lambda r: (-r[1], len(r[0]), r[0]))


def common_axes(events: Sequence[Event]) -> dict[str, tuple[int | None, ...] | None]:
    """Return the common size of each axis of tensors and arrays in all traces.

    None for a size that differs; None instead of the sizes if the ranks differ.
    """
    signatures = [e.data.get("signature") or {} for e in events]
    found: dict[str, tuple[int | None, ...] | None] = {}
    for name in set(signatures[0]).intersection(*signatures) if signatures else ():
        leaves = [signature[name] for signature in signatures]
        shapes = [leaf.get("shape") for leaf in leaves if leaf.get("kind") in ("tensor", "array")]
        if len(shapes) == len(leaves) and all(isinstance(shape, list) for shape in shapes):
            alike = len({len(shape or ()) for shape in shapes}) == 1
            each = zip(*(shape or () for shape in shapes), strict=True) if alike else ()
            found[name] = tuple(s[0] if len(set(s)) == 1 else None for s in each) if alike else None
    return found


def _nearest_signature(earlier: Sequence[SignatureLeaves], after: SignatureLeaves) -> SignatureLeaves:
    """Return the earlier signature that differs least, the newest of equals: it shows what was new."""

    def difference(before: SignatureLeaves) -> int:
        return sum(
            before.get(name) != leaf and _leaf_change(before.get(name), leaf) != "" for name, leaf in after.items()
        )

    return min(reversed(earlier[-50:]), key=difference)


def _leaf_change(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> str:
    if before is None:
        return "a new argument"
    kinds = before.get("kind"), after.get("kind")
    if kinds[0] != kinds[1]:
        return f"{_leaf_kind(before)} → {_leaf_kind(after)}"
    if kinds[1] == "python" and before.get("value") != after.get("value"):
        return f"{before.get('value')} → {after.get('value')}, {_leaf_kind(after)}"
    if kinds[1] == "sequence" and before.get("length") != after.get("length"):
        return f"a list of {before.get('length')} → of {after.get('length')}"
    if kinds[1] == "object":
        return f"a new {after.get('type')} object in each call" if before.get("id") != after.get("id") else ""
    if kinds[1] in ("tensor", "array", "variable"):
        if before.get("dtype") != after.get("dtype"):
            return f"dtype {before.get('dtype')} → {after.get('dtype')}"
        if before.get("shape") != after.get("shape"):
            return f"shape {_leaf_shape(before)} → {_leaf_shape(after)}"
    return ""


def _leaf_kind(leaf: Mapping[str, Any]) -> str:
    kind = leaf.get("kind")
    if kind == "python":
        return f"a Python {leaf.get('type')}"
    return f"a {leaf.get('type')} object" if kind == "object" else f"a {kind}"


def _leaf_shape(leaf: Mapping[str, Any]) -> str:
    dims = [str(d) for d in leaf.get("shape") or ()]
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"
