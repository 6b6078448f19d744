"""Keeps a probe from changing the user's files through TensorFlow or h5py, which open them in C++ by their names.

Names that are known only inside a graph are moved below the scratch folder by operations of the graph. The patched
functions have the same names in TensorFlow 2.15 and 2.21.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import wrapt

from slowtrain.capture.core.patching import hide_from_warnings
from slowtrain.capture.sandbox.file_redirection import FileRedirection
from slowtrain.capture.sandbox.scratch_folder import ScratchFolder, ScratchPlace
from slowtrain.capture.sandbox.temporary_files import NAME_PREFIX, WHOLE_NAME, names_with_prefix

FileFunction = Callable[..., Any]
FILE_IO_MODULE = "tensorflow.python.lib.io._pywrap_file_io"
FILE_OPS_MODULE = "tensorflow.python.ops.gen_io_ops"
DATASET_OPS_MODULE = "tensorflow.python.ops.gen_dataset_ops"
EXPERIMENTAL_DATASET_OPS_MODULE = "tensorflow.python.ops.gen_experimental_dataset_ops"
WILD_CARDS = "*?[\\"


def install_tensorflow_redirection(redirect: FileRedirection, note: Callable[[str], None]) -> None:
    """Patches modules when they are imported. ``note`` gets a message for each module that could not be patched."""
    files = FileFunctions(redirect)
    patch_on_import(FILE_IO_MODULE, files.patch, note)
    names = FileNameArguments(redirect.scratch)
    for module, patches in names.patches().items():
        patch_on_import(module, partial(_patch_arguments, patches), note)
    patch_on_import(FILE_OPS_MODULE, names.patch_matching, note)
    patch_on_import(
        "h5py._hl.files", lambda m: _map_argument(m.File, "__init__", "name", _open_mapping(redirect, "r")), note
    )


def patch_on_import(module: str, patch: FileFunction, note: Callable[[str], None]) -> None:
    def hook(loaded: Any) -> None:
        try:
            patch(loaded)
        except Exception as error:
            note(f"{module}: {type(error).__name__}: {error}")

    wrapt.register_post_import_hook(hook, module)


def _patch_arguments(patches: Sequence[tuple[str, str, FileFunction]], module: Any) -> None:
    for name, argument, where in patches:
        owner: Any = module
        *outer, last = name.split(".")
        for part in outer:
            owner = getattr(owner, part, None)
        if owner is not None and hasattr(owner, last):  # some versions lack a function
            _map_argument(owner, last, argument, partial(_map_value, where))


def _map_value(where: FileFunction, value: Any, _given: inspect.BoundArguments) -> Any:
    return where(value)


def _map_argument(owner: Any, name: str, argument: str, where: Callable[[Any, inspect.BoundArguments], Any]) -> None:
    """Wraps ``owner.name`` so that it gets ``where(value, all arguments)`` as the value of ``argument``."""
    original = getattr(owner, name)
    signature = inspect.signature(original)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return original(*args, **kwargs)  # which reports the error
        if argument in bound.arguments:
            bound.arguments[argument] = where(bound.arguments[argument], bound)
        return original(*bound.args, **bound.kwargs)

    hide_from_warnings(call)
    functools.update_wrapper(call, original)
    setattr(owner, name, call)


def _open_mapping(redirect: FileRedirection, default: str) -> Callable[[Any, inspect.BoundArguments], Any]:
    def where(path: Any, bound: inspect.BoundArguments) -> Any:
        mode = bound.arguments.get("mode") or default
        return redirect.path_to_open(path, "x" if mode == "w-" else mode)

    return where


class FileNameArguments:
    """Arguments of TensorFlow's functions that name files: a string, or a tensor of strings."""

    def __init__(self, scratch: ScratchFolder) -> None:
        self.scratch = scratch

    def patches(self) -> dict[str, list[tuple[str, str, FileFunction]]]:
        """Returns by module: function, its argument, and the mapping of that argument."""
        written, prefix, read = (
            self.map_written,
            partial(self._each, self._prefix),
            partial(self._each, self._path_to_read),
        )
        records = [
            (f"{name}{version}", "filenames", self._source)
            for name in ("tf_record_dataset", "text_line_dataset", "fixed_length_record_dataset")
            for version in ("", "_v2")
        ]
        return {
            FILE_OPS_MODULE: [
                ("write_file", "filename", written),
                ("save", "filename", written),
                ("save_slices", "filename", written),
                ("save_v2", "prefix", written),
                ("merge_v2_checkpoints", "checkpoint_prefixes", written),
                ("merge_v2_checkpoints", "destination_prefix", written),
                ("restore", "file_pattern", prefix),
                ("restore_slice", "file_pattern", prefix),
                ("restore_v2", "prefix", prefix),
                ("read_file", "filename", read),
            ],
            DATASET_OPS_MODULE: [
                ("cache_dataset", "filename", partial(self._each, self._cache)),
                ("cache_dataset_v2", "filename", partial(self._each, self._cache)),
                *records,
            ],
            EXPERIMENTAL_DATASET_OPS_MODULE: [
                ("save_dataset", "path", written),
                ("save_dataset_v2", "path", written),
                ("snapshot_dataset", "path", written),
                ("snapshot_dataset_v2", "path", written),
                ("dataset_to_tf_record", "filename", written),
                ("load_dataset", "path", read),
                ("csv_dataset", "filenames", self._source),
                ("csv_dataset_v2", "filenames", self._source),
            ],
            "tensorflow.python.data.ops.readers": [("_create_or_validate_filenames_dataset", "filenames", read)],
            "tensorflow.python.ops.gen_summary_ops": [("create_summary_file_writer", "logdir", written)],
            "tensorflow.python.summary.writer.event_file_writer": [("EventFileWriter.__init__", "logdir", written)],
            "tensorflow.python.saved_model.save": [("save_and_return_nodes", "export_dir", written)],
            "tensorflow.python.saved_model.load": [("load_partial", "export_dir", read)],
            "tensorflow.python.lib.io.tf_record": [
                ("TFRecordWriter.__init__", "path", written),
                ("tf_record_iterator", "path", read),
                ("tf_record_random_reader", "path", read),
            ],
            "tensorflow.python.training.py_checkpoint_reader": [("NewCheckpointReader", "filepattern", prefix)],
            "tensorflow.python.profiler.profiler_v2": [("start", "logdir", written)],
            "tensorflow.python.debug.lib.dumping_callback": [("enable_dump_debug_info", "dump_root", written)],
        }

    def map_written(self, value: Any) -> Any:
        return self._each(self._path_to_write, value, self._move_in_graph)

    def _source(self, value: Any) -> Any:
        """Maps the files of a data set. Once something was written, names known only in the graph are mapped there."""
        return self._each(self._path_to_read, value, self._find_in_graph if self.scratch.has_changes() else None)

    def _each(self, one: FileFunction, value: Any, in_graph: FileFunction | None = None) -> Any:
        """Maps each name in ``value``, whatever its type, with ``one``; a tensor without a value with ``in_graph``."""
        if isinstance(value, (str, bytes, os.PathLike)):
            return one(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self._each(one, v, in_graph) for v in value)
        known = _tensor_value(value)
        if known is None:
            return in_graph(value) if in_graph is not None and getattr(value, "dtype", None) == "string" else value
        if isinstance(known, bytes):
            return one(known)
        return _string_array([one(name) for name in known.ravel()], known.shape)

    def _path_to_write(self, path: Any) -> Any:
        place = self.scratch.place(path, note_kind=NAME_PREFIX)
        if place is None:
            return path
        scratch = self.scratch.path_to_write(place)
        return os.fsencode(scratch) if isinstance(path, bytes) else scratch

    def _path_to_read(self, path: Any) -> Any:
        return self.scratch.path_to_read(path)

    def _prefix(self, path: Any) -> Any:
        """Maps the prefix by which a checkpoint is named."""
        place = self.scratch.place(path)
        if place is None or not names_with_prefix(place.scratch):
            return path
        return os.fsencode(place.scratch) if isinstance(path, bytes) else place.scratch

    def _cache(self, path: Any) -> Any:
        """Maps the name of a cache. A finished cache of the user's is only read, through links."""
        place = self.scratch.place(path, note_kind=NAME_PREFIX)
        if place is None:
            return path
        found = self._path_to_write(path)
        if not names_with_prefix(place.scratch) and os.path.exists(f"{place.real}.index"):
            for name in names_with_prefix(place.real):
                real = os.path.join(os.path.dirname(place.real), name)
                self.scratch.link(real, place.scratch + real[len(place.real) :])
        return found

    def patch_matching(self, module: Any) -> None:
        """Patches the search for a pattern.

        Files in the scratch folder are returned by their names there, for graphs.
        """
        original = module.matching_files

        def matching_files(pattern: Any, name: Any = None) -> Any:
            found = original(pattern, name)
            known, names = _tensor_value(pattern), _tensor_value(found)
            if names is None or not self.scratch.has_changes():
                return found
            patterns = [known] if isinstance(known, bytes) else list(pattern if known is None else known.ravel())
            if isinstance(pattern, (str, bytes)):
                patterns = [pattern]
            matches = [one for one in names.ravel() if self.scratch.path_to_read(one) == one]
            for place in filter(None, map(self.scratch.place, patterns)):
                matches += [one for one in original(place.scratch).numpy().ravel() if one not in matches]
            return sys.modules["tensorflow"].constant(sorted(matches), "string", [len(matches)])

        module.matching_files = functools.update_wrapper(hide_from_warnings(matching_files), original)

    # -- in graphs

    def _move_in_graph(self, name: Any) -> Any:
        """Returns the name below the scratch folder, computed in the graph. Names in untouched folders stay."""
        tensorflow, scratch = sys.modules["tensorflow"], self.scratch
        strings = tensorflow.strings
        full = tensorflow.where(
            strings.regex_full_match(name, "(?s)/.*"), name, strings.join([os.getcwd() + "/", name])
        )
        left = "|".join(re.escape(one) for one in (scratch.root, *scratch.left) if one != "/dev")
        stays = strings.regex_full_match(full, f"(?s)({left})/.*")
        for folder, names in scratch.old.items():
            if not any(os.getcwd().startswith(f"{folder}/{one}") for one in names):
                stays |= strings.regex_full_match(full, f"(?s){re.escape(folder)}/.*")
        return tensorflow.where(stays, name, strings.join([scratch.root, full]))

    def _find_in_graph(self, name: Any) -> Any:
        tensorflow = sys.modules["tensorflow"]
        if name.shape.rank != 0:
            return name
        moved = self._move_in_graph(name)
        found = tensorflow.size(tensorflow.io.matching_files(moved))
        return tensorflow.cond(found > 0, lambda: moved, lambda: name)


