"""Project files that import a given file: scripts next to it and in the folders above it, found by their text."""

from __future__ import annotations

import functools
import os
import re

from slowtrain.source import Source, words
from slowtrain.source.reading import elsewhere
from slowtrain.values import dataclass

UPWARDS = 2  # parent folders: the script may be in the project's root, the file in a package
MOST_BESIDE = 40  # Python files in a searched folder; a folder of more is a library's
MOST_BYTES = 200_000  # of a searched file; a script is smaller
MOST_CALLERS = 3  # interpreted for one file
MOST_ON_THE_WAY = 8  # files that import it and only define something
ROOT = frozenset({".git", "pyproject.toml", "setup.py", "setup.cfg"})  # mark a project's root folder
_TEST = re.compile(r"(?:test_.*|.*_test|conftest|setup)\.py\Z")  # tests train nothing
_STARTS = re.compile(rb"^(?:for\b|while\b|with\b|if\s+__name__\b|\w[\w.]*\()", re.MULTILINE)  # runs code
_IMPORTING = re.compile(rb"^[ \t]*(?:from|import)\b[^\n#]*", re.MULTILINE)


def of(source: Source) -> list[Source]:
    """A few scripts that import ``source``, directly or through other files."""
    file = os.path.realpath(source.file)
    if not os.path.isfile(file):
        return []
    starting: list[str] = []
    seen, todo = {file}, [file]
    while todo and len(seen) <= MOST_ON_THE_WAY and len(starting) < MOST_CALLERS:
        for one in _importers(todo.pop(0)):
            if one.path not in seen:
                seen.add(one.path)
                (starting if one.starts else todo).append(one.path)
    read = (elsewhere.read(path) for path in starting[:MOST_CALLERS])
    return [one for one in read if one is not None]


def _importers(file: str) -> list[_Beside]:
    """All files that import the given one."""
    names = _imported_as(file)
    several = (one for folder in _folders(os.path.dirname(file)) for one in _files(folder))
    return [one for one in several if one.path != file and not names.isdisjoint(one.imports)]


def _imported_as(file: str) -> frozenset[str]:
    """A file's name in imports, and its package's name if the package re-exports its names."""
    folder, name = os.path.split(file)
    stem = name.removesuffix(".py")
    package = os.path.basename(folder)
    if stem == "__init__":
        return frozenset({package})
    beginning = os.path.join(folder, "__init__.py")
    handing = elsewhere.read(beginning) if os.path.isfile(beginning) else None
    return frozenset({stem, package} if handing is not None and stem in handing.words else {stem})


def _folders(folder: str) -> list[str]:
    """A file's folder and those above it, up to the project's root."""
    found = [folder]
    while len(found) <= UPWARDS and not any(os.path.exists(os.path.join(found[-1], one)) for one in ROOT):
        above = os.path.dirname(found[-1])
        if above == found[-1]:
            break
        found.append(above)
    return found


@dataclass(frozen=True)
class _Beside:
    """A file, the words in its imports, and whether running it does something."""

    path: str
    imports: frozenset[str]
    starts: bool


@functools.lru_cache(maxsize=64)
def _files(folder: str) -> tuple[_Beside, ...]:
    """The scripts of a folder; empty if there are so many that it is a library's."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    except OSError:
        return ()
    if len(names) > MOST_BESIDE:
        return ()
    return tuple(_looked_at(os.path.join(folder, name)) for name in names if not _TEST.match(name))


def _looked_at(path: str) -> _Beside:
    text = _bytes(path)
    imports = words(b"\n".join(_IMPORTING.findall(text))) if text else frozenset()
    return _Beside(os.path.realpath(path), imports, _STARTS.search(text) is not None)


def _bytes(path: str) -> bytes:
    try:
        if os.path.getsize(path) > MOST_BYTES:
            return b""
        with open(path, "rb") as opened:
            return opened.read()
    except OSError:
        return b""
