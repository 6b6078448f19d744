"""Keeps a probe from changing the user's files through Python's functions that open, create, move and remove files.

:mod:`slowtrain.capture.sandbox.tensorflow_redirection` does this for TensorFlow's own functions and for h5py. What
both cannot redirect (other programs, databases, libraries that open files themselves) is detected beforehand by
:mod:`slowtrain.script.properties.outside_effects`.
"""

from __future__ import annotations

import _io
import builtins
import bz2
import contextlib
import errno
import functools
import io
import lzma
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from slowtrain.capture.core.patching import hide_from_warnings
from slowtrain.capture.sandbox.scratch_folder import ScratchFolder, ScratchPlace
from slowtrain.capture.sandbox.temporary_files import WHOLE_NAME

WRITING_MODES, CREATING_MODES = frozenset("wax+"), frozenset("wax")
CHANGING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

FileFunction = Callable[..., Any]
# Returns the redirected path. Raises what the script's own call would raise.
PathMapping = Callable[[Any, "int | None"], Any]


def replace_for_good(owner: Any, name: str, make: Callable[[FileFunction], FileFunction]) -> None:
    """Sets ``owner.name`` to ``make(original)`` permanently."""
    original = getattr(owner, name)
    wrapped = hide_from_warnings(make(original))
    functools.update_wrapper(wrapped, original, updated=())
    setattr(owner, name, wrapped)