class FileFunctions:
    """TensorFlow's own file functions, below ``tf.io.gfile``, checkpoints and saved models."""

    def __init__(self, redirect: FileRedirection) -> None:
        self.redirect = redirect
        self.scratch = redirect.scratch

    def patch(self, module: Any) -> None:
        scratch = self.scratch

        def open_redirected(original: FileFunction, path: Any, mode: Any, *rest: Any) -> Any:
            return original(self.redirect.path_to_open(path, os.fsdecode(mode)), mode, *rest)

        def read_redirected(original: FileFunction, path: Any, *rest: Any) -> Any:
            return original(scratch.path_to_read(path), *rest)

        for name in ("FileExists", "IsDirectory", "Stat", "BufferedInputStream", "ReadFileToString"):
            self._replace(module, name, read_redirected)
        self._replace(module, "WritableFile", open_redirected)
        self._replace(
            module, "WriteStringToFile", lambda original, path, *rest: open_redirected(original, path, "w", *rest)
        )
        for name in ("DeleteFile", "DeleteRecursively"):
            self._replace(module, name, self._remove)
        for name in ("CreateDir", "RecursivelyCreateDir"):
            self._replace(module, name, self._make_folder)
        self._replace(module, "CopyFile", self._copy)
        self._replace(module, "RenameFile", self._rename)
        self._replace(module, "GetChildren", self._children)
        self._replace(module, "GetMatchingFiles", self._matching)

    def _replace(self, module: Any, name: str, instead: FileFunction) -> None:
        original = getattr(module, name, None)
        if original is not None:
            setattr(module, name, hide_from_warnings(_bind_original(instead, original)))

    def _remove(self, original: FileFunction, path: Any, *rest: Any) -> Any:
        place = self.scratch.place(path)
        if place is None:
            return original(path, *rest)
        if not self.scratch.is_present(place) or (
            original.__name__ == "DeleteFile" and _is_folder(self.scratch, place)
        ):
            return original(
                place.scratch if not self.scratch.is_present(place) else self.scratch.path_to_read(path), *rest
            )
        self.scratch.remove(place)
        return None

    def _make_folder(self, original: FileFunction, path: Any, *rest: Any) -> Any:
        place = self.scratch.place(path, note_kind=WHOLE_NAME)
        if place is None:
            return original(path, *rest)
        if self.scratch.has_own_file(place) and not self.scratch.in_scratch(place):
            return original(place.real, *rest)  # exists already: nothing is created
        if original.__name__ == "CreateDir":
            return original(self.scratch.path_to_write(place), *rest)
        self.scratch.path_to_write(place)
        self.scratch.folders(place.scratch)
        return None

    def _copy(self, original: FileFunction, source: Any, target: Any, overwrite: bool, *rest: Any) -> Any:
        place = self.scratch.place(target, note_kind=WHOLE_NAME)
        if place is not None:
            there = self.scratch.is_present(place)
            target = self.scratch.path_to_read(target) if there and not overwrite else self.scratch.path_to_write(place)
        return original(self.scratch.path_to_read(source), target, overwrite, *rest)

    def _rename(self, original: FileFunction, source: Any, target: Any, overwrite: bool, *rest: Any) -> Any:
        origin, goal = self.scratch.place(source), self.scratch.place(target, note_kind=WHOLE_NAME)
        if origin is None and goal is None:
            return original(source, target, overwrite, *rest)
        missing = origin is not None and not self.scratch.is_present(origin)
        if missing or (goal is not None and self.scratch.is_present(goal) and not overwrite):
            # Which reports the error. Both names are those of copies.
            begun = source if origin is None else self.scratch.copy_up(origin)
            return original(begun, target if goal is None else self.scratch.copy_up(goal), overwrite, *rest)
        self.scratch.rename(source, target)
        return None

    def _children(self, original: FileFunction, path: Any, *rest: Any) -> Any:
        place = self.scratch.changed_folder(path)
        if place is None or "://" in place.real:
            return original(self.scratch.path_to_read(path), *rest)
        return self.scratch.names(place)

    def _matching(self, original: FileFunction, pattern: Any, *rest: Any) -> Any:
        found = original(pattern, *rest)
        shown = os.fsdecode(pattern)
        place = self.scratch.place(pattern) if self.scratch.has_changes() else None
        if place is None or place.inside:
            return found
        visible = [one for one in found if not self._hides_path(one)]
        moved = original(place.scratch, *rest)
        back = [_name_as_given(one[len(self.scratch.root) :], shown, place) for one in map(os.fsdecode, moved)]
        return sorted({*visible, *back})

    def _hides_path(self, path: Any) -> bool:
        place = self.scratch.place(path)
        return place is not None and self.scratch.is_hidden(place)


