"""Files of records: TFRecord, which TensorFlow reads in order, and ArrayRecord, which Grain reads in any order."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from slowtrain.errors import EnvironmentMissing
from slowtrain.model.packing import ARRAY_RECORD, TFRECORD

TFRECORD_FRAME_BYTES = 16  # length, and two checksums, around each record
ARRAY_RECORD_FRAME_BYTES = 100  # around each record and in the index, about
# One record can be read without others. Pixels hardly shrink, and files that are compressed images do not.
ARRAY_RECORD_OPTIONS = "group_size:1,uncompressed"


class RecordFile(Protocol):
    """A file that is being written. Its methods raise ``OSError`` if the disk refuses it. ``written_bytes``: about."""

    written_bytes: int

    def write(self, record: bytes) -> None: ...

    def close(self) -> None:
        """Ends the file. Also raises ``OSError`` if it does not hold all that was written."""


class TfrecordFile:
    def __init__(self, path: Path) -> None:
        import tensorflow as tf

        self.path, self.written_bytes = path, 0
        with _as_os_errors(tf.errors.OpError):
            self._file = tf.io.TFRecordWriter(str(path))
        self._failure: type[Exception] = tf.errors.OpError

    def write(self, record: bytes) -> None:
        with _as_os_errors(self._failure):
            self._file.write(record)
        self.written_bytes += len(record) + TFRECORD_FRAME_BYTES

    def close(self) -> None:
        with _as_os_errors(self._failure):
            self._file.close()
        size = self.path.stat().st_size
        if size != self.written_bytes:
            raise OSError(errno.EIO, f"{size} bytes are on the disk instead of {self.written_bytes}")


class ArrayRecordFile:
    def __init__(self, path: Path) -> None:
        from array_record.python.array_record_module import ArrayRecordWriter

        self.path, self.written_bytes, self._records = path, 0, 0
        with _as_os_errors(RuntimeError):
            self._file = ArrayRecordWriter(str(path), ARRAY_RECORD_OPTIONS)

    def write(self, record: bytes) -> None:
        with _as_os_errors(RuntimeError):
            self._file.write(record)
        self._records += 1
        self.written_bytes += len(record) + ARRAY_RECORD_FRAME_BYTES

    def close(self) -> None:
        from array_record.python.array_record_module import ArrayRecordReader

        with _as_os_errors(RuntimeError):
            self._file.close()
            reader = ArrayRecordReader(str(self.path))
            found = reader.num_records()
            reader.close()
        if found != self._records:
            raise OSError(errno.EIO, f"{found} records are on the disk instead of {self._records}")


RECORD_FILES: dict[str, Callable[[Path], RecordFile]] = {TFRECORD: TfrecordFile, ARRAY_RECORD: ArrayRecordFile}
SUFFIXES = {TFRECORD: ".tfrecord", ARRAY_RECORD: ".array_record"}


def require_packages(file_format: str) -> None:
    """Raises ``EnvironmentMissing`` if this Python lacks what the format needs."""
    missing = file_format == ARRAY_RECORD and not all(map(find_spec, ("array_record", "grain")))
    if missing:
        raise EnvironmentMissing("ArrayRecord files need Grain: pip install 'slowtrain[grain]'")


@contextmanager
def _as_os_errors(failure: type[Exception]) -> Iterator[Any]:
    try:
        yield
    except failure as error:
        raise OSError(errno.EIO, str(getattr(error, "message", error)).splitlines()[0]) from None
