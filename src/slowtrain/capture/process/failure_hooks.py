"""Records the exception that ends the script: type, message, the user's line, and GPU memory if it ran out."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any

from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.inspection import user_code

MAX_MESSAGE_CHARACTERS = 4000
EXHAUSTED_TYPES = ("ResourceExhaustedError", "OutOfMemoryError", "MemoryError")
EXHAUSTED_PHRASES = ("RESOURCE_EXHAUSTED", "out of memory", "OOM when allocating")


def install_failure_hooks(recorder: Recorder) -> None:
    """Installs hooks before those that print the exception, and before those that the user's own hook calls."""
    known: list[BaseException] = []  # a hook of the user's may call ours as well

    def record_once(error: BaseException | None, trace: TracebackType | None) -> None:
        if recorder.active and error is not None and not any(error is one for one in known):
            known[:] = [error]
            recorder.guard("failing", _record_failure, recorder, error, trace)

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


def _record_failure(recorder: Recorder, error: BaseException, trace: TracebackType | None) -> None:
    words = str(error)[:MAX_MESSAGE_CHARACTERS]
    kind = type(error).__name__
    exhausted = kind in EXHAUSTED_TYPES or any(s in words for s in EXHAUSTED_PHRASES)
    data: dict[str, Any] = {"says": words, "site": _user_line_of(trace), "exhausted": exhausted}
    if exhausted:
        data["devices"] = recorder.guard("failing", _gpu_memory) or {}
    recorder.event("failure", kind, now(), **data)


def _user_line_of(trace: TracebackType | None) -> tuple[str, int] | None:
    """Returns the user's innermost line."""
    found = None
    while trace is not None:
        code = trace.tb_frame.f_code
        if user_code.is_user_code(code) and trace.tb_lineno is not None:
            found = (code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _gpu_memory() -> dict[str, dict[str, int]]:
    """Returns current and peak bytes of each GPU's allocator. Does not initialise any device."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or not tensorflow.config.list_physical_devices("GPU"):
        return {}
    found = {}
    for device in tensorflow.config.list_logical_devices("GPU"):
        name = device.name.removeprefix("/device:")
        found[name] = {k: int(v) for k, v in tensorflow.config.experimental.get_memory_info(name).items()}
    return found


VMSTAT_FILE = Path("/proc/vmstat")  # its ``oom_kill`` counts for the machine and all its containers, since Linux 4.13
OOM_KILL_KEY = b"\noom_kill "
MAX_VMSTAT_BYTES = 1 << 16
CALLS_A_LOOK = 4  # calls of half a second
KEPT_LOOKS = 15  # kept for half a minute, because ending a process of many gigabytes takes seconds


class OomKillCounter:
    """Reads the kernel's counter while a process runs and once after its end."""

    def __init__(self) -> None:
        self._seen: deque[int | None] = deque(maxlen=KEPT_LOOKS)
        self._calls = 0
        self.look()

    def look(self) -> None:
        if self._calls % CALLS_A_LOOK == 0:
            self._seen.append(_read_oom_kills())
        self._calls += 1

    def is_oom_kill(self, code: int) -> bool:
        """Returns whether the kernel most likely ended a process with exit code ``code`` (below zero: signal) for lack
        of memory.

        A kill of another process in the same half minute, together with a ``kill -9`` of this one, looks the same.
        """
        if code != -signal.SIGKILL:
            return False
        before, after = self._seen[0], _read_oom_kills()
        return before is not None and after is not None and after > before


def _read_oom_kills() -> int | None:
    """Returns the counter, or None.

    Searches the raw bytes, because this runs beside the script's steps and the file has 190 lines.
    """
    try:
        file = os.open(VMSTAT_FILE, os.O_RDONLY)
        try:
            data = b"\n" + os.read(file, MAX_VMSTAT_BYTES)
        finally:
            os.close(file)
        start = data.index(OOM_KILL_KEY) + len(OOM_KILL_KEY)
        return int(data[start:].split(None, 1)[0])
    except (OSError, ValueError, IndexError):
        return None
