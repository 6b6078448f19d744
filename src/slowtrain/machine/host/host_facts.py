"""What this computer is and allows: one dictionary for JSON, ``slowtrain.machine/1``.

None means "could not be read" (for a limit: no limit). Nothing is guessed.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slowtrain.machine.host import cgroup_limits
from slowtrain.machine.host.cgroup_limits import read_number, read_text
from slowtrain.machine.host.data_folder import mounted_filesystem
from slowtrain.machine.host.environment_variables import keras_backend, keras_version, relevant_settings
from slowtrain.machine.host.gpu_devices import Gpus, read_gpu_devices

SCHEMA = "slowtrain.machine/1"

# The flags by which TensorFlow's CPU kernels are chosen.
RELEVANT_CPU_FLAGS = frozenset(
    "sse4_2 avx avx2 fma avx512f avx512_vnni avx512_bf16 avx_vnni amx_tile amx_bf16 amx_int8 asimd sve bf16".split()
)


def machine_facts(
    root: Path = Path("/"), *, environ: Mapping[str, str] | None = None, gpus: Gpus | None = None
) -> dict[str, Any]:
    """The facts about the computer whose ``/proc``, ``/sys`` and ``/dev`` lie below ``root``."""
    environ = os.environ if environ is None else environ
    limits = cgroup_limits.read_limits(root)
    cpu = _cpu_facts(root)
    quota, affinity = limits.cpu_quota_cores, cpu["affinity_cores"]
    allowed = [float(len(affinity) if affinity else cpu["logical_cores"] or 0) or None, quota]
    cpu["usable_cores"] = min((a for a in allowed if a is not None), default=None)
    return {
        "schema": SCHEMA,
        "platform": _platform_facts(root, environ),
        "python": _python_facts(),
        "cpu": cpu,
        "cgroup": _cgroup_facts(limits),
        "memory": _memory_facts(root, limits),
        "numa_nodes": [parse_core_list(read_text(node / "cpulist")) for node in _numa_node_folders(root)],
        "numa_distances": [
            [int(d) for d in read_text(node / "distance").split() if d.isdigit()] for node in _numa_node_folders(root)
        ],
        "working_folder": _working_folder_facts(root),
        "environment": relevant_settings(environ),
        "keras_backend": keras_backend(environ),
        "keras_version": keras_version(environ),
        "devices": read_gpu_devices(root),
        "gpu": (gpus or Gpus()).facts(),
    }


def _platform_facts(root: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    libc, libc_version = platform.libc_ver()
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "libc": f"{libc} {libc_version}".strip() or None,
        "distribution": _read_distribution(root),
        "container": _container_kind(root, environ),
    }


def _read_distribution(root: Path) -> dict[str, str | None] | None:
    """The distribution in os-release(5); in a container that of the image, not of the host."""
    fields = dict(line.split("=", 1) for line in read_text(root / "etc/os-release").splitlines() if "=" in line)
    found = {key.strip(): value.strip().strip("\"'") for key, value in fields.items()}
    name = f"{found.get('NAME', '')} {found.get('VERSION_ID', '')}".strip()
    return {"id": found.get("ID"), "name": name or None} if found else None


def _container_kind(root: Path, environ: Mapping[str, str]) -> str | None:
    """The kind of container, recognised by its marker file, its variable or the control group of its first process."""
    group = read_text(root / "proc/1/cgroup")
    tells = {
        "apptainer": (root / ".singularity.d").exists(),
        "kubernetes": bool(environ.get("KUBERNETES_SERVICE_HOST")) or "kubepods" in group,
        "docker": (root / ".dockerenv").exists() or "docker" in group,
        "podman": (root / "run/.containerenv").exists() or "libpod" in group,
    }
    return next((kind for kind, is_present in tells.items() if is_present), None)


def _python_facts() -> dict[str, Any]:
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "compiler": platform.python_compiler(),
        # A free-threaded build, and whether the GIL is enabled in it nevertheless.
        "interpreter_lock": bool(getattr(sys, "_is_gil_enabled", lambda: True)()),
        "debug_build": hasattr(sys, "gettotalrefcount"),
    }


def _cpu_facts(root: Path) -> dict[str, Any]:
    rows = [_parse_fields(block) for block in read_text(root / "proc/cpuinfo").split("\n\n") if block.strip()]
    processors = [row for row in rows if "processor" in row]
    first = processors[0] if processors else {}
    flags = set((first.get("flags") or first.get("Features") or "").split())
    cores = {(row.get("physical id"), row["core id"]) for row in processors if "core id" in row}
    policy = root / "sys/devices/system/cpu/cpu0/cpufreq"
    top_khz = read_number(policy / "cpuinfo_max_freq")
    return {
        "model": first.get("model name") or platform.processor() or None,
        "logical_cores": len(processors) or os.cpu_count(),
        "physical_cores": len(cores) or None,
        "affinity_cores": _affinity_cores(root),
        "max_mhz": None if top_khz is None else top_khz / 1000,
        "governor": read_text(policy / "scaling_governor").strip() or None,
        "flags": sorted(flags & RELEVANT_CPU_FLAGS),
        "virtual": ("hypervisor" in flags) if flags else None,
    }


def _parse_fields(block: str) -> dict[str, str]:
    """Parses lines of the form ``name : value``."""
    pairs = (line.partition(":") for line in block.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _affinity_cores(root: Path) -> list[int] | None:
    """The cores on which this process may run."""
    for line in read_text(root / "proc/self/status").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return parse_core_list(line.partition(":")[2])
    get = getattr(os, "sched_getaffinity", None)
    return sorted(get(0)) if get is not None else None


def parse_core_list(says: str) -> list[int]:
    """Parses the kernel's list of cores: ``0-2,8`` is 0, 1, 2, 8."""
    cores: list[int] = []
    for part in filter(None, says.strip().split(",")):
        low, _, high = part.partition("-")
        cores.extend(range(int(low), int(high or low) + 1))
    return cores


