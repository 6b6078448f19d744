"""Searches for files to lint: walks folders in order and skips folders that are not the user's own code."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace

from slowtrain.errors import InputError
from slowtrain.lint.inputs.lint_settings import LintSettings
from slowtrain.model.inspections import FileError

SOURCE_SUFFIXES = (".py", ".pyw", ".ipynb")
# Other people's code and output of tools. A folder given on the command line is walked even if its name is here.
SKIPPED_FOLDERS = frozenset(
    ".git .hg .svn .bzr .venv venv .tox .nox .eggs node_modules __pycache__ .ipynb_checkpoints .mypy_cache "
    ".pytest_cache .ruff_cache .hypothesis build dist site-packages slowtrain-runs".split()
)


def find_files(paths: Sequence[str], settings: LintSettings) -> tuple[list[str], list[FileError]]:
    """The files to lint, each once and sorted by name within each folder, and errors for what could not be listed.

    Raises ``InputError`` if a path does not exist.
    """
    found: dict[str, None] = {}
    errors: list[FileError] = []
    for path in paths:
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        if stat.S_ISDIR(mode):
            walk = _FolderWalk(settings, errors)
            found.update(dict.fromkeys(map(_strip_dot_prefix, walk.files_below(path))))
        elif stat.S_ISREG(mode):
            found[path] = None
        else:
            errors.append(FileError(path, "is neither a file nor a folder"))
    return _remove_duplicates(found), [replace(e, file=_strip_dot_prefix(e.file)) for e in errors]


def _strip_dot_prefix(path: str) -> str:
    return path.removeprefix(f".{os.sep}")


class _FolderWalk:
    def __init__(self, settings: LintSettings, errors: list[FileError]) -> None:
        self.settings, self.errors = settings, errors
        self.seen: set[tuple[int, int]] = set()

    def files_below(self, root: str) -> Iterator[str]:
        """Files below ``root``. A folder that a link leads back to is walked once."""
        todo = [root]
        while todo:
            folder = todo.pop()
            try:
                info = os.stat(folder)
                if (info.st_dev, info.st_ino) in self.seen:
                    continue
                self.seen.add((info.st_dev, info.st_ino))
                with os.scandir(folder) as listing:
                    entries = sorted(listing, key=lambda e: e.name)
            except OSError as error:
                self.errors.append(FileError(folder, f"cannot be listed ({error.strerror})"))
                continue
            folders = []
            for entry in entries:
                kind = self._entry_kind(entry)
                if kind == "folder":
                    folders.append(entry.path)
                elif kind == "file":
                    yield entry.path
            todo += reversed(folders)

    def _entry_kind(self, entry: os.DirEntry[str]) -> str | None:
        try:
            if entry.is_dir():
                left = entry.name in SKIPPED_FOLDERS or self.settings.excludes_path(entry.path)
                return None if left else "folder"
            if not entry.name.endswith(SOURCE_SUFFIXES) or self.settings.excludes_path(entry.path):
                return None
            if entry.is_file():
                return "file"
            if entry.is_symlink():
                self.errors.append(FileError(entry.path, "is a broken symbolic link"))
        except OSError as error:  # also a symbolic link that leads to itself
            self.errors.append(FileError(entry.path, f"cannot be examined ({error.strerror})"))
        return None


def _remove_duplicates(files: dict[str, None]) -> list[str]:
    """Keeps the first path of each file if several links or paths lead to it."""
    real: dict[str, str] = {}
    folders: dict[str, str] = {}  # folder -> its real path, because resolving one takes several system calls
    for file in files:
        folder, name = os.path.split(file)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        whole = os.path.realpath(file) if os.path.islink(file) else os.path.join(folders[folder], name)
        real.setdefault(whole, file)
    return list(real.values())
