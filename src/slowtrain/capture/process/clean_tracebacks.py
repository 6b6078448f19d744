"""Removes our frames, and those of the import hooks, from the tracebacks that the interpreter prints."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import wrapt

from slowtrain.capture.core.patching import FILE_MARK

_OUR_FILES = (os.path.dirname(str(sys.modules["slowtrain.capture"].__file__)), FILE_MARK)
_HOOK_FOLDER = os.path.dirname(wrapt.__file__)
_IMPORT_FILES = "<frozen importlib"

ExceptHook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def install_clean_tracebacks() -> None:
    """Installs the hooks, also in ``sys.__excepthook__``, which the user's own hooks may call."""
    current, original = sys.excepthook, sys.__excepthook__
    clean = _cleaning_hook(original)
    sys.__excepthook__ = clean  # type: ignore[assignment, misc, unused-ignore]
    sys.excepthook = clean if current is original else _cleaning_hook(current)
    threads = threading.excepthook

    def thread_hook(args: threading.ExceptHookArgs, /) -> None:
        _clean_error(args.exc_value)
        threads(args)

    threading.excepthook = thread_hook


def _cleaning_hook(previous: ExceptHook) -> ExceptHook:
    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> Any:
        _clean_error(value)
        return previous(kind, value, without_our_frames(trace))

    return hook


def _clean_error(error: BaseException | None) -> None:
    """Cleans an error, its causes, and its parts if it is a group."""
    todo, seen = [error], set[int]()
    while todo:
        one = todo.pop()
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = without_our_frames(one.__traceback__)
        parts = getattr(one, "exceptions", ())
        todo += [one.__cause__, one.__context__, *(parts if isinstance(parts, tuple) else ())]


def without_our_frames(trace: TracebackType | None) -> TracebackType | None:
    """Returns the traceback without our frames."""
    entries: list[TracebackType] = []
    gone = False
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(_OUR_FILES):
            gone = True
        elif file.startswith(_HOOK_FOLDER):
            gone = True
            # Python removes the frames of its import machinery, unless other frames are among them.
            while entries and entries[-1].tb_frame.f_code.co_filename.startswith(_IMPORT_FILES):
                entries.pop()
        else:
            entries.append(trace)
        trace = trace.tb_next
    if gone:
        for one, following in zip(entries, [*entries[1:], None], strict=True):
            one.tb_next = following
    return entries[0] if entries else None
