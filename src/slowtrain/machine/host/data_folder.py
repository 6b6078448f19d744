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

from slowtrain.machine.host.cgroup_limits import read_number, read_text
from slowtrain.machine.tables.rule_table import MEMORY_FILESYSTEMS, NETWORK_FILESYSTEMS, WINDOWS_FILESYSTEMS

MAX_READ_BYTES = 256 << 20
MAX_READ_S = 3.0
MAX_LISTED_FILES = 20_000  # files that are listed to choose from
MAX_LISTING_S = 2.0
MAX_READ_FILES = 512
READ_BLOCK_BYTES = 1 << 20


@dataclass
class ReadTotals:
    """What was read, and whether it bypassed the page cache."""

    bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    direct: bool = False


def mounted_filesystem(folder: str, root: Path = Path("/")) -> tuple[str | None, str | None]:
    """File system type and device number (``major:minor``) of a folder, from /proc/self/mountinfo."""
    best = ""
    found: tuple[str | None, str | None] = (None, None)
    for line in read_text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, about = before.split(), after.split()
        if len(fields) < 5 or not about:
            continue
        mount = fields[4].encode().decode("unicode_escape") if "\\" in fields[4] else fields[4]
        if (folder == mount or folder.startswith(mount.rstrip("/") + "/")) and len(mount) >= len(best):
            best, found = mount, (about[0], fields[2])
    return found


def storage_kind(filesystem: str | None, device: str | None, root: Path = Path("/")) -> str | None:
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
        rotational = read_number(place)
        if rotational is not None:
            return "rotational" if rotational else "solid-state"
    return None


def measure_folder(folder: Path, root: Path = Path("/")) -> dict[str, Any]:
    """Reads files of the folder past the page cache, limited by :data:`MAX_READ_BYTES` and :data:`MAX_READ_S`."""
    where = str(folder.resolve())
    filesystem, device = mounted_filesystem(where, root)
    paths, whole = _list_files(Path(where))
    before, got = _storage_read_bytes(), ReadTotals()
    for path in _spread_sample(paths, MAX_READ_FILES):
        if got.bytes >= MAX_READ_BYTES or got.seconds >= MAX_READ_S:
            break
        with contextlib.suppress(OSError):
            _read_file(path, got)
    after = _storage_read_bytes()
    share = (after - before) / got.bytes if before is not None and after is not None and got.bytes else None
    return {
        "folder": where,
        "filesystem": filesystem,
        "kind": storage_kind(filesystem, device, root),
        "files_seen": len(paths),
        "all_files_seen": whole,
        "read_files": got.files,
        "read_bytes": got.bytes,
        "seconds": round(got.seconds, 4),
        "bytes_per_second": got.bytes / got.seconds if got.bytes and got.seconds else None,
        "direct": got.direct,
        "from_storage_share": None if share is None else round(min(share, 1.0), 3),
    }


def _list_files(folder: Path) -> tuple[list[str], bool]:
    """Files below a folder, as many as can be listed within the time limit, and whether these are all."""
    deadline = time.perf_counter() + MAX_LISTING_S
    found: list[str] = []
    for path in _walk_files(folder):
        found.append(path)
        if len(found) >= MAX_LISTED_FILES or time.perf_counter() > deadline:
            return found, False
    return found, True


def _walk_files(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def _spread_sample(paths: list[str], count: int) -> list[str]:
    """Files from the whole list, in an order that read-ahead cannot predict."""
    chosen = paths[:: max(len(paths) // count, 1)][:count]
    return chosen[::2] + chosen[1::2][::-1]


def _read_file(path: str, got: ReadTotals) -> None:
    """Reads one file to its end or to the end of the budget. Its time includes opening it."""
    begun = time.perf_counter()
    file, direct = _open_uncached(path)
    try:
        got.files += 1
        got.direct |= direct
        buffer = mmap.mmap(-1, READ_BLOCK_BYTES)  # O_DIRECT needs a page-aligned buffer
        at = 0
        while got.bytes < MAX_READ_BYTES and got.seconds + time.perf_counter() - begun < MAX_READ_S:
            count = os.preadv(file, [buffer], at) if hasattr(os, "preadv") else len(os.read(file, READ_BLOCK_BYTES))
            got.bytes += count
            at += count
            if count < READ_BLOCK_BYTES:
                break
    finally:
        os.close(file)
        got.seconds += time.perf_counter() - begun


def _open_uncached(path: str) -> tuple[int, bool]:
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


def _storage_read_bytes() -> int | None:
    """Bytes that this process has fetched from storage so far, as counted by the kernel."""
    for line in read_text(Path("/proc/self/io")).splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    return None
