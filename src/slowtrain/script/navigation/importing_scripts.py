"""Project files that import a given file: scripts next to it and in the folders above it, found by their text."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass

from slowtrain.script.navigation import imported_functions
from slowtrain.script.text.source_file import Source, ascii_words

MAX_PARENT_FOLDERS = 2  # parent folders: the script may be in the project's root, the file in a package
MAX_FOLDER_FILES = 40  # Python files in a searched folder; a folder of more is a library's
MAX_FILE_BYTES = 200_000  # of a searched file; a script is smaller
MAX_CALLERS = 3  # interpreted for one file
MAX_INTERMEDIATE_FILES = 8  # files that import it and only define something
ROOT_MARKERS = frozenset({".git", "pyproject.toml", "setup.py", "setup.cfg"})  # mark a project's root folder
_TEST_FILE = re.compile(r"(?:test_.*|.*_test|conftest|setup)\.py\Z")  # tests train nothing
_TOP_LEVEL_ACTION = re.compile(rb"^(?:for\b|while\b|with\b|if\s+__name__\b|\w[\w.]*\()", re.MULTILINE)  # runs code
_IMPORT_LINE = re.compile(rb"^[ \t]*(?:from|import)\b[^\n#]*", re.MULTILINE)


def scripts_importing(source: Source) -> list[Source]:
    """A few scripts that import ``source``, directly or through other files."""
    file = os.path.realpath(source.file)
    if not os.path.isfile(file):
        return []
    starting: list[str] = []
    seen, todo = {file}, [file]
    while todo and len(seen) <= MAX_INTERMEDIATE_FILES and len(starting) < MAX_CALLERS:
        for one in _importing_files(todo.pop(0)):
            if one.path not in seen:
                seen.add(one.path)
                (starting if one.starts else todo).append(one.path)
    read = (imported_functions.read_project_file(path) for path in starting[:MAX_CALLERS])
    return [one for one in read if one is not None]


def _importing_files(file: str) -> list[_ScriptFile]:
    """All files that import the given one."""
    names = _import_names(file)
    several = (one for folder in _search_folders(os.path.dirname(file)) for one in _folder_scripts(folder))
    return [one for one in several if one.path != file and not names.isdisjoint(one.imports)]


def _import_names(file: str) -> frozenset[str]:
    """A file's name in imports, and its package's name if the package re-exports its names."""
    folder, name = os.path.split(file)
    stem = name.removesuffix(".py")
    package = os.path.basename(folder)
    if stem == "__init__":
        return frozenset({package})
    beginning = os.path.join(folder, "__init__.py")
    handing = imported_functions.read_project_file(beginning) if os.path.isfile(beginning) else None
    return frozenset({stem, package} if handing is not None and stem in handing.words else {stem})


def _search_folders(folder: str) -> list[str]:
    """A file's folder and those above it, up to the project's root."""
    found = [folder]
    while len(found) <= MAX_PARENT_FOLDERS and not any(
        os.path.exists(os.path.join(found[-1], one)) for one in ROOT_MARKERS
    ):
        above = os.path.dirname(found[-1])
        if above == found[-1]:
            break
        found.append(above)
    return found


@dataclass(frozen=True)
class _ScriptFile:
    """A file, the words in its imports, and whether running it does something."""

    path: str
    imports: frozenset[str]
    starts: bool


@functools.lru_cache(maxsize=64)
def _folder_scripts(folder: str) -> tuple[_ScriptFile, ...]:
    """The scripts of a folder; empty if there are so many that it is a library's."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    except OSError:
        return ()
    if len(names) > MAX_FOLDER_FILES:
        return ()
    return tuple(_inspect_file(os.path.join(folder, name)) for name in names if not _TEST_FILE.match(name))


def _inspect_file(path: str) -> _ScriptFile:
    text = _file_bytes(path)
    imports = ascii_words(b"\n".join(_IMPORT_LINE.findall(text))) if text else frozenset()
    return _ScriptFile(os.path.realpath(path), imports, _TOP_LEVEL_ACTION.search(text) is not None)


def _file_bytes(path: str) -> bytes:
    try:
        if os.path.getsize(path) > MAX_FILE_BYTES:
            return b""
        with open(path, "rb") as opened:
            return opened.read()
    except OSError:
        return b""
