"""Keeps a probe from changing the user's files: what it writes goes to a scratch folder, what it removes stays.

Paths below the system's folder for temporary files are left alone. A path that was written is read from the scratch
folder too, as far as Python or TensorFlow's file functions read it. What writes past all of these (other processes,
databases, C libraries that open files themselves) cannot be kept; :mod:`slowtrain.source.writing` names it beforehand.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from slowtrain.capture.patching import on_import, replace
from slowtrain.capture.recorder import Recorder

FILE_IO = "tensorflow.python.lib.io.file_io"
LEFT = ("/dev", "/proc", "/sys")
WRITING = frozenset("wax+")
CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Functions of TensorFlow that write below a path, and which argument it is (TensorFlow 2.15 and 2.21).
TENSORFLOW = (
    ("tensorflow.python.ops.summary_ops_v2", None, "create_file_writer_v2", 0, "logdir"),
    ("tensorflow.python.checkpoint.checkpoint", "Checkpoint", "save", 1, "file_prefix"),
    ("tensorflow.python.checkpoint.checkpoint", "Checkpoint", "write", 1, "file_prefix"),
    ("tensorflow.python.checkpoint.checkpoint", "Checkpoint", "read", 1, "save_path"),
    ("tensorflow.python.checkpoint.checkpoint", "Checkpoint", "restore", 1, "save_path"),
    ("tensorflow.python.checkpoint.checkpoint_management", "CheckpointManager", "__init__", 2, "directory"),
    ("tensorflow.python.checkpoint.checkpoint_management", None, "latest_checkpoint", 0, "checkpoint_dir"),
    ("tensorflow.python.saved_model.save", None, "save", 1, "export_dir"),
    ("tensorflow.python.lib.io.tf_record", "TFRecordWriter", "__init__", 1, "path"),
    (FILE_IO, "FileIO", "__init__", 1, "name"),
    (FILE_IO, None, "recursive_create_dir_v2", 0, "path"),
    ("h5py._hl.files", "File", "__init__", 1, "name"),
)
REMOVING = ("delete_recursively_v2", "delete_file_v2")  # of FILE_IO
READING = frozenset({"read", "restore", "latest_checkpoint"})


class Redirect:
    """``root`` is the scratch folder; ``moved`` says what was written there, by the name that the script gave."""

    def __init__(self, recorder: Recorder, root: Path) -> None:
        self.recorder = recorder
        self.root = os.path.realpath(root)
        self.left = (*LEFT, os.path.realpath(tempfile.gettempdir()), self.root, os.path.realpath(recorder.folder))
        self.moved: dict[str, str] = {}
        self._stat, self._mkdir = os.stat, os.makedirs

    def install(self) -> None:
        opened = self._opener(builtins.open)
        builtins.open = io.open = opened
        replace(os, "open", self._descriptor)
        for name in ("mkdir", "makedirs"):
            replace(os, name, self._made)
        for name in ("remove", "unlink", "rmdir"):
            replace(os, name, self._removed)
        for name in ("rename", "replace"):
            replace(os, name, self._renamed)
        for name in ("stat", "listdir", "scandir"):
            replace(os, name, self._looked)
        replace(shutil, "rmtree", self._removed)
        for module, owner, name, position, keyword in TENSORFLOW:
            on_import(self.recorder, module, self._patch(owner, name, position, keyword))
        for name in REMOVING:
            on_import(self.recorder, FILE_IO, partial(replace, name=name, make=self._removed))
        self.recorder.at_exit.append(self._note)

    def written(self, path: Any) -> Any:
        """Where ``path`` is to be written; ``path`` itself where it may be."""
        place = self._place(path)
        if place is None:
            return path
        real, scratch = place
        if real not in self.moved:
            self.moved[real] = scratch
            self._mkdir(os.path.dirname(scratch), exist_ok=True)
            self._note()
        return scratch

    def read(self, path: Any) -> Any:
        """Where ``path`` is to be read: what the probe wrote itself, if it did."""
        if not self.moved:
            return path
        place = self._place(path)
        return place[1] if place is not None and self._is_there(place[1]) else path

    def _place(self, path: Any) -> tuple[str, str] | None:
        """The real path and its place in the scratch folder; None for what is left alone."""
        if isinstance(path, int):
            return None
        try:
            text = os.fsdecode(os.fspath(path))
        except TypeError:
            return None
        if not text or "://" in text:
            return None
        real = os.path.abspath(text)
        folder = os.path.realpath(os.path.dirname(real))
        real = os.path.join(folder, os.path.basename(real))
        if any(real == one or real.startswith(one + os.sep) for one in self.left):
            return None
        return real, self.root + real

    def _is_there(self, path: str) -> bool:
        try:
            self._stat(path)
        except OSError:
            return False
        return True

    def _note(self) -> None:
        self.recorder.fact("redirected", sorted(self.moved)[:100])

    # -- the functions that open, make, remove and look

    def _opener(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:  # noqa: A001  the name it replaces
            return original(self._opened(file, mode), mode, *args, **kwargs)

        return open

    def _opened(self, file: Any, mode: Any) -> Any:
        if not (isinstance(mode, str) and WRITING & set(mode)):
            return self.read(file)
        scratch = self.written(file)
        if (
            scratch is not file
            and ("a" in mode or "r" in mode)
            and not self._is_there(scratch)
            and self._is_there(file)
        ):
            shutil.copyfile(file, scratch)
        return scratch

    def _descriptor(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def open(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:  # noqa: A001
            if kwargs.get("dir_fd") is None:
                mode = "w" if flags & os.O_TRUNC else "a" if flags & CHANGING & ~os.O_CREAT else "r"
                path = self._opened(path, "w" if flags & os.O_CREAT and mode == "r" else mode)
            return original(path, flags, *args, **kwargs)

        return open

    def _made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def mkdir(name: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is not None or self._is_there(name):
                return original(name, *args, **kwargs)  # which says that it exists
            return original(self.written(name), *args, **kwargs)

        return mkdir

    def _removed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def remove(path: Any, *args: Any, **kwargs: Any) -> Any:
            place = None if kwargs.get("dir_fd") is not None else self._place(path)
            if place is None or self._is_there(place[1]):
                return original(path if place is None else place[1], *args, **kwargs)
            return None  # the user's own file stays

        return remove

    def _renamed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def rename(src: Any, dst: Any, **kwargs: Any) -> Any:
            if kwargs or (self._place(src) is None and self._place(dst) is None):
                return original(src, dst, **kwargs)
            known = self.read(src)
            if known is src and self._place(src) is not None:  # the user's own file stays: a copy goes there
                (shutil.copytree if os.path.isdir(src) else shutil.copyfile)(src, self.written(dst))
                return None
            return original(known, self.written(dst))

        return rename

    def _looked(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def look(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            if not self.moved or kwargs.get("dir_fd") is not None:
                return original(path, *args, **kwargs)
            return original(self.read(path), *args, **kwargs)

        return look

    def _patch(self, owner: str | None, name: str, position: int, keyword: str) -> Callable[[Any], None]:
        def patch(module: Any) -> None:
            replace(getattr(module, owner) if owner else module, name, make)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                if keyword in kwargs:
                    kwargs[keyword] = where(kwargs[keyword], args, kwargs)
                elif position < len(args):
                    args = (*args[:position], where(args[position], args, kwargs), *args[position + 1 :])
                return original(*args, **kwargs)

            return call

        def where(path: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if name in READING:
                return self._prefix(path)
            if name == "__init__" and keyword == "name":  # files with a mode, the second argument
                return self._opened(path, kwargs.get("mode", args[2] if len(args) > 2 else "r"))
            return self.written(path)

        return patch

    def _prefix(self, path: Any) -> Any:
        """A checkpoint is named by the beginning of its files' names."""
        place = self._place(path)
        written = place is not None and any(
            scratch == place[1] or place[1].startswith(scratch) for scratch in self.moved.values()
        )
        return place[1] if place is not None and written else path