def _bind_original(instead: FileFunction, original: FileFunction) -> FileFunction:
    def call(*args: Any, **kwargs: Any) -> Any:
        return instead(original, *args, **kwargs)

    call.__name__ = original.__name__
    return call


def _name_as_given(real: str, pattern: str, place: ScratchPlace) -> str:
    """Returns a file's real name in the form of the pattern: the part before the wild cards stays as given."""
    wild = min((pattern.find(c) for c in WILD_CARDS if c in pattern), default=len(pattern))
    folder = pattern[:wild].rpartition("/")[0]
    parts = len([p for p in pattern[len(folder) :].split("/") if p])
    start = "/".join(place.real.split("/")[:-parts]) if parts else place.real
    return os.path.join(folder, real[len(start) :].lstrip("/")) if folder or not pattern.startswith("/") else real


def _is_folder(scratch: ScratchFolder, place: ScratchPlace) -> bool:
    return os.path.isdir(place.scratch if scratch.in_scratch(place) else place.real)


def _tensor_value(tensor: Any) -> Any:
    """Returns the value of a tensor or an array; None if only the graph will know it."""
    if isinstance(tensor, sys.modules["numpy"].ndarray):
        return tensor
    read = getattr(tensor, "numpy", None)
    if getattr(tensor, "dtype", None) != "string":
        return None
    try:
        return read() if read is not None else sys.modules["tensorflow"].get_static_value(tensor)
    except (AttributeError, NotImplementedError):
        return sys.modules["tensorflow"].get_static_value(tensor)


def _string_array(names: Sequence[Any], shape: tuple[int, ...]) -> Any:
    numpy = sys.modules["numpy"]
    found = numpy.empty(len(names), dtype=object)
    found[:] = names
    return found.reshape(shape)
