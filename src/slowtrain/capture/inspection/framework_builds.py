"""Reads what a framework says of its own build, and how many GPUs it sees, in a child process.

    python -m slowtrain.capture.inspection.framework_builds tensorflow

The answer is the last line of the output, after ``LINE_MARK``. Output of the framework itself may precede it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slowtrain.machine.tables.rule_table import LIBRARY_WHEELS

LINE_MARK = "slowtrain.build:"
# Matches libcudnn.so.9 and libcudart-a7b20f20.so.11.0 (from PyTorch's older wheels), not libcudnn_ops.so.9.
LIBRARY_PATTERN = re.compile(r"(lib[A-Za-z]+)(?:-[0-9a-f]{8})?\.so[.\d]*")


def tensorflow_build(tf: Any) -> dict[str, Any]:
    """Returns how an imported TensorFlow was built. Opens no GPU."""
    info: Mapping[str, Any] = dict(tf.sysconfig.get_build_info())
    return {
        "version": str(tf.__version__),
        "cuda_build": bool(info.get("is_cuda_build")),
        "rocm_build": bool(info.get("is_rocm_build")),
        "cuda_version": _normalise_version(info.get("cuda_version")),
        "cudnn_version": _normalise_version(info.get("cudnn_version")),
        "capabilities": [str(c) for c in info.get("cuda_compute_capabilities") or ()],
        "threads": {
            "intra_op": int(tf.config.threading.get_intra_op_parallelism_threads()),
            "inter_op": int(tf.config.threading.get_inter_op_parallelism_threads()),
        },
    }


def _normalise_version(version: Any) -> str | None:
    """Returns a version as 12.5.1. On Windows 64_112 means 11.2, and 64_8 means 8."""
    text = str(version or "").removeprefix("64_")
    if text.isdigit() and len(text) == 3:
        text = f"{text[:2]}.{text[2]}"
    return text or None


def _read_tensorflow() -> dict[str, Any]:
    tf = importlib.import_module("tensorflow")
    return {**tensorflow_build(tf), "gpus": len(tf.config.list_physical_devices("GPU"))}


def _read_torch() -> dict[str, Any]:
    torch = importlib.import_module("torch")
    built = torch.version.cuda
    return {
        "version": str(torch.__version__),
        "cuda_build": built is not None,
        "rocm_build": getattr(torch.version, "hip", None) is not None,
        "cuda_version": _normalise_version(built),
        **(_torch_cudnn(torch) if built else {"cudnn_version": None}),
        # Empty if the driver is missing, even if the build has code for many capabilities.
        "capabilities": [str(c) for c in torch.cuda.get_arch_list()],
        "gpus": int(torch.cuda.device_count()) if torch.cuda.is_available() else 0,
    }


def _torch_cudnn(torch: Any) -> dict[str, str | None]:
    """Returns the cuDNN version of the build and the loaded one. ``version()`` gives the loaded one."""
    own = getattr(getattr(torch, "_C", None), "_cudnn", None)
    built, loaded = (_dotted_version(own, name) for name in ("getCompileVersion", "getRuntimeVersion"))
    if loaded is None:
        loaded = cudnn_number(torch.backends.cudnn.version())
    return {"cudnn_version": built, "cudnn_loaded": loaded}


def _dotted_version(module: Any, name: str) -> str | None:
    """Returns (9, 19, 0) as 9.19.0."""
    call = getattr(module, name, None)
    return ".".join(str(int(part)) for part in call()) if call is not None else None


def cudnn_number(number: int | None) -> str | None:
    """Returns 91900 as 9.19.0 and 8907 as 8.9.7."""
    if not number:
        return None
    scale = 10_000 if number >= 90_000 else 1_000  # cuDNN 9 counts its minor versions in hundreds of hundreds
    return f"{number // scale}.{number % scale // 100}.{number % 100}"


def _read_jax() -> dict[str, Any]:
    jax = importlib.import_module("jax")
    plugins = {
        name: version
        for name in ("jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm60-plugin", "jax-rocm7-plugin")
        if (version := _installed_version(name))
    }
    cuda = next((name for name in plugins if "cuda" in name), None)
    return {
        "version": str(jax.__version__),
        "jaxlib_version": _installed_version("jaxlib"),
        "plugins": plugins,
        "cuda_build": cuda is not None,
        "rocm_build": any("rocm" in name for name in plugins),
        "cuda_version": cuda.removeprefix("jax-cuda").removesuffix("-plugin") if cuda else None,
        "capabilities": [],  # compiles for the card that it finds
        "gpus": sum(1 for device in jax.devices() if device.platform in ("gpu", "cuda", "rocm")),
        **_jax_cudnn(cuda),
    }


def _jax_cudnn(plugin: str | None) -> dict[str, str | None]:
    """Returns the cuDNN versions from JAX's plugin, which compares both when it is loaded. Loads nothing else."""
    found: dict[str, str | None] = {"cudnn_version": None, "cudnn_loaded": None}
    try:
        versions = importlib.import_module(f"{(plugin or '').replace('-', '_')}._versions")
        found["cudnn_version"] = cudnn_number(versions.cudnn_build_version())
        found["cudnn_loaded"] = cudnn_number(versions.cudnn_get_version())
    except Exception:
        return found  # no plugin, a different plugin, or no cuDNN: not known
    return found


def _installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


BUILD_READERS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "tensorflow": _read_tensorflow,
    "torch": _read_torch,
    "jax": _read_jax,
}


def mapped_cuda_libraries(maps: Path = Path("/proc/self/maps")) -> list[str] | None:
    """Returns the files of CUDA's libraries in this process; None if the system does not show them."""
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    files = dict.fromkeys(line[line.index("/") :].removesuffix(" (deleted)") for line in lines if "/" in line)
    named = ((file, LIBRARY_PATTERN.fullmatch(file.rpartition("/")[2])) for file in files)
    return sorted(file for file, found in named if found and found[1] in LIBRARY_WHEELS)


def build_line(name: str) -> str:
    """Returns the line to print for one framework. The loaded files are read after the framework was asked for GPUs."""
    try:
        found = {**BUILD_READERS[name](), "loaded": mapped_cuda_libraries()}
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    return LINE_MARK + json.dumps(found)


if __name__ == "__main__":
    sys.__stdout__.write("\n" + build_line(sys.argv[1]) + "\n")  # type: ignore[union-attr]
