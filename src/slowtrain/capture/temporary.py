"""What a probe makes in the folders for temporary files: noted while it runs, removed when it has ended.

Other processes share them, so that nothing new there can be kept apart; but what stayed would be found by the next
probe: a cache that is full, a checkpoint to go on from.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

IN_MEMORY_FOLDER = "/dev/shm"  # noqa: S108  nothing is made there
NOTES = "temporary"  # in the probe's folder: how something is named and its path, each with a null behind it
FILE, START = "=", "+"  # a file or folder of that name; files whose names begin with it, as those of a checkpoint

# What TensorFlow puts behind the name of a checkpoint, of a cache, and of a cache's part.
PARTS = re.compile(r"(?:_\d+)?(?:\.(?:index|lockfile|meta|data-\d+-of-\d+)(?:\.tempstate\d+)?)?")

# As they are before anything is redirected.
_open, _write, _close, _lstat, _listdir = os.open, os.write, os.close, os.lstat, os.listdir


def before() -> dict[str, list[str]]:
    """The folders for temporary files, and what is in them now."""
    folders = [os.path.realpath(tempfile.gettempdir()), IN_MEMORY_FOLDER]
    return {folder: _listdir(folder) for folder in folders if os.path.isdir(folder) and folder != "/"}


class Notes:
    """In the probe: what is new in ``folders`` and about to be made by it."""

    def __init__(self, file: str, folders: Collection[str]) -> None:
        self.file = file
        self.folders = folders
        self._known: set[str] = set()

    def add(self, real: str, made: str) -> None:
        """``real`` is about to be made, as a FILE or as the START of files; noted is its first part in the folder."""
        for folder in self.folders:
            name = real[len(folder) + 1 :].partition("/")[0] if real.startswith(f"{folder}/") else ""
            top = os.path.join(folder, name)
            if not name or top in self._known:
                continue
            start = made == START and top == real
            found = beginning(top) if start else [name] * there(top)
            if any(os.path.join(folder, one) not in self._known for one in found):
                continue  # somebody else's
            self._known.add(top)
            notes = _open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)  # of all its processes
            _write(notes, os.fsencode(f"{START if start else FILE}{top}\0"))
            _close(notes)


def remove(folder: Path, old: Mapping[str, Collection[str]]) -> None:
    """Removes what the probe in ``folder`` has made, and nothing that was there before."""
    try:
        noted = os.fsdecode((folder / NOTES).read_bytes()).split("\0")[:-1]
    except OSError:
        return
    for made, path in ((one[0], one[1:]) for one in noted):
        above, name = os.path.split(path)
        for each in beginning(path) if made == START else [name]:
            if each in old.get(above, ()):
                continue
            shutil.rmtree(os.path.join(above, each), ignore_errors=True)  # of a link or a file nothing
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(above, each))


def beginning(prefix: str) -> list[str]:
    """Names of files that a checkpoint or a cache of the name ``prefix`` consists of, in its very folder."""
    folder, start = os.path.split(prefix)
    try:
        return [name for name in _listdir(folder) if name.startswith(start) and PARTS.fullmatch(name, len(start))]
    except OSError:
        return []


def there(path: str) -> bool:
    """Whether there is anything of that name, a link to nothing too."""
    try:
        _lstat(path)
    except (OSError, ValueError):
        return False
    return True
