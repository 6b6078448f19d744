"""Which code is the user's, and which line of it is at work."""

from __future__ import annotations

import gc
import os
import site as _site
import sys
import sysconfig
from types import CodeType, FrameType

_LIBRARY = tuple(
    {
        os.path.realpath(path) + os.sep
        for path in (
            *sysconfig.get_paths().values(),
            *_site.getsitepackages(),
            os.path.dirname(os.path.dirname(__file__)),
        )
        if path and os.path.isabs(path) and not path.endswith(("/bin", "/Scripts"))
        if path not in (sys.prefix, sys.base_prefix)
    }
)
_known: dict[str, bool] = {}  # by file: a code object is costly to look up, for its hash is made of all it holds


def is_user(code: CodeType) -> bool:
    """Whether ``code`` is the user's: neither the standard library's, nor an installed package's, nor ours."""
    name = code.co_filename
    known = _known.get(name)
    if known is None:
        made = name.startswith("<") or "__autograph_generated_file" in name
        known = _known[name] = not made and is_users_file(name)
    return known


def is_users_file(name: str) -> bool:
    """Whether a file lies neither in the standard library, nor in an installed package, nor in ours."""
    return not (name.startswith(_LIBRARY) or os.path.realpath(name).startswith(_LIBRARY))


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's at or above ``frame``."""
    while frame is not None:
        code = frame.f_code
        known = _known.get(code.co_filename)
        if known or (known is None and is_user(code)):
            return frame
        frame = frame.f_back
    return None


class uncollected:  # noqa: N801  used as a function would be; a class costs a third, and this is done all the time
    """For a look at another thread's frames: nothing is collected meanwhile, on Python 3.11.

    That version makes a frame's object when it is first asked for, and may collect garbage on the way. What runs then,
    callbacks and finalizers, can let the other thread go on; the object afterwards points into memory that has been
    used again, and the process may die of it (``tests/capture/test_frames.py``). Others collect between instructions.
    """

    __slots__ = ("paused",)

    def __enter__(self) -> None:
        self.paused = sys.version_info[:2] == (3, 11) and gc.isenabled()
        if self.paused:
            gc.disable()

    def __exit__(self, *_: object) -> None:
        if self.paused:
            gc.enable()


def place(frame: FrameType | None) -> tuple[str, int] | None:
    """File and line of the user's at or above ``frame``."""
    frame = user_frame(frame)
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else None


def site(depth: int = 1) -> tuple[str, int] | None:
    """File and line of the user's that called us, ``depth`` frames up or above."""
    return place(sys._getframe(depth))


def describe(function: object) -> dict[str, object]:
    """Where a Python function is written: ``file``, ``line``, ``qualname``, and whether it is the user's."""
    function = _unwrapped(getattr(function, "func", function))  # functools.partial
    code = getattr(function, "__code__", None) or getattr(function, "gi_code", None)
    if code is None and not isinstance(function, type):  # a model, say
        called = getattr(type(function), "__call__", None)  # noqa: B004  its code is wanted
        code = getattr(_unwrapped(called), "__code__", None)
    qualname = getattr(function, "__qualname__", type(function).__qualname__)
    if code is None:
        return {"qualname": qualname}
    return {"file": code.co_filename, "line": code.co_firstlineno, "qualname": qualname, "user": is_user(code)}


def _unwrapped(function: object) -> object:
    for _ in range(20):
        function = getattr(function, "__wrapped__", function)
    return function
