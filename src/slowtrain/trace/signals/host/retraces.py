"""Traces of functions: which function was traced again, how its arguments had changed, whether XLA compiled it."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slowtrain.columns.arrays import median_value
from slowtrain.columns.spans import Event, Spans
from slowtrain.model import Place
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import graph_step_ms, kernel_ms, starts_in_windows

SignatureLeaves = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class TracedFunction:
    """One function and its traces in order. ``calls`` are its calls on any thread."""

    text: str
    events: tuple[Event, ...]
    calls: Spans
    usual_ms: float  # a call that does not trace
    measured: bool  # whether such calls were recorded

    @property
    def name(self) -> str:
        return self.text.rpartition(".")[2]

    @property
    def place(self) -> Place | None:
        """Where it is called."""
        return self.events[-1].place

    @property
    def definition(self) -> Place | None:
        """Where it is defined."""
        data = self.events[-1].data
        return Place(str(data["file"]), int(data["line"])) if data.get("file") and data.get("line") else None

    @property
    def later_traces(self) -> tuple[Event, ...]:
        """Traces after the function's first one, which may have come before a profile."""
        first = self.events and int(self.events[0].data.get("nth") or 1) == 1
        return self.events[1:] if first else self.events

    def extra_ms(self, event: Event) -> float:
        """Return the time that the trace added to its call."""
        return max(event.ms - self.usual_ms, 0.0)


def traces_by_function(trace: Trace) -> list[TracedFunction]:
    """Return each function object with all its traces."""
    groups: dict[Any, list[Event]] = {}
    for owner, event in _traces_with_owner(trace):
        groups.setdefault(owner, []).append(event)
    return [_traced_function(trace, events) for events in groups.values()]


def first_traces_by_definition(trace: Trace) -> list[TracedFunction]:
    """Return first traces of all function objects from one definition that are called on one line."""
    groups: dict[Any, list[Event]] = {}
    for _, event in _traces_with_owner(trace):
        if int(event.data.get("nth") or 1) == 1:
            trains = bool(event.data.get("training"))
            key = (event.data.get("file"), event.data.get("line"), event.name, str(event.data.get("site")), trains)
            groups.setdefault(key, []).append(event)
    return [_traced_function(trace, events) for events in groups.values()]


def _traces_with_owner(trace: Trace) -> Iterator[tuple[Any, Event]]:
    """Yield each trace with its function object.

    JAX gives Keras' functions only a name, equal for all models. Then the owner is the model at work, with new
    functions after each `compile`.
    """
    compiled = sorted(e.start_ms for e in trace.events_of("compile"))
    loops = [e for e in trace.events_of("loop") if e.data.get("model") is not None]
    counts: dict[Any, int] = {}
    for event in trace.events_of("trace"):
        owner = event.data.get("number", event.name)
        if event.data.get("keras") and event.data.get("jit"):
            models = [e.data["model"] for e in loops if e.start_ms <= event.start_ms <= e.end_ms]
            owner = (owner, models[-1] if models else None, bisect(compiled, event.start_ms))
            counts[owner] = counts.get(owner, 0) + 1
            event = replace(event, data={**event.data, "nth": counts[owner]})
        yield owner, event


def _traced_function(trace: Trace, events: list[Event]) -> TracedFunction:
    calls = trace.lane("function")
    numbers = {e.data.get("number") for e in events}
    mine = [i for i, n in enumerate(trace.names) if n.lane == "function" and n.detail.get("number") in numbers]
    calls = calls.where(np.isin(calls.name, mine))
    begun = np.array([e.start_ms for e in events])
    plain = calls.where(~np.isin(calls.start_ms, begun))
    plain = plain.where(~starts_in_windows(trace, plain))
    if len(plain) >= 3:
        return TracedFunction(events[0].name, tuple(events), calls, float(median_value(plain.ms)), True)
    kernels = trace.kernels
    usual = graph_step_ms(trace, kernels.count, kernel_ms(kernels)) if kernels is not None else 0.0
    least = min((e.ms for e in events), default=0.0)
    return TracedFunction(events[0].name, tuple(events), calls, min(usual, 0.5 * least), False)


# -- what changed


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


def is_xla_compiled(trace: Trace, event: Event) -> bool:
    """Return whether XLA compiled what this event traced."""
    if event.data.get("jit_compile") is not None:
        return event.data["jit_compile"] is True
    loops = [e for e in trace.events_of("loop") if e.start_ms <= event.start_ms <= e.end_ms]
    if loops:
        return any(e.data.get("jit_compile") is True for e in loops)
    compile_call = deciding_compile_call(trace, event)
    return compile_call is not None and compile_call.data.get("jit_compile") is True


def deciding_compile_call(trace: Trace, event: Event) -> Event | None:
    """Return the last ``compile()`` before a Keras function was traced; None for a function of the script."""
    inside = any(e.start_ms <= event.start_ms <= e.end_ms for e in trace.events_of("loop"))
    if not inside and not event.data.get("keras") and "one_step_on" not in event.name:
        return None
    models = {e.data.get("model") for e in trace.events_of("loop") if e.start_ms <= event.start_ms <= e.end_ms}
    before = [e for e in trace.events_of("compile") if e.start_ms <= event.start_ms]
    mine = [e for e in before if e.data.get("model") in models - {None}]
    return max(mine or before, key=lambda e: e.start_ms, default=None)
