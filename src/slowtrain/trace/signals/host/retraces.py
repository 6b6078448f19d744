"""Traces of functions: which function was traced again, and whether XLA compiled it."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns.arrays import median_value
from slowtrain.columns.spans import Event, Spans
from slowtrain.model import Place
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import graph_step_ms, kernel_ms, starts_in_windows


class TracedFunction(Struct, frozen=True):
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
