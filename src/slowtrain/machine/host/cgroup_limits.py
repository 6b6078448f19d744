"""The processor time and memory that a container or batch system allows this process, for cgroup v1 and v2.

A limit may be set on any ancestor of the process's group. Every level up to the mount point is read, and the tightest
limit counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

UNLIMITED_BYTES = 1 << 60  # version 1 writes "no limit" as a number near 2**63


@dataclass(frozen=True)
class Limits:
    """The tightest limits on this process. None means no limit; without cgroups ``version`` is None as well.

    ``cpu_folder`` and ``memory_folder`` are the process's own groups, which hold the counters.
    """

    version: int | None = None
    cpu_quota_cores: float | None = None
    memory_limit_bytes: int | None = None
    cpu_folder: Path | None = None
    memory_folder: Path | None = None


def read_limits(root: Path = Path("/")) -> Limits:
    """Reads the limits from the files below ``root``; the result is empty if there are no cgroups."""
    groups = _own_groups(root)
    mounts = _cgroup_mounts(root)
    cpu = _group_folders(mounts, groups, "cpu")
    memory = _group_folders(mounts, groups, "memory")
    if not cpu and not memory:
        return Limits()
    quotas = [q for folder in cpu if (q := _quota_cores(folder)) is not None]
    caps = [c for folder in memory if (c := _memory_limit_bytes(folder)) is not None]
    first = (cpu or memory)[0]
    return Limits(
        version=2 if (first / "cgroup.controllers").exists() else 1,
        cpu_quota_cores=min(quotas, default=None),
        memory_limit_bytes=min(caps, default=None),
        cpu_folder=cpu[0] if cpu else None,
        memory_folder=memory[0] if memory else None,
    )


def read_throttling(folder: Path) -> dict[str, float]:
    """How often and for how long the quota has stopped this group so far; empty if the kernel does not count it."""
    found = {}
    for line in read_text(folder / "cpu.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == "nr_throttled":
            found["throttled_periods"] = float(value)
        elif name == "throttled_usec":
            found["throttled_seconds"] = float(value) / 1e6
        elif name == "throttled_time":
            found["throttled_seconds"] = float(value) / 1e9
    return found


def charged_bytes(folder: Path) -> int | None:
    """Memory charged to the group now, page cache included."""
    current = read_number(folder / "memory.current")
    return current if current is not None else read_number(folder / "memory.usage_in_bytes")


def inactive_cache_bytes(folder: Path) -> int:
    """The part of it that is inactive file cache, which the kernel drops first; 0 if it is not counted."""
    counted = dict(line.split(" ", 1) for line in read_text(folder / "memory.stat").splitlines() if " " in line)
    text = counted.get("total_inactive_file") or counted.get("inactive_file") or ""
    return int(text) if text.isdigit() else 0


def read_text(path: Path) -> str:
    """The file's text; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def read_number(path: Path) -> int | None:
    """The integer that the file holds, or None."""
    try:
        return int(read_text(path))
    except ValueError:
        return None


def _own_groups(root: Path) -> dict[str, str]:
    """Maps each controller to this process's group; "" is the unified hierarchy of version 2."""
    groups = {}
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def _cgroup_mounts(root: Path) -> dict[str, tuple[Path, str]]:
    """Maps each controller to its mount point and the group that is mounted there."""
    mounts: dict[str, tuple[Path, str]] = {}
    for line in read_text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3 or not kind[0].startswith("cgroup"):
            continue
        place = (root / fields[4].lstrip("/"), fields[3])
        for controller in [""] if kind[0] == "cgroup2" else kind[2].split(","):
            mounts.setdefault(controller, place)
    return mounts


def _group_folders(mounts: dict[str, tuple[Path, str]], groups: dict[str, str], controller: str) -> list[Path]:
    """This process's group for ``controller`` and its ancestors up to the mount point, innermost first."""
    if controller not in groups or controller not in mounts:
        controller = ""  # version 2 has one hierarchy for all controllers
    if controller not in mounts or controller not in groups:
        return []
    mount, top = mounts[controller]
    group = groups[controller]
    # In a container the mounted group can lie far below the host's root. In a container that shares the host's names,
    # the path may not exist here. In both cases the mount point is this process's group.
    below = group[len(top) :] if top != "/" and group.startswith(top) else group
    folder = mount / below.lstrip("/")
    return list(_group_and_ancestors(folder if folder.is_dir() and ".." not in folder.parts else mount, mount))


def _group_and_ancestors(folder: Path, mount: Path) -> Iterator[Path]:
    while True:
        yield folder
        if folder == mount:
            return
        folder = folder.parent


def _quota_cores(folder: Path) -> float | None:
    """The group's quota of processor time, in cores."""
    quota, _, period = read_text(folder / "cpu.max").strip().partition(" ")
    if quota.isdigit() and period.isdigit():
        return int(quota) / int(period) if int(period) else None
    time, period_us = read_number(folder / "cpu.cfs_quota_us"), read_number(folder / "cpu.cfs_period_us")
    return time / period_us if time and period_us and time > 0 else None


def _memory_limit_bytes(folder: Path) -> int | None:
    """The group's memory limit. Above ``memory.high`` a process is slowed down before it is killed."""
    found = [read_number(folder / name) for name in ("memory.max", "memory.high", "memory.limit_in_bytes")]
    return min((cap for cap in found if cap is not None and cap < UNLIMITED_BYTES), default=None)
