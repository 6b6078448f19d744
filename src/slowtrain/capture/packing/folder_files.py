"""The files of a folder that can be packed: their kind, their order and their classes."""

from __future__ import annotations

import csv
import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slowtrain.errors import InputError

KINDS_BY_SUFFIX = {".csv": "csv", ".npz": "npz"}
IMAGE_SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".gif", ".bmp"))
SNIFFED_ROWS = 1000  # of the first CSV file decide the columns' types; a later row that differs is an error
COLUMN_DTYPES = ("int64", "float32", "string")  # the first that fits all rows


@dataclass(frozen=True)
class FolderFiles:
    """``files`` in the order of their elements, relative to ``folder``.

    ``labels``: the number of each file's class, which is the folder that holds it; empty without such folders.
    ``first``: the file whose arrays the others have to resemble, also if this is a part of the folder's files.
    """

    folder: Path
    kind: str
    files: tuple[str, ...]
    class_names: tuple[str, ...] = ()
    labels: tuple[int, ...] = ()
    first: str = ""

    @property
    def are_images(self) -> bool:
        return self.kind == "files" and all(Path(one).suffix.lower() in IMAGE_SUFFIXES for one in self.files)

    def groups(self, group_bytes: int, file_bytes: float) -> list[FolderFiles]:
        """Parts of consecutive files of about ``group_bytes`` each, if a file has ``file_bytes`` on average."""
        count = max(int(group_bytes // max(file_bytes, 1.0)), 1)
        return [
            replace(self, files=self.files[begin : begin + count], labels=self.labels[begin : begin + count])
            for begin in range(0, len(self.files), count)
        ]

    def mean_bytes(self) -> float:
        return sum((self.folder / one).stat().st_size for one in self.files) / len(self.files)


def find_files(folder: Path) -> FolderFiles:
    """The files below ``folder``, sorted by name, without hidden ones. Raises ``InputError`` if there are none.

    Files in subfolders are of the class that the first subfolder names, as ``image_dataset_from_directory`` has it.
    """
    found = sorted(
        os.path.relpath(os.path.join(top, name), folder)
        for top, _, names in os.walk(folder, followlinks=True)
        for name in names
        if not name.startswith(".")
    )
    if not found:
        raise InputError(f"{folder} holds no files to pack")
    kinds = {KINDS_BY_SUFFIX.get(Path(one).suffix.lower(), "files") for one in found}
    if len(kinds) > 1:
        raise InputError(f"{folder} mixes CSV or NPZ files with others; give a folder of one kind")
    tops = [Path(one).parts[0] if len(Path(one).parts) > 1 else "" for one in found]
    names = tuple(sorted(set(tops))) if all(tops) and kinds == {"files"} else ()
    labels = tuple(names.index(one) for one in tops) if names else ()
    return FolderFiles(folder, kinds.pop(), tuple(found), names, labels, found[0])


def folder_digest(folder: Path) -> str:
    """SHA-256 of the names, sizes and modification times of all files: it changes when one of them does.

    Raises ``InputError`` for a file that cannot be read.
    """
    digest = hashlib.sha256()
    for one in find_files(folder).files:
        try:
            about = (folder / one).stat()
        except OSError as error:
            raise InputError(f"cannot read {folder / one} ({error.strerror}); nothing was written") from error
        digest.update(f"{one}\0{about.st_size}\0{about.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def csv_columns(path: Path) -> tuple[tuple[str, str], ...]:
    """The names and types of a CSV file's columns, from its header and first rows. Raises ``InputError``."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            names = next(rows, [])
            first = [row for row, _ in zip(rows, range(SNIFFED_ROWS), strict=False)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {path} ({error})") from error
    if not names or not first:
        raise InputError(f"{path} has no header and rows")
    if len(set(names)) < len(names):
        raise InputError(f"two columns of {path} have the same name")
    require_equal_lengths(path, len(names), first)
    return tuple((name, _column_dtype([row[n] for row in first])) for n, name in enumerate(names))


def require_equal_lengths(path: Path, columns: int, rows: list[list[str]], begun: int = 2) -> None:
    """Raises ``InputError`` if a row has more or fewer values than the header; ``begun``: line of the first row."""
    for number, row in enumerate(rows, begun):
        if len(row) != columns:
            raise InputError(f"{path}:{number} has {len(row)} values and the header {columns}: ragged data")


def _column_dtype(values: list[str]) -> str:
    return next(one for one in COLUMN_DTYPES if one == "string" or _are_numbers(values, one))


def _are_numbers(values: list[str], dtype: str) -> bool:
    try:
        np.array(values).astype(np.float64).astype(dtype) if dtype != "int64" else [int(one) for one in values]
    except (ValueError, OverflowError):
        return False
    return True


def has_rows(path: Path) -> bool:
    """Whether the arrays of an NPZ file are as long as each other along their first axis, so that rows belong together.

    Raises ``InputError`` for a file that cannot be read or holds Python objects.
    """
    arrays = read_arrays(path)
    lengths = {array.shape[0] if array.ndim else -1 for array in arrays.values()}
    return len(lengths) == 1 and lengths.pop() > 1


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an NPZ file by name. Raises ``InputError``."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in sorted(archive.files)}
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise InputError(f"{path} holds Python objects, which records do not hold; save plain arrays") from None
        raise InputError(f"cannot read {path} ({error})") from error
    except Exception as error:  # zipfile and zlib raise several kinds for a damaged file
        raise InputError(f"cannot read {path} ({error})") from error
    if not arrays:
        raise InputError(f"{path} holds no arrays")
    return arrays
