"""Notes what a probe creates in the folders for temporary files, and removes it after the probe.

Other processes share these folders, so new files there cannot be redirected. If they stayed, the next probe would find
them: a full cache, a checkpoint to continue from.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

IN_MEMORY_FOLDER = "/dev/shm"  # noqa: S108 nothing is created there
NOTES_NAME = "temporary"  # in the probe's folder: a kind and a path for each entry, with a null after it
WHOLE_NAME, NAME_PREFIX = (
    "=",
    "+",
)  # a file or folder of that name; files whose names begin with it, as those of a checkpoint

# Suffixes of TensorFlow for a checkpoint, a cache, and a part of a cache.
PART_PATTERN = re.compile(r"(?:_\d+)?(?:\.(?:index|lockfile|meta|data-\d+-of-\d+)(?:\.tempstate\d+)?)?")

# The functions before anything is redirected.
_open, _write, _close, _lstat, _listdir = os.open, os.write, os.close, os.lstat, os.listdir


def list_temporary_files() -> dict[str, list[str]]:
    """Returns the folders for temporary files, and the names in them now."""
    folders = [os.path.realpath(tempfile.gettempdir()), IN_MEMORY_FOLDER]
    return {folder: _listdir(folder) for folder in folders if os.path.isdir(folder) and folder != "/"}


class TemporaryNotes:
    """Notes, in the probe, the new paths in ``folders`` that it is about to create."""

    def __init__(self, file: str, folders: Collection[str]) -> None:
        self.file = file
        self.folders = folders
        self._known: set[str] = set()

    def add(self, real: str, note_kind: str) -> None:
        """Notes the first part of ``real`` in its folder. ``note_kind``: WHOLE_NAME, or NAME_PREFIX."""
        for folder in self.folders:
            name = real[len(folder) + 1 :].partition("/")[0] if real.startswith(f"{folder}/") else ""
            top = os.path.join(folder, name)
            if not name or top in self._known:
                continue
            start = note_kind == NAME_PREFIX and top == real
            found = names_with_prefix(top) if start else [name] * path_exists(top)
            if any(os.path.join(folder, one) not in self._known for one in found):
                continue  # created by another process
            self._known.add(top)
            # shared by all processes of the probe
            notes = _open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            _write(notes, os.fsencode(f"{NAME_PREFIX if start else WHOLE_NAME}{top}\0"))
            _close(notes)


def remove_noted_files(folder: Path, old: Mapping[str, Collection[str]]) -> None:
    """Removes what the probe in ``folder`` has created, and nothing that existed before."""
    try:
        noted = os.fsdecode((folder / NOTES_NAME).read_bytes()).split("\0")[:-1]
    except OSError:
        return
    for note_kind, path in ((one[0], one[1:]) for one in noted):
        above, name = os.path.split(path)
        for each in names_with_prefix(path) if note_kind == NAME_PREFIX else [name]:
            if each in old.get(above, ()):
                continue
            shutil.rmtree(os.path.join(above, each), ignore_errors=True)  # does nothing for a link or a file
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(above, each))


def names_with_prefix(prefix: str) -> list[str]:
    """Returns the names of the files of a checkpoint or cache with the name ``prefix``, in the same folder."""
    folder, start = os.path.split(prefix)
    try:
        return [
            name for name in _listdir(folder) if name.startswith(start) and PART_PATTERN.fullmatch(name, len(start))
        ]
    except OSError:
        return []


def path_exists(path: str) -> bool:
    """Returns whether the path exists, including a link to nothing."""
    try:
        _lstat(path)
    except (OSError, ValueError):
        return False
    return True
