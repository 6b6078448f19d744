"""A folder of record files that survives being killed at any moment.

Everything is written into ``NAME.part``. A shard gets its final name after its bytes are on the disk; then
``progress.json`` lists it. A process that begins again continues after the last listed shard. The folder gets its own
name when it is complete, so that no script ever reads an incomplete one. The files depend on the elements only: the
same elements give the same bytes, however often the writer was stopped.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from slowtrain.capture.packing.record_files import RECORD_FILES, SUFFIXES, RecordFile
from slowtrain.errors import InputError
from slowtrain.model.packing import TFRECORD, PackedFolder, PackedShard

MANIFEST, PROGRESS, LOCK = "manifest.json", "progress.json", "lock"
PARTIAL_SUFFIX, TEMPORARY_SUFFIX = ".part", ".tmp"
GROUP_PREFIX = "group-"  # of folders with the shards of one group, while several processes write
SHARD_BYTES = 64 << 20  # a kill costs at most the work of one shard; readers need no more than a few large files
PROGRESS_S = 1.0
LOCK_WAIT_S, LOCK_POLL_S = 5.0, 0.1  # a script's process ends a moment after the command that started it was killed
READ_BYTES = 1 << 20

SayProgress = Callable[[int, int], None]  # elements and bytes that are written so far


def shard_name(number: int, file_format: str = TFRECORD) -> str:
    return f"elements-{number:05d}{SUFFIXES[file_format]}"


class ShardWriter:
    """Writes records to ``folder``; a context manager.

    ``plan_id`` identifies the elements and their form: a folder of another plan is never touched. ``header`` is kept in
    the manifest. ``stored``: elements that are in the folder already; the caller continues with the next one.
    ``groups``: the numbers of elements of the groups that are complete; a shard never holds elements of two.
    ``is_complete``: everything was written, and the folder had not got its name.
    Raises ``InputError`` if the folder holds something else, or another process writes it.
    """

    def __init__(
        self,
        folder: Path,
        plan_id: str,
        header: Mapping[str, Any],
        shard_bytes: int = SHARD_BYTES,
        say: SayProgress = lambda _elements, _bytes: None,
        file_format: str = TFRECORD,
    ) -> None:
        self.folder, self.plan_id, self.header, self.shard_bytes, self.say = folder, plan_id, header, shard_bytes, say
        self.file_format = file_format
        self.part = folder.with_name(folder.name + PARTIAL_SUFFIX)
        self.shards: list[PackedShard] = []
        self.groups: list[int] = []
        self.is_complete = False
        self.resumed = 0
        self._begun_s = self._said_s = time.monotonic()
        self._lock = -1
        self._writer: RecordFile | None = None
        self._elements = 0  # of the shard that is being written

    @property
    def stored(self) -> int:
        return sum(shard.elements for shard in self.shards)

    @property
    def stored_and_open(self) -> int:
        """Elements in finished shards and in the one that is being written."""
        return self.stored + self._elements

    @property
    def written_bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards) + (
            self._writer.written_bytes if self._writer is not None else 0
        )

    def __enter__(self) -> ShardWriter:
        require_free_name(self.folder, self.plan_id)
        self.part.mkdir(parents=True, exist_ok=True)
        self._lock = _locked_file(self.part / LOCK, self.folder)
        try:
            self.shards = self._stored_shards()
        except BaseException:
            os.close(self._lock)
            raise
        self.resumed = self.stored
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:  # an error: the unfinished shard is written again by the next process
            self._close_quietly(self._writer)
        os.close(self._lock)

    def write(self, record: bytes, elements: int = 1) -> None:
        """Appends one record with so many elements. Raises ``InputError`` if the disk refuses it."""
        try:
            if self._writer is None:
                self._writer = RECORD_FILES[self.file_format](self._temporary_path())
            self._writer.write(record)
        except OSError as error:
            raise write_failure(self._temporary_path(), error) from None
        self._elements += elements
        if self._writer.written_bytes >= self.shard_bytes:
            self._end_shard()
        if time.monotonic() - self._said_s >= PROGRESS_S:
            self._said_s = time.monotonic()
            self.say(self.stored_and_open, self.written_bytes)

    def end_group(self) -> None:
        """Ends the group of the elements that were written since the last one ended."""
        if self._writer is not None:
            self._end_shard()
        self.groups.append(self.stored - sum(self.groups))
        self._write_progress()

    def adopt_group(self, folder: Path) -> None:
        """Moves the shards of a group that another writer finished behind the shards so far, and ends the group."""
        there = self.stored - sum(self.groups)
        for shard in _listed_shards(folder):
            if there > 0:
                there -= shard.elements
                continue
            path, name = folder / shard.file, shard_name(len(self.shards), self.file_format)
            try:
                if path.exists():  # else an ended process moved it already
                    path.rename(self.part / name)
                    _sync(self.part)
            except OSError as error:
                raise write_failure(path, error) from None
            self.shards.append(replace(shard, file=name))
            self._write_progress()
        self.end_group()

    def finish(self) -> PackedFolder:
        """Ends the last shard, writes the manifest and gives the folder its name."""
        if self._writer is not None:
            self._end_shard()
        document = {"plan": self.plan_id, "elements": self.stored, **self.header, "shards": _as_values(self.shards)}
        try:
            _write_whole(self.part / MANIFEST, document)
            for name in (PROGRESS, LOCK):
                (self.part / name).unlink(missing_ok=True)
            for path in self.part.glob(f"{GROUP_PREFIX}*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            _sync(self.part)
            self.part.rename(self.folder)
            _sync(self.folder.parent)
        except OSError as error:
            raise write_failure(self.part / MANIFEST, error) from None
        seconds = time.monotonic() - self._begun_s
        return PackedFolder(str(self.folder), self.stored, tuple(self.shards), seconds, self.resumed)

    def _temporary_path(self) -> Path:
        return self.part / (shard_name(len(self.shards), self.file_format) + TEMPORARY_SUFFIX)

    def _end_shard(self) -> None:
        assert self._writer is not None
        temporary = self._temporary_path()
        final = temporary.with_name(temporary.name.removesuffix(TEMPORARY_SUFFIX))
        try:
            self._writer.close()
            self._writer = None
            _sync(temporary)
            digest, size = file_digest(temporary)
            temporary.rename(final)
            _sync(self.part)
        except OSError as error:
            raise write_failure(temporary, error) from None
        self.shards.append(PackedShard(final.name, self._elements, size, digest))
        self._elements = 0
        self._write_progress()

    def _write_progress(self) -> None:
        progress = {"plan": self.plan_id, "shards": _as_values(self.shards), "groups": self.groups}
        try:
            _write_whole(self.part / PROGRESS, progress)
        except OSError as error:
            raise write_failure(self.part / PROGRESS, error) from None

    def _close_quietly(self, writer: RecordFile) -> None:
        with contextlib.suppress(OSError):  # the disk is full
            writer.close()
        self._writer = None

    def _stored_shards(self) -> list[PackedShard]:
        """The shards that an earlier process finished. Begins a new list if there was none."""
        listed = self.part / PROGRESS
        others = sorted(p.name for p in self.part.iterdir() if p.name != LOCK and p.suffix != TEMPORARY_SUFFIX)
        if not listed.exists() and (self.part / MANIFEST).exists():
            listed = self.part / MANIFEST
            self.is_complete = True
        elif not listed.exists():
            if others:
                raise InputError(f"{self.part} holds {others[0]}, which slowtrain did not write; give another --to")
            _write_whole(listed, {"plan": self.plan_id, "shards": [], "groups": []})
        found = _read_json(listed)
        if found.get("plan") != self.plan_id:
            raise InputError(f"{self.part} belongs to another plan; remove it, or give another --to")
        shards = [PackedShard(**one) for one in found["shards"]]
        for one in shards:
            path = self.part / one.file
            if not path.is_file() or path.stat().st_size != one.bytes:
                raise InputError(f"{path} was changed after it was written; remove {self.part} to pack from the start")
        for path in self.part.glob(f"*{TEMPORARY_SUFFIX}"):
            path.unlink()
        self.groups = found.get("groups", [])
        return shards


def require_free_name(folder: Path, plan_id: str) -> None:
    """Raises ``InputError`` if ``folder`` exists, so that nothing is ever overwritten."""
    if folder.exists():
        what = "is complete already" if is_packed_by(folder, plan_id) else "exists and holds other data"
        raise InputError(f"{folder} {what}; nothing was written: remove it, or give another --to")


def is_packed_by(folder: Path, plan_id: str) -> bool:
    """Whether ``folder`` is the complete result of this plan."""
    return (folder / MANIFEST).is_file() and _read_json(folder / MANIFEST).get("plan") == plan_id


def check_packed_folder(folder: Path) -> PackedFolder:
    """The contents of a complete folder. Raises ``InputError`` if a checksum differs from the manifest."""
    shards = _listed_shards(folder)
    for one in shards:
        try:
            digest, _ = file_digest(folder / one.file)
        except OSError as error:
            raise InputError(f"cannot read {folder / one.file} ({error.strerror}); pack the data again") from error
        if digest != one.sha256:
            raise InputError(f"{folder / one.file} differs from its checksum in {MANIFEST}; pack the data again")
    return PackedFolder(str(folder), sum(one.elements for one in shards), shards, already_complete=True)


def _listed_shards(folder: Path) -> tuple[PackedShard, ...]:
    return tuple(PackedShard(**one) for one in _read_json(folder / MANIFEST)["shards"])


def file_digest(path: Path) -> tuple[str, int]:
    """SHA-256 and size of a file, read in pieces."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(READ_BYTES):
            digest.update(piece)
            size += len(piece)
    return digest.hexdigest(), size


def write_failure(path: Path, error: BaseException) -> InputError:
    """What a failed write says to the user. Finished shards stay, so the same command continues."""
    reason = getattr(error, "strerror", None) or str(getattr(error, "message", error)).splitlines()[0]
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in reason
    what = f"the disk of {path.parent} is full" if full else f"cannot write {path} ({reason})"
    return InputError(f"{what}; finished shards are kept: make room and run the same command again")


def _locked_file(path: Path, folder: Path) -> int:
    """The descriptor of a file that this process alone has locked; the lock ends with the process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    end_s = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError:
            if time.monotonic() > end_s:
                os.close(descriptor)
                raise InputError(f"another process is writing {folder}; wait for its end") from None
        time.sleep(LOCK_POLL_S)


def _as_values(shards: list[PackedShard]) -> list[dict[str, Any]]:
    return [asdict(one) for one in shards]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} ({error}); remove its folder to pack from the start") from error
    return found if isinstance(found, dict) else {}


def _write_whole(path: Path, document: Mapping[str, Any]) -> None:
    """Replaces the file in one step: a reader sees the old content or the new one."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    temporary.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    _sync(temporary)
    temporary.rename(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Returns when the file, or the names in the folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