class FileRedirection:
    def __init__(self, scratch: ScratchFolder) -> None:
        self.scratch = scratch

    def install(self) -> None:
        scratch = self.scratch
        opened = self._opener(builtins.open)
        builtins.open = io.open = opened
        # Bound to the original when they were imported.
        vars(bz2)["_builtin_open"] = opened
        io.FileIO = _redirected_file_class(self)  # type: ignore[misc]
        lzma.builtins.open = opened  # type: ignore[attr-defined]
        replace_for_good(os, "open", self._descriptor)
        replace_for_good(os, "mkdir", lambda original: self._one(original, self._to_make))
        for name in ("remove", "unlink"):
            replace_for_good(os, name, self._patch_remove)
        replace_for_good(os, "rmdir", self._patch_rmdir)
        replace_for_good(shutil, "rmtree", self._patch_rmtree)
        for name in ("rename", "replace"):
            replace_for_good(os, name, self._patch_rename)
        for name in ("link", "symlink"):
            replace_for_good(os, name, self._patch_link)
        for name in ("stat", "access", "chdir", "getxattr", "listxattr"):
            replace_for_good(os, name, lambda original: self._one(original, scratch.path_to_read))
        for name in ("lstat", "readlink"):
            replace_for_good(
                os, name, lambda original: self._one(original, partial(scratch.path_to_read, follow=False))
            )
        for name in ("chmod", "chown", "lchown", "utime", "truncate", "setxattr", "removexattr"):
            replace_for_good(os, name, lambda original: self._one(original, self._to_change))
        for name in ("mkfifo", "mknod"):
            replace_for_good(os, name, lambda original: self._one(original, self._to_make))
        replace_for_good(os, "listdir", self._patch_listdir)
        replace_for_good(os, "scandir", self._patch_scandir)
        _patch_old_pathlib()

    # -- opening

    def path_to_open(self, file: Any, mode: Any, folder: int | None = None) -> Any:
        """Returns the path to open in place of ``file``."""
        if not (isinstance(mode, str) and WRITING_MODES & set(mode)):
            return self.scratch.path_to_read(file, folder)
        place = self.scratch.place(file, folder, note_kind=WHOLE_NAME if CREATING_MODES & set(mode) else "")
        return file if place is None else self.scratch.path_to_open(place, mode)

    def _opener(self, original: FileFunction) -> FileFunction:
        def open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:  # noqa: A001  the name it replaces
            return original(self.path_to_open(file, mode), mode, *args, **kwargs)

        return functools.update_wrapper(hide_from_warnings(open), original, updated=())

    def _descriptor(self, original: FileFunction) -> FileFunction:
        def open(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:  # noqa: A001
            mode = "r"
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                place = self.scratch.place(path, kwargs.get("dir_fd"))
                return original(path if place is None else self.scratch.copy_up(place), flags, *args, **kwargs)
            if flags & os.O_CREAT and flags & os.O_EXCL:
                mode = "x"
            elif flags & os.O_TRUNC and flags & os.O_CREAT:
                mode = "w"
            elif flags & CHANGING_FLAGS:
                mode = "a"
            return original(self.path_to_open(path, mode, kwargs.get("dir_fd")), flags, *args, **kwargs)

        return open

    # -- functions of one path

    def _one(self, original: FileFunction, where: PathMapping) -> FileFunction:
        def call(*args: Any, **kwargs: Any) -> Any:
            folder = kwargs.get("dir_fd")
            if args:
                args = (where(args[0], folder), *args[1:])
            elif "path" in kwargs:
                kwargs["path"] = where(kwargs["path"], folder)
            return original(*args, **kwargs)

        return call

    def _to_make(self, path: Any, folder: int | None) -> Any:
        place = self.scratch.place(path, folder, follow=False, note_kind=WHOLE_NAME)
        if place is None:
            return path
        if self.scratch.is_present(place):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        return self.scratch.path_to_write(place)

    def _to_change(self, path: Any, folder: int | None) -> Any:
        place = self.scratch.place(path, folder)
        return path if place is None else self.scratch.copy_up(place)

    # -- removing

    def _patch_remove(self, original: FileFunction) -> FileFunction:
        def remove(path: Any, *, dir_fd: int | None = None) -> None:
            place = self.scratch.place(path, dir_fd, follow=False)
            if place is None:
                original(path, dir_fd=dir_fd)
                return
            self._must_be(place, path)
            if self._is_folder(place):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            self.scratch.remove(place)

        return remove

    def _patch_rmdir(self, original: FileFunction) -> FileFunction:
        def rmdir(path: Any, *, dir_fd: int | None = None) -> None:
            place = self.scratch.place(path, dir_fd, follow=False)
            if place is None:
                original(path, dir_fd=dir_fd)
                return
            self._must_be(place, path)
            if self.scratch.names(place):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
            self.scratch.remove(place)

        return rmdir

    def _patch_rmtree(self, original: FileFunction) -> FileFunction:
        def rmtree(path: Any, ignore_errors: bool = False, *args: Any, **kwargs: Any) -> None:
            place = self.scratch.place(path, kwargs.get("dir_fd"), follow=False)
            if place is None or not (self.scratch.is_present(place) and self._is_folder(place)):
                # Finds nothing to remove, and reports it as the caller requested.
                original(path if place is None else place.scratch, ignore_errors, *args, **kwargs)
                return
            self.scratch.remove(place)

        rmtree.avoids_symlink_attacks = True  # type: ignore[attr-defined]
        return rmtree

    def _must_be(self, place: ScratchPlace, path: Any) -> None:
        if not self.scratch.is_present(place):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def _is_folder(self, place: ScratchPlace) -> bool:
        path = place.scratch if self.scratch.in_scratch(place) else place.real
        return os.path.isdir(path) and not os.path.islink(path)

    # -- moving

    def _patch_rename(self, original: FileFunction) -> FileFunction:
        def rename(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
            origin = self.scratch.place(src, src_dir_fd, follow=False)
            goal = self.scratch.place(dst, dst_dir_fd, follow=False, note_kind=WHOLE_NAME)
            if origin is None and goal is None:
                original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
                return
            if origin is not None:
                self._must_be(origin, src)
            self.scratch.rename(src if origin is None else origin.scratch, dst if goal is None else goal.scratch)

        return rename

    def _patch_link(self, original: FileFunction) -> FileFunction:
        """Turns a hard link into a copy, because the scratch folder may be on another disk."""

        def link(src: Any, dst: Any, *args: Any, **kwargs: Any) -> None:
            folder = kwargs.get("dst_dir_fd", kwargs.get("dir_fd"))
            place = self.scratch.place(dst, folder, follow=False, note_kind=WHOLE_NAME)
            if place is None:
                original(self.scratch.path_to_read(src), dst, *args, **kwargs)
                return
            if self.scratch.is_present(place):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), src, None, dst)
            if original.__name__ == "symlink":
                self.scratch.link(os.fsdecode(src), self.scratch.path_to_write(place))
                return
            origin = self.scratch.place(src)
            if origin is not None:
                self._must_be(origin, src)
            shutil.copyfile(src, self.scratch.path_to_write(place))

        return link

    # -- listing

    def _patch_listdir(self, original: FileFunction) -> FileFunction:
        def listdir(path: Any = None) -> Any:
            place = self.scratch.changed_folder("." if path is None else path)
            if place is None:
                return original(path)
            names = self.scratch.names(place)
            return [os.fsencode(one) for one in names] if isinstance(path, bytes) else names

        return listdir

    def _patch_scandir(self, original: FileFunction) -> FileFunction:
        def scandir(path: Any = None) -> Any:
            place = self.scratch.changed_folder("." if path is None else path)
            if place is None:
                return original(path)
            return RedirectedEntries(self._entries(original, place, "." if path is None else path))

        return scandir

    def _entries(self, original: FileFunction, place: ScratchPlace, path: Any) -> Iterator[RedirectedEntry]:
        shown = os.fspath(path)
        wanted = set(self.scratch.names(place))
        for folder in (place.scratch, place.real):
            if folder == place.real and (
                (place.inside and folder == place.scratch) or not self.scratch.has_own_file(place)
            ):
                continue
            with contextlib.suppress(FileNotFoundError), original(folder) as found:
                for one in found:
                    if one.name in wanted:
                        wanted.discard(one.name)
                        yield RedirectedEntry(one, shown)


