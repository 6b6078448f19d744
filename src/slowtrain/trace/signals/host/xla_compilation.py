"""Whether XLA compiled a traced function, and which ``compile()`` of Keras decided it."""

from __future__ import annotations

from slowtrain.columns.spans import Event
from slowtrain.trace import Trace


def is_xla_compiled(trace: Trace, event: Event) -> bool:
    """Return whether XLA compiled what this event traced."""
    if event.data.get("jit_compile") is not None:
        return event.data["jit_compile"] is True
    loops = [e for e in trace.events_of("loop") if e.start_ms <= event.start_ms <= e.end_ms]
    if loops:
        return any(e.data.get("jit_compile") is True for e in loops)
    made = deciding_compile_call(trace, event)
    return made is not None and made.data.get("jit_compile") is True


def deciding_compile_call(trace: Trace, event: Event) -> Event | None:
    """Return the last ``compile()`` before a Keras function was traced; None for a function of the script."""
    inside = any(e.start_ms <= event.start_ms <= e.end_ms for e in trace.events_of("loop"))
    if not inside and not event.data.get("keras") and "one_step_on" not in event.name:
        return None
    models = {e.data.get("model") for e in trace.events_of("loop") if e.start_ms <= event.start_ms <= e.end_ms}
    before = [e for e in trace.events_of("compile") if e.start_ms <= event.start_ms]
    mine = [e for e in before if e.data.get("model") in models - {None}]
    return max(mine or before, key=lambda e: e.start_ms, default=None)
