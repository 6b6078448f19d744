"""A data folder: the kind of storage it lies on, and its measured read rate."""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slowtrain.machine.cgroup import number, text
from slowtrain.machine.rules import MEMORY_FILESYSTEMS, NETWORK_FILESYSTEMS, WINDOWS_FILESYSTEMS

MOST_BYTES = 256 << 20
MOST_SECONDS = 3.0
LISTED = 20_000  # files that are listed to choose from
LISTING_SECONDS = 2.0
READ_FILES = 512
BLOCK = 1 << 20


@dataclass
class Reading:
    """What was read, and whether it bypassed the page cache."""

    bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    direct: bool = False


def mount_of(folder: str, root: Path = Path("/")) -> tuple[str | None, str | None]:
    """File system type and device number (``major:minor``) of a folder, from /proc/self/mountinfo."""
    best = ""
    found: tuple[str | None, str | None] = (None, None)
    for line in text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, about = before.split(), after.split()
        if len(fields) < 5 or not about:
            continue
        mount = fields[4].encode().decode("unicode_escape") if "\\" in fields[4] else fields[4]
        if (folder == mount or folder.startswith(mount.rstrip("/") + "/")) and len(mount) >= len(best):
            best, found = mount, (about[0], fields[2])
    return found


def kind_of(filesystem: str | None, device: str | None, root: Path = Path("/")) -> str | None:
    """memory, network, windows, overlay, rotational or solid-state; None is unknown."""
    if filesystem is None:
        return None
    if filesystem in WINDOWS_FILESYSTEMS:
        return "windows"
    if filesystem in NETWORK_FILESYSTEMS:
        return "network"
    if filesystem in MEMORY_FILESYSTEMS:
        return "memory"
    if filesystem == "overlay":
        return "overlay"
    block = root / "sys/dev/block" / (device or "")
    for place in (block / "queue/rotational", block / "../queue/rotational"):  # a disk, then a partition of one
        rotational = number(place)
        if rotational is not None:
            return "rotational" if rotational else "solid-state"
    return None


def measure(folder: Path, root: Path = Path("/")) -> dict[str, Any]:
    """Reads files of the folder past the page cache, limited by :data:`MAX_READ_BYTES` and :data:`MAX_READ_S`."""
    where = str(folder.resolve())
    filesystem, device = mount_of(where, root)
    paths, whole = _files(Path(where))
    before, got = _storage_bytes(), Reading()
    for path in _spread(paths, READ_FILES):
        if got.bytes >= MOST_BYTES or got.seconds >= MOST_SECONDS:
            break
        with contextlib.suppress(OSError):
            _read(path, got)
    after = _storage_bytes()
    share = (after - before) / got.bytes if before is not None and after is not None and got.bytes else None
    return {
        "folder": where,
        "filesystem": filesystem,
        "kind": kind_of(filesystem, device, root),
        "files_seen": len(paths),
        "all_files_seen": whole,
        "read_files": got.files,
        "read_bytes": got.bytes,
        "seconds": round(got.seconds, 4),
        "bytes_per_second": got.bytes / got.seconds if got.bytes and got.seconds else None,
        "direct": got.direct,
        "from_storage_share": None if share is None else round(min(share, 1.0), 3),
    }


def _files(folder: Path) -> tuple[list[str], bool]:
    """Files below a folder, as many as can be listed within the time limit, and whether these are all."""
    deadline = time.perf_counter() + LISTING_SECONDS
    found: list[str] = []
    for path in _walk(folder):
        found.append(path)
        if len(found) >= LISTED or time.perf_counter() > deadline:
            return found, False
    return found, True


def _walk(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def _spread(paths: list[str], count: int) -> list[str]:
    """Files from the whole list, in an order that read-ahead cannot predict."""
    chosen = paths[:: max(len(paths) // count, 1)][:count]
    return chosen[::2] + chosen[1::2][::-1]


def _read(path: str, got: Reading) -> None:
    """Reads one file to its end or to the end of the budget. Its time includes opening it."""
    begun = time.perf_counter()
    file, direct = _open(path)
    try:
        got.files += 1
        got.direct |= direct
        buffer = mmap.mmap(-1, BLOCK)  # O_DIRECT needs a page-aligned buffer
        at = 0
        while got.bytes < MOST_BYTES and got.seconds + time.perf_counter() - begun < MOST_SECONDS:
            count = os.preadv(file, [buffer], at) if hasattr(os, "preadv") else len(os.read(file, BLOCK))
            got.bytes += count
            at += count
            if count < BLOCK:
                break
    finally:
        os.close(file)
        got.seconds += time.perf_counter() - begun


def _open(path: str) -> tuple[int, bool]:
    """Opens the file past the page cache.

    If the file system does not support that, drops its pages from the cache first.
    """
    with contextlib.suppress(OSError, AttributeError):
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        try:
            os.preadv(file, [mmap.mmap(-1, mmap.PAGESIZE)], 0)
        except OSError:
            os.close(file)
            raise
        return file, True
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    with contextlib.suppress(OSError, AttributeError):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    return file, False


def _storage_bytes() -> int | None:
    """Bytes that this process has fetched from storage so far, as counted by the kernel."""
    for line in text(Path("/proc/self/io")).splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    return None
