"""A scratch folder laid over the user's files: written files are in it, removed files are only hidden.

In the system's folders for temporary files this protects only files that existed before the probe. The others are
shared with other processes. They are left alone, and those of the probe are removed after it
(:mod:`slowtrain.capture.sandbox.temporary_files`). Paths with ``://`` belong to TensorFlow's file systems.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from slowtrain.capture.sandbox.temporary_files import NOTES_NAME, TemporaryNotes, path_exists

UNTOUCHED_FOLDERS = ("/dev", "/proc", "/sys")
IN_MEMORY_SCHEMES = ("ram://",)
MAX_LINKS = 40

# The functions before anything is redirected.
_open, _lstat, _stat, _readlink = io.open, os.lstat, os.stat, os.readlink
_mkdir, _unlink, _rmdir, _rename, _listdir, _symlink = os.mkdir, os.unlink, os.rmdir, os.rename, os.listdir, os.symlink


class ScratchPlace(NamedTuple):
    """``real`` is the file's name without links. ``inside``: the path given was its name in the scratch folder."""

    real: str
    scratch: str
    inside: bool = False


class ScratchFolder:
    """``root`` is the scratch folder; ``moved`` maps the names of written files to their names in it.

    ``old`` are the folders for temporary files, with the names in each that existed before.
    """

    def __init__(self, root: Path, left: Iterable[Path] = (), old: Mapping[str, Iterable[str]] | None = None) -> None:
        self.root = os.path.realpath(root)
        self.left = (*UNTOUCHED_FOLDERS, *(os.path.realpath(one) for one in left))
        self.old = {folder: frozenset(names) for folder, names in (old or {}).items()}
        self.moved: dict[str, str] = {}
        self.gone: set[str] = set()
        self.notes = TemporaryNotes(os.path.join(os.path.dirname(self.root), NOTES_NAME), self.old)
        self._folders: dict[str, str] = {}
        self._linked = False  # whether the script has created links
        self._empty_ns = -1 if _listdir(self.root) else _stat(self.root).st_mtime_ns

    # -- where a path is

    def place(
        self, path: Any, folder: int | None = None, *, follow: bool = True, note_kind: str = ""
    ) -> ScratchPlace | None:
        """Returns the place of ``path``, or None if it is not redirected.

        ``folder`` is a descriptor to which ``path`` is relative. With ``follow`` the place is that of a link's target.
        ``note_kind`` is set if the path is about to be created: WHOLE_NAME, or NAME_PREFIX for files with that prefix.
        """
        try:
            text = os.fsdecode(path)
        except TypeError:  # a descriptor, a file object
            return None
        if not text or "\0" in text:
            return None
        if "://" in text:
            if text.startswith(IN_MEMORY_SCHEMES):
                return None
            return ScratchPlace(text, os.path.join(self.root, "remote", text.replace("://", "/")))
        if folder is not None and not os.path.isabs(text):
            text = os.path.join(_readlink(f"/proc/self/fd/{folder}"), text)
        real = self._real(text)
        if follow and (self._link(real) is not None):
            real = self._resolve_links(real)
        if _is_below(real, self.root):
            if real == self.root:
                return None
            if _is_below(real, os.path.join(self.root, "remote")):
                return ScratchPlace(real, real, inside=True)
            return ScratchPlace(real[len(self.root) :], real, inside=True)
        if self._is_left_alone(real):
            if note_kind:
                self.notes.add(real, note_kind)
            return None
        return ScratchPlace(real, self.root + real)

    def path_to_read(self, path: Any, folder: int | None = None, *, follow: bool = True) -> Any:
        """Returns the path from which ``path`` is to be read."""
        if self._is_untouched():
            return path
        place = self.place(path, folder, follow=follow)
        if place is None:
            return path
        if self.in_scratch(place) or self.is_hidden(place):
            return _as_given_type(path, place.scratch)
        return (
            _as_given_type(path, place.real) if (place.inside or self._linked) and not self._is_remote(place) else path
        )

    def path_to_write(self, place: ScratchPlace) -> str:
        """Returns the path in the scratch folder. Creates the folders above it that exist for the script."""
        if not place.inside:
            self.moved.setdefault(place.real, place.scratch)
        parent, real = os.path.dirname(place.scratch), os.path.dirname(place.real)
        while not path_exists(parent):
            if self._is_remote(place) or self.has_own_file(ScratchPlace(real, parent)):
                self.folders(parent)
                break
            parent, real = os.path.dirname(parent), os.path.dirname(real)
        return place.scratch

    def in_scratch(self, place: ScratchPlace) -> bool:
        return path_exists(place.scratch)

    def has_own_file(self, place: ScratchPlace) -> bool:
        """Returns whether the user's own file exists and was not hidden."""
        return not self._is_remote(place) and not self.is_hidden(place) and path_exists(place.real)

    def is_hidden(self, place: ScratchPlace) -> bool:
        """Returns whether the script has removed the file, or a folder above it."""
        if not self.gone:
            return False
        real = place.real
        while real not in self.gone:
            above = os.path.dirname(real)
            if above == real:
                return False
            real = above
        return True

    def is_present(self, place: ScratchPlace) -> bool:
        return self.in_scratch(place) or self.has_own_file(place)

    def has_changes(self) -> bool:
        """Returns whether something was written or removed, by this process or a forked one."""
        return not self._is_untouched()

    # -- changes

    def path_to_open(self, place: ScratchPlace, mode: str) -> str:
        """Returns the path to open for writing with ``mode``. A file that is not truncated is copied first."""
        if "x" in mode:
            return place.real if not self.in_scratch(place) and self.has_own_file(place) else self.path_to_write(place)
        scratch = self.path_to_write(place)
        if _is_link(scratch):  # to the user's own file
            _unlink(scratch)
        if "w" not in mode:
            self.copy_up(place)
        return scratch

    def copy_up(self, place: ScratchPlace) -> str:
        """Copies the user's file, or creates the folder, in the scratch folder; does nothing if it does not exist."""
        scratch = self.path_to_write(place)
        if not path_exists(scratch) and self.has_own_file(place):
            if _is_folder(place.real):
                self.folders(scratch)
            else:
                _copy_file(place.real, scratch)
        return scratch

    def link(self, target: str, scratch: str) -> None:
        """Calls the original ``os.symlink``."""
        _symlink(target, scratch)
        self._linked = True
        self._folders.clear()

    def folders(self, scratch: str) -> None:
        """Calls the original functions to do the same as ``os.makedirs``."""
        missing = []
        while not path_exists(scratch):
            missing.append(scratch)
            scratch = os.path.dirname(scratch)
        for one in reversed(missing):
            try:
                _mkdir(one)
            except FileExistsError:
                continue

    def remove(self, place: ScratchPlace) -> bool:
        """Removes a file or folder tree from the scratch folder, and hides the user's. Returns whether it existed."""
        was = self.is_present(place)
        if self.has_own_file(place):
            self.gone.add(place.real)
        if self.in_scratch(place):
            _remove_path(place.scratch)
        self._folders.clear()
        return was

    def rename(self, source: Any, target: Any) -> None:
        """Does the same as ``os.replace``, between any two places. Files that only the user has are copied."""
        origin, goal = self.place(source, follow=False), self.place(target, follow=False)
        self._folders.clear()
        begun = origin.scratch if origin is not None else os.fsdecode(source)
        if origin is not None and self.has_own_file(origin):
            if _is_folder(origin.real):
                self._copy_folder_up(origin)
            else:
                self.copy_up(origin)
        end = self.path_to_write(goal) if goal is not None else os.fsdecode(target)
        if goal is not None and _is_folder(goal.real) and self.has_own_file(goal):
            self._check_rename_target(origin, goal)
        try:
            _rename(begun, end)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy_tree(begun, end)
            _remove_path(begun)
        if origin is not None and self.has_own_file(origin):
            self.gone.add(origin.real)

    def _check_rename_target(self, origin: ScratchPlace | None, goal: ScratchPlace) -> None:
        """Checks the user's folder ``goal`` as the target of a rename: it must be empty, and the source a folder."""
        if origin is not None and not _is_folder(origin.scratch):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), goal.real)
        if self.names(goal):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), goal.real)
        self.gone.add(goal.real)

    def _copy_folder_up(self, place: ScratchPlace) -> None:
        """Copies the user's folder into the scratch folder, beside the files written there."""
        self.folders(place.scratch)
        for name in _listdir(place.real):
            one = ScratchPlace(os.path.join(place.real, name), os.path.join(place.scratch, name))
            if _is_folder(one.real) and self.has_own_file(one):
                self._copy_folder_up(one)
            elif not self.in_scratch(one) and self.has_own_file(one):
                _copy_file(one.real, one.scratch)

    # -- listings

    def names(self, place: ScratchPlace) -> list[str]:
        """Returns the names in a folder as the script sees it. Raises as ``os.listdir`` does."""
        mine = _listdir(place.scratch) if _is_folder(place.scratch) else []
        if not self.has_own_file(place):
            return mine if _is_folder(place.scratch) else _listdir(place.scratch)
        known = set(mine)
        return mine + [
            name
            for name in _listdir(place.real)
            if name not in known and os.path.join(place.real, name) not in self.gone
        ]

    def changed_folder(self, path: Any) -> ScratchPlace | None:
        """Returns the place of a folder with changes in the scratch folder; None if ``path`` itself can be listed."""
        if self._is_untouched():
            return None
        place = self.place(path)
        if place is None or not (place.inside or self.in_scratch(place) or self.gone):
            return None
        return place

    # -- within

    def _is_untouched(self) -> bool:
        """Returns whether nothing was written or removed, by this process or a forked one."""
        return not self.gone and _stat(self.root).st_mtime_ns == self._empty_ns

    def _is_left_alone(self, real: str) -> bool:
        """Returns whether ``real`` is not redirected."""
        for folder, names in self.old.items():
            if _is_below(real, folder):
                known = real[len(folder) + 1 :].partition("/")[0] in names
                return not known or any(_is_below(real, one) for one in self.left if one not in UNTOUCHED_FOLDERS)
        return any(_is_below(real, one) for one in self.left)

    def _is_remote(self, place: ScratchPlace) -> bool:
        return "://" in place.real or place.real.startswith(self.root)

    def _real(self, text: str) -> str:
        """Returns the name without links in its folders.

        A link in the last part stays, because it is what a call replaces.
        """
        folder, name = os.path.split(text.rstrip("/") or "/")
        if name in (".", ".."):
            folder, name = os.path.join(folder, name), ""
        if not folder.startswith("/"):
            folder = os.path.join(os.getcwd(), folder)
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = self._resolve_links(folder)
        return os.path.join(known, name) if name else known

    def _resolve_links(self, folder: str) -> str:
        """Does the same as ``os.path.realpath`` as the script sees it: links that it made are in the scratch folder."""
        parts, done, links = folder.split("/")[::-1], "", 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            link = self._link(f"{done}/{part}") if links < MAX_LINKS else None
            if link is None:
                done = f"{done}/{part}"
                continue
            links += 1
            done = "" if link.startswith("/") else done
            parts.extend(reversed(link.split("/")))
        return done or "/"

    def _link(self, path: str) -> str | None:
        """Returns the target of a link; None if there is none, or if it only stands for the user's file of the same
        name.
        """
        mine = self.root + path
        try:
            if not path_exists(mine):
                return None if self.gone and self.is_hidden(ScratchPlace(path, mine)) else _readlink(path)
            link = _readlink(mine)
        except (OSError, ValueError):
            return None
        return None if link == path else link


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_folder(path: str, *, links: bool = True) -> bool:
    try:
        return stat.S_ISDIR((_stat if links else _lstat)(path).st_mode)
    except (OSError, ValueError):
        return False


def _is_link(path: str) -> bool:
    try:
        return stat.S_ISLNK(_lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _as_given_type(path: Any, text: str) -> Any:
    return os.fsencode(text) if isinstance(path, bytes) else text


def _copy_file(source: str, target: str) -> None:
    if not stat.S_ISREG(_stat(source).st_mode):
        return
    with _open(source, "rb") as old, _open(target, "wb") as new:
        shutil.copyfileobj(old, new, 1 << 20)


def _copy_tree(source: str, target: str) -> None:
    if not _is_folder(source):
        _copy_file(source, target)
        return
    _mkdir(target)
    for name in _listdir(source):
        _copy_tree(os.path.join(source, name), os.path.join(target, name))


def _remove_path(path: str) -> None:
    if _is_folder(path, links=False):
        for name in _listdir(path):
            _remove_path(os.path.join(path, name))
        _rmdir(path)
    else:
        _unlink(path)