def _cgroup_facts(limits: cgroup_limits.Limits) -> dict[str, Any]:
    throttled = cgroup_limits.read_throttling(limits.cpu_folder) if limits.cpu_folder else {}
    return {
        "version": limits.version,
        "cpu_quota_cores": limits.cpu_quota_cores,
        "memory_limit_bytes": limits.memory_limit_bytes,
        "memory_used_bytes": cgroup_limits.charged_bytes(limits.memory_folder) if limits.memory_folder else None,
        "periods": _quota_periods(limits.cpu_folder),
        "throttled_periods": throttled.get("throttled_periods"),
        "throttled_seconds": throttled.get("throttled_seconds"),
    }


def _quota_periods(folder: Path | None) -> float | None:
    """Quota periods in which the group had something to run."""
    for line in read_text(folder / "cpu.stat").splitlines() if folder else ():
        name, _, value = line.partition(" ")
        if name == "nr_periods" and value.isdigit():
            return float(value)
    return None


def _memory_facts(root: Path, limits: cgroup_limits.Limits) -> dict[str, int | None]:
    fields = _parse_fields(read_text(root / "proc/meminfo"))
    total, available = _kilobyte_field(fields, "MemTotal"), _kilobyte_field(fields, "MemAvailable")
    if total is None:
        total, available = _memory_from_psutil()
    shm_total, shm_free = _filesystem_space(root / "dev/shm")
    return {
        "total_bytes": total,
        "available_bytes": available,
        "usable_bytes": min((m for m in (total, limits.memory_limit_bytes) if m is not None), default=None),
        "swap_total_bytes": _kilobyte_field(fields, "SwapTotal"),
        "swap_free_bytes": _kilobyte_field(fields, "SwapFree"),
        "shm_total_bytes": shm_total,
        "shm_free_bytes": shm_free,
    }


