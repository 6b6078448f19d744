"""Tells the user's code from library code, and finds the user's line that is running."""

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

# References to a frame's copy of its variables: from the frame, the caller, our parameter and the counting call, and,
# before Python 3.11, from the caller's stack.
COPY_REFERENCES = 4 if sys.version_info >= (3, 11) else 5

_LIBRARY_FOLDERS = tuple(
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
# Folders of packages that this interpreter does not list: from `pip install --user` or on PYTHONPATH.
_PACKAGE_PARTS = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
INSTALLED_SUFFIX = ".dist-info"  # suffix of the folder that every installed package leaves beside itself
_user_by_file: dict[
    str, bool
] = {}  # by file name; looking up a code object is slow, because its hash covers all its contents


def package_folders(path: str, own: Iterable[str]) -> tuple[str, ...]:
    """Returns the folders of a ``PYTHONPATH`` that contain installed packages (``pip install --target``).

    ``own`` are folders of the user's own code. They are never returned, whatever is installed there.
    """
    own_folders = {os.path.realpath(folder) for folder in own}
    found = []
    for folder in {os.path.realpath(one) for one in path.split(os.pathsep) if one} - own_folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            if any(entry.name.endswith(INSTALLED_SUFFIX) for entry in entries):
                found.append(folder + os.sep)
    return tuple(found)


_FOREIGN_FOLDERS = _LIBRARY_FOLDERS + package_folders(
    os.environ.get("PYTHONPATH", ""),
    (os.getcwd(), *(os.path.dirname(one) for one in sys.orig_argv[1:] if one.endswith(".py"))),
)


def is_user_code(code: CodeType) -> bool:
    """Returns whether ``code`` is the user's, and not of the standard library, an installed package or Slowtrain."""
    known = _user_by_file.get(code.co_filename)
    return is_user_source(code.co_filename) if known is None else known


def is_user_source(name: str) -> bool:
    """Does the same as ``is_user_code``, by the file name that the code object carries."""
    known = _user_by_file.get(name)
    if known is None:
        is_generated = name.startswith("<") or MARK in name
        known = _user_by_file[name] = not is_generated and is_user_file(name)
    return known


def is_user_file(name: str) -> bool:
    """Returns whether a file is outside the standard library, the installed packages and Slowtrain."""
    # the path as given comes first, because a walk asks about all modules
    return not (_is_packaged(name) or _is_packaged(os.path.realpath(name)))


def _is_packaged(path: str) -> bool:
    return path.startswith(_FOREIGN_FOLDERS) or any(folder in path for folder in _PACKAGE_PARTS)


def user_frame(frame: FrameType | None) -> FrameType | None:
    """Returns the innermost frame of the user's code at or above ``frame``."""
    while frame is not None:
        code = frame.f_code
        known = _user_by_file.get(code.co_filename)
        if known or (known is None and is_user_code(code)):
            return frame
        frame = frame.f_back
    return None


class paused_collector:  # noqa: N801  used like a function; a class costs a third as much, and this runs very often
    """Pauses garbage collection on Python 3.11 while another thread's frames are read.

    Python 3.11 creates a frame's object when it is first requested, and may collect garbage while doing so. Callbacks
    and finalizers that run then can let the other thread continue. The frame object afterwards points to reused
    memory, and the process may crash (``tests/capture/test_frames.py``). Other versions collect between instructions
    only.
    """

    __slots__ = ("paused",)

    def __enter__(self) -> None:
        self.paused = sys.version_info[:2] == (3, 11) and gc.isenabled()
        if self.paused:
            gc.disable()

    def __exit__(self, *_: object) -> None:
        if self.paused:
            gc.enable()


def copies_variables(frame: FrameType) -> bool:
    """Returns whether reading a frame's variables copies them. This is so for functions before Python 3.13.

    The copy belongs to the frame, each read updates it, and ``locals()`` returns it there.
    """
    return sys.version_info < (3, 13) and bool(frame.f_code.co_flags & CO_OPTIMIZED)


def release_variables(frame: FrameType, variables: dict[str, Any]) -> None:
    """Empties the copy behind ``frame.f_locals`` after a read. Otherwise it keeps its objects alive until the next
    read.

    Does nothing if the script has requested ``locals()``, too, because more references than ours exist then.
    """
    if copies_variables(frame) and sys.getrefcount(variables) <= COPY_REFERENCES:
        variables.clear()


def user_place(frame: FrameType | None) -> tuple[str, int] | None:
    """Returns file and line of the user's code at or above ``frame``."""
    frame = user_frame(frame)
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else None


def user_function_place(frame: FrameType | None) -> tuple[str, int] | None:
    """Returns the name of the user's function at or above ``frame``, and the offset of its current instruction."""
    frame = user_frame(frame)
    return (frame.f_code.co_name, frame.f_lasti) if frame is not None else None


def last_name(qualname: object) -> str:
    """Returns ``step`` for ``Trainer.step`` and for ``main.<locals>.step``. Before Python 3.11 a frame knows only this
    part.
    """
    return str(qualname).rpartition(".")[2]


def describe_function(function: object) -> dict[str, object]:
    """Returns where a Python function is defined: ``file``, ``line``, ``qualname``, and whether it is the user's."""
    function = _unwrap_function(getattr(function, "func", function))  # functools.partial
    code = getattr(function, "__code__", None) or getattr(function, "gi_code", None)
    if code is None and not isinstance(function, type):  # a model, say
        called = getattr(type(function), "__call__", None)  # noqa: B004  only its code is used
        code = getattr(_unwrap_function(called), "__code__", None)
    qualname = getattr(function, "__qualname__", type(function).__qualname__)
    if code is None:
        return {"qualname": qualname}
    read_origins(code.co_filename)
    if has_origins(code.co_filename):
        file, line = origin_of_function(code.co_filename, code.co_firstlineno)
        return {
            "file": file,
            "line": line,
            "qualname": script_qualname(qualname),
            "user": is_user_source(file),
        }
    return {"file": code.co_filename, "line": code.co_firstlineno, "qualname": qualname, "user": is_user_code(code)}


def _unwrap_function(function: object) -> object:
    for _ in range(20):
        function = getattr(function, "__wrapped__", function)
    return function


MARK = "__autograph_generated_file"
MAX_HEAD_LINES = 4  # lines, such as decorators, that may come before the line with a function's name
Line = tuple[str, int]

_origins_by_file: dict[str, dict[int, Line]] = {}


def read_origins(file: str) -> None:
    """Reads the origins of the lines of ``file``, once. Reads nothing if this AutoGraph stores them differently."""
    api = sys.modules.get("tensorflow.python.autograph.impl.api")
    if MARK not in file or file in _origins_by_file or api is None:
        return
    _origins_by_file[file] = {}
    with contextlib.suppress(AttributeError, TypeError):
        for converted in list(api._TRANSPILER._cache._cache.values()):
            for factory in list(converted.values()):
                if factory.module.__file__ == file:
                    origins = [(at, one.loc) for at, one in factory.source_map.items() if at.filename == file]
                    _origins_by_file[file] = {at.lineno: (str(loc.filename), int(loc.lineno)) for at, loc in origins}


def has_origins(file: str) -> bool:
    return bool(_origins_by_file.get(file))


def origin_line(file: str, line: int) -> Line:
    """Returns the script's line for a generated line, or the same line if it is not known."""
    return _origins_by_file.get(file, {}).get(line, (file, line))


def origin_of_function(file: str, line: int) -> Line:
    """Does the same for a function's first line."""
    lines = _origins_by_file.get(file, {})
    return next((lines[at] for at in range(line, line + MAX_HEAD_LINES) if at in lines), (file, line))


def script_qualname(qualname: str) -> str:
    """Returns a function's name in the script. AutoGraph wraps the converted function in two functions of its own."""
    return qualname.rpartition("inner_factory.<locals>.tf__")[2]
