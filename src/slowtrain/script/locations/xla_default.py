"""Whether a script asked for XLA, or Keras chose it."""

from __future__ import annotations

from slowtrain.columns.spans import Event
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import node_lookup
from slowtrain.trace import Trace

KERAS_CHOICES = ("absent", "auto")


def is_xla_default(trace: Trace, compiled: Event | None) -> bool | None:
    """Whether ``compile()`` left it to Keras, which uses XLA on a GPU since version 3; None if unknown."""
    if compiled is None:
        return None
    given = compiled.data.get("jit_compile_given")
    if given is not None:
        return given in KERAS_CHOICES
    keras = str(trace.facts.get("version.keras") or "")
    if not trace.on_accelerator or not keras.startswith("3."):
        return False
    return _omits_jit_compile(trace, compiled)  # the recording does not hold the argument


def _omits_jit_compile(trace: Trace, compiled: Event) -> bool | None:
    """Whether the call at that line has no ``jit_compile``, by its text."""
    source = recorded_source(trace, compiled.place.file) if compiled.place is not None else None
    call = (
        node_lookup.single_call(source, compiled.place.line, "compile")
        if source is not None and compiled.place
        else None
    )
    if call is None or any(k.arg is None for k in call.keywords):
        return None
    given = node_lookup.argument_value(call, "jit_compile", node_lookup.JIT_COMPILE_POSITION)
    return given is None or getattr(given, "value", None) == "auto"