def free_bytes(root: Path = Path("/")) -> int | None:
    """Memory that this process can still get without swapping, within its container's limit."""
    limits = cgroup_limits.read_limits(root)
    found = [_memory_facts(root, limits)["available_bytes"]]
    if limits.memory_limit_bytes is not None and limits.memory_folder is not None:
        used = cgroup_limits.charged_bytes(limits.memory_folder)
        if used is not None:
            found.append(
                max(limits.memory_limit_bytes - used + cgroup_limits.inactive_cache_bytes(limits.memory_folder), 0)
            )
    return min((m for m in found if m is not None), default=None)


def _kilobyte_field(fields: Mapping[str, str], name: str) -> int | None:
    value, _, _ = fields.get(name, "").partition(" ")
    return int(value) * 1024 if value.isdigit() else None


def _memory_from_psutil() -> tuple[int | None, int | None]:
    """Total and available memory on a system without ``/proc``."""
    import psutil

    try:
        memory = psutil.virtual_memory()
    except (OSError, RuntimeError, NotImplementedError):
        return None, None
    return int(memory.total), int(memory.available)


def _filesystem_space(folder: Path) -> tuple[int | None, int | None]:
    """Size and free bytes of the file system that holds ``folder``."""
    try:
        room = os.statvfs(folder)
    except (OSError, AttributeError):
        return None, None
    return room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize


def _numa_node_folders(root: Path) -> list[Path]:
    """The folders of the NUMA nodes, in order; empty if the kernel does not list them."""
    return sorted(root.glob("sys/devices/system/node/node[0-9]*"), key=lambda node: int(node.name[4:]))


def _working_folder_facts(root: Path) -> dict[str, Any]:
    """The file system of the working folder: a network or FUSE mount is a common reason for slow reading."""
    here = os.getcwd()
    kind, _ = mounted_filesystem(here, root)
    total, free = _filesystem_space(Path(here))
    return {"filesystem": kind, "total_bytes": total, "free_bytes": free}


PROC_FOLDER = Path("/proc")
START_TICKS_FIELD = 19  # fields after the name: the process's start in ticks since boot


def process_birth(pid: int) -> str:
    """The boot id and the process's start since boot; empty if the kernel reports neither."""
    try:
        ticks = (PROC_FOLDER / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[START_TICKS_FIELD]
        return f"{(PROC_FOLDER / 'sys/kernel/random/boot_id').read_text('ascii').strip()} {int(ticks)}"
    except (OSError, ValueError, IndexError):
        return ""


def folders_being_written(name: str) -> dict[Path, int]:
    """Folders in which a process of this user has a file of that name open for writing, with the process id.

    The kernel's list of open files needs no lock file that could be left behind. Linux only; empty elsewhere.
    """
    found: dict[Path, int] = {}
    for process in sorted(PROC_FOLDER.glob("[0-9]*"), key=lambda p: int(p.name) if p.name.isdigit() else 0):
        for file in _open_files(process, name):
            found.setdefault(file.parent, int(process.name))  # keep the first: a forked worker came later
    return found


def _open_files(process: Path, name: str) -> Iterator[Path]:
    try:
        if process.stat().st_uid != os.getuid():
            return
        for number in os.listdir(process / "fd"):
            file = os.readlink(process / "fd" / number)
            if file.rpartition("/")[2] == name and _is_open_for_writing(process / "fdinfo" / number):
                yield Path(file)
    except (OSError, ValueError):  # the process has ended, or closed the file
        return


def _is_open_for_writing(about: Path) -> bool:
    """Reads ``flags: 02100002``, an octal number, as in proc(5)."""
    fields = dict(line.split(":", 1) for line in about.read_text("ascii").splitlines() if ":" in line)
    return int(fields.get("flags", "0"), 8) & (os.O_WRONLY | os.O_RDWR) != 0
