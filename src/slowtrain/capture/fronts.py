"""The quick way past the wrappers of each step, where ``hot.c`` was compiled; else the wrappers themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slowtrain.capture.patching import Front, Wrapper
from slowtrain.capture.recorder import Recorder
from slowtrain.capture.rows import PlainRows, hot
from slowtrain.capture.state import Flags, Progress


def front(
    kind: str,
    recorder: Recorder,
    main: Flags,
    *,
    progress: Progress | None = None,
    names: Any = None,
    after: Callable[..., Any] | None = None,
) -> Front:
    """``made(original, wrapper)``: what does in a steady step what ``wrapper`` does, and else calls that.

    ``kind`` is a maker's name in ``hot.c``. ``names``: of a step its :class:`Known`, of readbacks a tuple of
    :class:`Read`, of hooks the names by class. ``after`` is told of what is rare: a function that was traced gets its
    name, an iterator has ended.
    """

    def made(original: Wrapper, wrapper: Wrapper) -> Wrapper:
        if isinstance(recorder.rows, PlainRows):
            return wrapper
        quick: Wrapper = getattr(hot, kind)(original, wrapper, after, main, progress, names, recorder.rows)
        return quick

    return made
