"""Whether a script asked for XLA, or Keras chose it."""

from __future__ import annotations

from slowtrain.source.reading import finding
from slowtrain.source.reading.recorded import text_of
from slowtrain.trace import Event, Trace

JIT_COMPILE_AT = 7  # among the positional arguments of compile(), in Keras 2 and 3
LEFT_TO_KERAS = ("absent", "auto")


def by_default(trace: Trace, compiled: Event | None) -> bool | None:
    """Whether ``compile()`` left it to Keras, which uses XLA on a GPU since version 3; None if unknown."""
    if compiled is None:
        return None
    given = compiled.data.get("jit_compile_given")
    if given is not None:
        return given in LEFT_TO_KERAS
    keras = str(trace.facts.get("version.keras") or "")
    if not trace.on_accelerator or not keras.startswith("3."):
        return False
    return _left_out(trace, compiled)  # the recording does not hold the argument


def _left_out(trace: Trace, compiled: Event) -> bool | None:
    """Whether the call at that line has no ``jit_compile``, by its text."""
    source = text_of(trace, compiled.place.file) if compiled.place is not None else None
    call = finding.only(source, compiled.place.line, "compile") if source is not None and compiled.place else None
    if call is None or any(k.arg is None for k in call.keywords):
        return None
    given = finding.keyword(call, "jit_compile", JIT_COMPILE_AT)
    return given is None or getattr(given, "value", None) == "auto"
