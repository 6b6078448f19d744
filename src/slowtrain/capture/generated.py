"""Code that AutoGraph wrote, and the lines of the script that it wrote it from.

A function that is written inside the function of a ``map`` is converted with it, and what ``tf.numpy_function`` then
runs lies in a file of AutoGraph's.
"""

from __future__ import annotations

import contextlib
import sys

MARK = "__autograph_generated_file"
HEAD = 4  # lines that a function may begin before its name: a decorator's
Line = tuple[str, int]

_origins: dict[str, dict[int, Line]] = {}


def learn(file: str) -> None:
    """Reads where the lines of ``file`` come from, once. An AutoGraph that keeps it otherwise tells nothing."""
    api = sys.modules.get("tensorflow.python.autograph.impl.api")
    if MARK not in file or file in _origins or api is None:
        return
    _origins[file] = {}
    with contextlib.suppress(AttributeError, TypeError):
        for converted in list(api._TRANSPILER._cache._cache.values()):
            for factory in list(converted.values()):
                if factory.module.__file__ == file:
                    told = [(at, one.loc) for at, one in factory.source_map.items() if at.filename == file]
                    _origins[file] = {at.lineno: (str(loc.filename), int(loc.lineno)) for at, loc in told}


def known(file: str) -> bool:
    return bool(_origins.get(file))


def origin(file: str, line: int) -> Line:
    """The script's line, or the same one where it is not known."""
    return _origins.get(file, {}).get(line, (file, line))


def begun(file: str, line: int) -> Line:
    """The same of a function's first line."""
    lines = _origins.get(file, {})
    return next((lines[at] for at in range(line, line + HEAD) if at in lines), (file, line))


def named(qualname: str) -> str:
    """A function's name as the script has it: AutoGraph puts the converted one into two of its own."""
    return qualname.rpartition("inner_factory.<locals>.tf__")[2]
