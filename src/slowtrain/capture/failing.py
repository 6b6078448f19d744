"""Records the exception that ends the script: type, message, the user's line, and GPU memory if it ran out."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any

from slowtrain.capture import frames
from slowtrain.capture.recorder import Recorder, now

MOST_WORDS = 4000
EXHAUSTED = ("ResourceExhaustedError", "OutOfMemoryError", "MemoryError")
SAID = ("RESOURCE_EXHAUSTED", "out of memory", "OOM when allocating")


def install(recorder: Recorder) -> None:
    """Installs hooks before those that print the exception, and before those that the user's own hook calls."""
    known: list[BaseException] = []  # a hook of the user's may call ours as well

    def record_once(error: BaseException | None, trace: TracebackType | None) -> None:
        if recorder.active and error is not None and not any(error is one for one in known):
            known[:] = [error]
            recorder.guard("failing", _note, recorder, error, trace)

    def wrap_hook(original: Any) -> Any:
        def hook(kind: Any, value: Any, trace: Any) -> Any:
            record_once(value, trace)
            return original(kind, value, trace)

        return hook

    same = sys.excepthook is sys.__excepthook__
    sys.__excepthook__ = wrap_hook(sys.__excepthook__)
    sys.excepthook = sys.__excepthook__ if same else wrap_hook(sys.excepthook)
    threads = threading.excepthook

    def thread_hook(args: threading.ExceptHookArgs, /) -> None:
        record_once(args.exc_value, args.exc_traceback)
        threads(args)

    threading.excepthook = thread_hook


def _note(recorder: Recorder, error: BaseException, trace: TracebackType | None) -> None:
    words = str(error)[:MOST_WORDS]
    kind = type(error).__name__
    exhausted = kind in EXHAUSTED or any(s in words for s in SAID)
    data: dict[str, Any] = {"says": words, "site": _site(trace), "exhausted": exhausted}
    if exhausted:
        data["devices"] = recorder.guard("failing", _devices) or {}
    recorder.event("failure", kind, now(), **data)


def _site(trace: TracebackType | None) -> tuple[str, int] | None:
    """Returns the user's innermost line."""
    found = None
    while trace is not None:
        code = trace.tb_frame.f_code
        if frames.is_user(code) and trace.tb_lineno is not None:
            found = (code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _devices() -> dict[str, dict[str, int]]:
    """Returns current and peak bytes of each GPU's allocator. Does not initialise any device."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or not tensorflow.config.list_physical_devices("GPU"):
        return {}
    found = {}
    for device in tensorflow.config.list_logical_devices("GPU"):
        name = device.name.removeprefix("/device:")
        found[name] = {k: int(v) for k, v in tensorflow.config.experimental.get_memory_info(name).items()}
    return found
