"""The fast path before the wrappers of each step, if ``hot.c`` was compiled; else the wrappers themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slowtrain.capture.core.patching import FastPathMaker, Wrapper
from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.core.span_rows import PlainRows, hot
from slowtrain.capture.core.thread_state import Flags, Progress


def fast_path_maker(
    kind: str,
    recorder: Recorder,
    main: Flags,
    *,
    progress: Progress | None = None,
    names: Any = None,
    after: Callable[..., Any] | None = None,
) -> FastPathMaker:
    """Returns ``put_before(original, wrapper)``, which puts a function in C before ``wrapper``.

    In a steady step the C function does the same as ``wrapper``; in other cases it calls it. ``kind`` is the name of a
    maker in ``hot.c``. ``names`` is the ``slowtrain.capture.core.thread_state.FunctionSite`` of a step, a tuple of
    ``slowtrain.capture.core.thread_state.ReadbackSite`` for readbacks, or the names by class for hooks. ``after`` is
    called on rare events: it names a function that was traced, and handles the end of an iterator.
    """

    def put_before(original: Wrapper, wrapper: Wrapper) -> Wrapper:
        if isinstance(recorder.rows, PlainRows):
            return wrapper
        quick: Wrapper = getattr(hot, kind)(original, wrapper, after, main, progress, names, recorder.rows)
        return quick

    return put_before
