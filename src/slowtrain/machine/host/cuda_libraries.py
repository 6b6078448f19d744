"""CUDA's shared libraries: which files exist, and whether the loader finds one of each name.

This does not tell which file a framework loads: its wheels name their own folders (RPATH) or load by path. The
framework's process reports that itself (``describe_loaded_files``).
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slowtrain.machine.tables.rule_table import CUDA_LIBRARIES, OPTIONAL_LIBRARIES

SYSTEM_FOLDERS = (
    "usr/lib/wsl/lib", "usr/local/cuda/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64",
    "usr/lib",
)  # fmt: skip
MAX_LIBRARY_TEST_S = 30.0
# Runs in a child process, so that side effects of loading a library stay there.
LOAD_SCRIPT = """
import ctypes, json, os, sys
libraries = []
for name, files in json.loads(sys.argv[1]):
    row = {"name": name, "loaded": None, "error": None, "found": files}
    for which in (name, *files):
        try:
            ctypes.CDLL(which)
        except OSError as error:
            row["error"] = row["error"] or str(error)[:200]
            continue
        row["loaded"] = which
        if which == name and os.path.exists("/proc/self/maps"):
            stem = name.split(".so")[0] + "."
            maps = [l.split()[-1] for l in open("/proc/self/maps") if "/" in l]
            row["loaded"] = next((m for m in maps if os.path.basename(m).startswith(stem)), name)
        row["error"] = None
        break
    libraries.append(row)
print(json.dumps(libraries))
"""


def required_libraries(cuda: str | None, cudnn: str | None) -> tuple[str, ...]:
    """The libraries that a build of these versions loads, the driver's first; only that one if they are unknown."""
    names = ["libcuda.so.1"]
    names += CUDA_LIBRARIES.get(major_version(cuda) or 0, ())
    if (version := major_version(cudnn)) is not None:
        names.append(f"libcudnn.so.{version}")
    return tuple(names)


def optional_libraries(cuda: str | None) -> tuple[str, ...]:
    """Libraries that it loads later, for a profile or several GPUs. The GPU is seen without them."""
    return OPTIONAL_LIBRARIES.get(major_version(cuda) or 0, ())


def major_version(version: str | None) -> int | None:
    """12 of "12.5.1"; None if there is no number."""
    found = re.match(r"(\d+)", version or "")
    return int(found[1]) if found else None


def find_libraries(
    names: Sequence[str], environ: Mapping[str, str], root: Path = Path("/"), packages: Iterable[str] = sys.path
) -> list[dict[str, Any]] | None:
    """Each library: its files, the one that was loaded, or the loader's error.

    Tries the name first, as a program does (LD_LIBRARY_PATH, the loader's cache), then NVIDIA's wheels, where
    builds of TensorFlow and PyTorch look by themselves. None if this system has no such loader.
    """
    if sys.platform != "linux":
        return None
    import subprocess  # imported here, because callers that only read versions start no process

    folders = list(_library_folders(environ, root, packages))
    rows = [(name, _library_files(name, folders)) for name in names]
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", LOAD_SCRIPT, json.dumps(rows)],
            capture_output=True, text=True, timeout=MAX_LIBRARY_TEST_S, check=False, env=dict(environ),
        )  # fmt: skip
        libraries = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if not isinstance(libraries, list):
        return None
    return [{**row, "version": wheel_version(str(row.get("loaded") or ""))} for row in libraries]


def _library_folders(environ: Mapping[str, str], root: Path, packages: Iterable[str]) -> Iterable[Path]:
    yield from (Path(p) for p in environ.get("LD_LIBRARY_PATH", "").split(":") if p)
    for folder in dict.fromkeys(packages):
        with contextlib.suppress(OSError):
            yield from sorted(Path(folder).glob("nvidia/*/lib")) if folder else ()
    if prefix := environ.get("CONDA_PREFIX"):
        yield Path(prefix) / "lib"
    yield from (root / name for name in SYSTEM_FOLDERS)


def _library_files(name: str, folders: Iterable[Path]) -> list[str]:
    """The files of that name in the loader's order; a file that several links lead to is listed once."""
    found: dict[str, str] = {}
    for folder in folders:
        path = folder / name
        with contextlib.suppress(OSError):
            if path.exists():
                found.setdefault(str(path.resolve()), str(path))
    return list(found)


def wheel_version(path: str) -> str | None:
    """The version of a file in one of NVIDIA's wheels, whose name holds the major version only."""
    place = Path(path)
    if place.parent.name != "lib" or len(place.parents) < 4:
        return None
    part, packages, found = place.parents[1].name, place.parents[3], set()
    with contextlib.suppress(OSError):
        for about in packages.glob(f"nvidia_{part}*.dist-info"):
            name, _, version = about.name.removesuffix(".dist-info").rpartition("-")
            if re.fullmatch(rf"nvidia_{re.escape(part)}(_cu\d+)?", name):  # excludes nvidia_cudnn_frontend
                found.add(version)
    return found.pop() if len(found) == 1 else None  # if two wheels bring the same file, its wheel is unknown


def describe_loaded_files(files: Iterable[str]) -> list[dict[str, str | None]]:
    """Files that a process has loaded, each with its version if its name or its wheel tells it."""
    return [{"file": file, "version": _format_version(file_version(file)) or wheel_version(file)} for file in files]


def _format_version(version: tuple[int, ...] | None) -> str | None:
    return ".".join(map(str, version)) if version else None


def file_version(path: str) -> tuple[int, ...] | None:
    """(9, 3, 0) of libcudnn.so.9.3.0; None unless the name holds a minor version."""
    found = re.search(r"\.so\.(\d+(?:\.\d+)+)$", path)
    return tuple(map(int, found[1].split("."))) if found else None