class RedirectedEntry:
    """An entry of ``os.scandir``, under the path that the script knows."""

    def __init__(self, entry: os.DirEntry[str], folder: str | bytes) -> None:
        self._entry = entry
        self.name: str | bytes = os.fsencode(entry.name) if isinstance(folder, bytes) else entry.name
        self.path: str | bytes = os.path.join(folder, self.name)  # type: ignore[arg-type]
        self.is_dir, self.is_file, self.is_symlink = entry.is_dir, entry.is_file, entry.is_symlink
        self.stat, self.inode = entry.stat, entry.inode

    def __fspath__(self) -> str | bytes:
        return self.path


class RedirectedEntries(Iterator[RedirectedEntry]):
    """The result of ``os.scandir``: an iterator that can be closed."""

    def __init__(self, entries: Iterator[RedirectedEntry]) -> None:
        self._entries = entries

    def __next__(self) -> RedirectedEntry:
        return next(self._entries)

    def __enter__(self) -> RedirectedEntries:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def _redirected_file_class(redirect: FileRedirection) -> Any:
    """Returns a subclass of ``io.FileIO``, which opens files itself. Results of ``open`` are still instances of it."""

    class Kind(type(_io.FileIO)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, _io.FileIO)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, _io.FileIO)

    class FileIO(_io.FileIO, metaclass=Kind):
        def __init__(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> None:
            super().__init__(redirect.path_to_open(file, mode), mode, *args, **kwargs)

    FileIO.__module__ = "_io"
    return FileIO


def _patch_old_pathlib() -> None:
    """Patches the class in which Python 3.10 keeps the functions of ``os``."""
    accessor = getattr(pathlib, "_NormalAccessor", None)
    for name in ("stat", "open", "listdir", "scandir", "chmod", "mkdir", "unlink", "rmdir", "rename", "replace",
                 "symlink", "link", "readlink"):  # fmt: skip
        if accessor is not None and hasattr(accessor, name):
            setattr(accessor, name, staticmethod(io.open if name == "open" else getattr(os, name)))
