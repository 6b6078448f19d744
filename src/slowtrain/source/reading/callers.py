"""Files of a project that import one of it: scripts beside it and in the folders above it, found by their text."""

from __future__ import annotations

import functools
import os
import re

from slowtrain.source import Source
from slowtrain.source.reading import elsewhere

UPWARDS = 2  # folders above the file: a script in the project's root, the file in a package of it
MOST_BESIDE = 60  # Python files in a folder that is searched; a folder of more is a library's
MOST_BYTES = 200_000  # of a file that is searched; a script is smaller
MOST_CALLERS = 3  # gone through for one file
MOST_ON_THE_WAY = 8  # files that import it and only define: a class that derives from its own, a package
ROOT = frozenset({".git", "pyproject.toml", "setup.py", "setup.cfg"})  # what lies in a project's uppermost folder
_TEST = re.compile(r"(?:test_.*|.*_test|conftest|setup)\.py\Z")  # runs little, and is no training
_STARTS = re.compile(rb"^(?:for|while|if|with|\w[\w.]*\s*\()", re.MULTILINE)  # does something when it is run


def of(source: Source) -> list[Source]:
    """Scripts that import ``source``, or what imports it; at most a few of them."""
    file = os.path.realpath(source.file)
    if not os.path.isfile(file):
        return []
    starting: list[str] = []
    seen, todo = {file}, [file]
    while todo and len(seen) <= MOST_ON_THE_WAY and len(starting) < MOST_CALLERS:
        for path, text in _importers(todo.pop(0)):
            if path not in seen:
                seen.add(path)
                (starting if _STARTS.search(text) else todo).append(path)
    read = (elsewhere.read(path) for path in starting[:MOST_CALLERS])
    return [one for one in read if one is not None]


def _importers(file: str) -> list[tuple[str, bytes]]:
    """The files that import one, whatever else they do."""
    wanted = _importing(file)
    several = (one for folder in _folders(os.path.dirname(file)) for one in _texts(folder))
    return [(path, text) for path, text in several if path != file and wanted.search(text)]


def _importing(file: str) -> re.Pattern[bytes]:
    """An import of the file by its name, or by its package's where that hands its names on."""
    folder, name = os.path.split(file)
    stem = name.removesuffix(".py")
    package = os.path.basename(folder)
    beginning = os.path.join(folder, "__init__.py")
    names = [package] if stem == "__init__" else [stem]
    if stem != "__init__" and os.path.isfile(beginning):
        handing = elsewhere.read(beginning)
        names += [package] if handing is not None and stem in handing.text else []
    either = "|".join(map(re.escape, names))
    return re.compile(rf"^[ \t]*(?:from|import)\b[^\n#]*\b(?:{either})\b".encode(), re.MULTILINE)


def _folders(folder: str) -> list[str]:
    """A file's folder and those above it, as far as the project's uppermost one."""
    found = [folder]
    while len(found) <= UPWARDS and not any(os.path.exists(os.path.join(found[-1], one)) for one in ROOT):
        above = os.path.dirname(found[-1])
        if above == found[-1]:
            break
        found.append(above)
    return found


@functools.lru_cache(maxsize=16)
def _texts(folder: str) -> tuple[tuple[str, bytes], ...]:
    """The scripts of a folder; none where there are so many that it is a library's."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    except OSError:
        return ()
    if len(names) > MOST_BESIDE:
        return ()
    paths = [os.path.join(folder, name) for name in names if not _TEST.match(name)]
    return tuple((os.path.realpath(path), text) for path in paths if (text := _bytes(path)))


def _bytes(path: str) -> bytes:
    try:
        if os.path.getsize(path) > MOST_BYTES:
            return b""
        with open(path, "rb") as opened:
            return opened.read()
    except OSError:
        return b""
