"""Which code is the user's, and which line of it is at work."""

from __future__ import annotations

import contextlib
import gc
import os
import site as _site
import sys
import sysconfig
from collections.abc import Iterable
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Any

from slowtrain.capture import generated

# References to a frame's copy of its variables: the frame's, a caller's, ours, the one that counts; the caller's stack.
MINE = 4 if sys.version_info >= (3, 11) else 5

_LIBRARY = tuple(
    {
        os.path.realpath(path) + os.sep
        for path in (
            *sysconfig.get_paths().values(),
            *_site.getsitepackages(),
            os.path.dirname(str(sys.modules["slowtrain"].__file__)),
        )
        if path and os.path.isabs(path) and not path.endswith(("/bin", "/Scripts"))
        if path not in (sys.prefix, sys.base_prefix)
    }
)
# Where packages lie that this interpreter does not know of by itself: of `pip install --user`, on PYTHONPATH.
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
INSTALLED = ".dist-info"  # what every installed package leaves beside itself
_known: dict[str, bool] = {}  # by file: a code object is costly to look up, for its hash is made of all it holds


def installed_into(path: str, own: Iterable[str]) -> tuple[str, ...]:
    """Of the folders of a ``PYTHONPATH`` those that packages were installed into (``pip install --target``).

    ``own`` are folders of the user's own code, whatever else was installed there.
    """
    kept = {os.path.realpath(folder) for folder in own}
    found = []
    for folder in {os.path.realpath(one) for one in path.split(os.pathsep) if one} - kept:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            if any(entry.name.endswith(INSTALLED) for entry in entries):
                found.append(folder + os.sep)
    return tuple(found)


_FOREIGN = _LIBRARY + installed_into(
    os.environ.get("PYTHONPATH", ""),
    (os.getcwd(), *(os.path.dirname(one) for one in sys.orig_argv[1:] if one.endswith(".py"))),
)


def is_user(code: CodeType) -> bool:
    """Whether ``code`` is the user's: neither the standard library's, nor an installed package's, nor ours."""
    known = _known.get(code.co_filename)
    return users(code.co_filename) if known is None else known


def users(name: str) -> bool:
    """The same by the file that code says it is from."""
    known = _known.get(name)
    if known is None:
        made = name.startswith("<") or generated.MARK in name
        known = _known[name] = not made and is_users_file(name)
    return known


def is_users_file(name: str) -> bool:
    """Whether a file lies neither in the standard library, nor in an installed package, nor in ours."""
    return not (_packaged(name) or _packaged(os.path.realpath(name)))  # in this order: a walk asks of all modules


def _packaged(path: str) -> bool:
    return path.startswith(_FOREIGN) or any(folder in path for folder in _PACKAGES)


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


def copies(frame: FrameType) -> bool:
    """Whether to look at a frame's variables is to copy them: those of functions, before Python 3.13.

    The copy belongs to the frame, is brought up to date by each look, and is what ``locals()`` gives there.
    """
    return sys.version_info < (3, 13) and bool(frame.f_code.co_flags & CO_OPTIMIZED)


def let_go(frame: FrameType, variables: dict[str, Any]) -> None:
    """After a look at ``frame.f_locals``: the copy is emptied, or it would keep all that was in it until the next one.

    Not where the script has asked for it, too: then others than the frame, our caller and we know of it.
    """
    if copies(frame) and sys.getrefcount(variables) <= MINE:
        variables.clear()


def place(frame: FrameType | None) -> tuple[str, int] | None:
    """File and line of the user's at or above ``frame``."""
    frame = user_frame(frame)
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else None


def within(frame: FrameType | None) -> tuple[str, int] | None:
    """The name of the user's function at or above ``frame``, and where in its code it is."""
    frame = user_frame(frame)
    return (frame.f_code.co_name, frame.f_lasti) if frame is not None else None


def last_name(qualname: object) -> str:
    """``step`` of ``Trainer.step`` and of ``main.<locals>.step``: what a frame knows of it, before Python 3.11."""
    return str(qualname).rpartition(".")[2]


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
    generated.learn(code.co_filename)
    if generated.known(code.co_filename):
        file, line = generated.begun(code.co_filename, code.co_firstlineno)
        return {"file": file, "line": line, "qualname": generated.named(qualname), "user": users(file)}
    return {"file": code.co_filename, "line": code.co_firstlineno, "qualname": qualname, "user": is_user(code)}


def _unwrapped(function: object) -> object:
    for _ in range(20):
        function = getattr(function, "__wrapped__", function)
    return function
