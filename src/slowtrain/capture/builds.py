"""What a framework says of its own build, and how many GPUs it sees: asked in a child process of its own.

    python -m slowtrain.capture.builds tensorflow

The answer is the last line of the output, after :data:`MARK`; what the framework itself writes may stand before it.
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

from slowtrain.machine.rules import WHEELS

MARK = "slowtrain.build:"
# libcudnn.so.9, libcudart-a7b20f20.so.11.0 (as PyTorch's older wheels name their own), and not libcudnn_ops.so.9.
LIBRARY = re.compile(r"(lib[A-Za-z]+)(?:-[0-9a-f]{8})?\.so[.\d]*")


def tensorflow_build(tf: Any) -> dict[str, Any]:
    """Of an imported TensorFlow: how it was built; opens no GPU."""
    info: Mapping[str, Any] = dict(tf.sysconfig.get_build_info())
    return {
        "version": str(tf.__version__),
        "cuda_build": bool(info.get("is_cuda_build")),
        "rocm_build": bool(info.get("is_rocm_build")),
        "cuda_version": _version(info.get("cuda_version")),
        "cudnn_version": _version(info.get("cudnn_version")),
        "capabilities": [str(c) for c in info.get("cuda_compute_capabilities") or ()],
        "threads": {
            "intra_op": int(tf.config.threading.get_intra_op_parallelism_threads()),
            "inter_op": int(tf.config.threading.get_inter_op_parallelism_threads()),
        },
    }


def _version(said: Any) -> str | None:
    """12.5.1; on Windows 64_112 is 11.2, 64_8 is 8."""
    text = str(said or "").removeprefix("64_")
    if text.isdigit() and len(text) == 3:
        text = f"{text[:2]}.{text[2]}"
    return text or None


def _tensorflow() -> dict[str, Any]:
    tf = importlib.import_module("tensorflow")
    return {**tensorflow_build(tf), "gpus": len(tf.config.list_physical_devices("GPU"))}


def _torch() -> dict[str, Any]:
    torch = importlib.import_module("torch")
    built = torch.version.cuda
    return {
        "version": str(torch.__version__),
        "cuda_build": built is not None,
        "rocm_build": getattr(torch.version, "hip", None) is not None,
        "cuda_version": _version(built),
        **(_torch_cudnn(torch) if built else {"cudnn_version": None}),
        # Empty where the driver is missing, though the build may have code for many.
        "capabilities": [str(c) for c in torch.cuda.get_arch_list()],
        "gpus": int(torch.cuda.device_count()) if torch.cuda.is_available() else 0,
    }


def _torch_cudnn(torch: Any) -> dict[str, str | None]:
    """The cuDNN that it was built with, and the one that it has loaded: the latter is what ``version()`` tells."""
    own = getattr(getattr(torch, "_C", None), "_cudnn", None)
    built, loaded = (_triple(own, name) for name in ("getCompileVersion", "getRuntimeVersion"))
    if loaded is None:
        loaded = cudnn_number(torch.backends.cudnn.version())
    return {"cudnn_version": built, "cudnn_loaded": loaded}


def _triple(module: Any, name: str) -> str | None:
    """(9, 19, 0) as 9.19.0."""
    call = getattr(module, name, None)
    return ".".join(str(int(part)) for part in call()) if call is not None else None


def cudnn_number(number: int | None) -> str | None:
    """91900 as 9.19.0, 8907 as 8.9.7."""
    if not number:
        return None
    scale = 10_000 if number >= 90_000 else 1_000  # cuDNN 9 counts its minor versions in hundreds of hundreds
    return f"{number // scale}.{number % scale // 100}.{number % 100}"


def _jax() -> dict[str, Any]:
    jax = importlib.import_module("jax")
    plugins = {
        name: version
        for name in ("jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm60-plugin", "jax-rocm7-plugin")
        if (version := _installed(name))
    }
    cuda = next((name for name in plugins if "cuda" in name), None)
    return {
        "version": str(jax.__version__),
        "jaxlib_version": _installed("jaxlib"),
        "plugins": plugins,
        "cuda_build": cuda is not None,
        "rocm_build": any("rocm" in name for name in plugins),
        "cuda_version": cuda.removeprefix("jax-cuda").removesuffix("-plugin") if cuda else None,
        "capabilities": [],  # it compiles for the card that it finds
        "gpus": sum(1 for device in jax.devices() if device.platform in ("gpu", "cuda", "rocm")),
        **_jax_cudnn(cuda),
    }


def _jax_cudnn(plugin: str | None) -> dict[str, str | None]:
    """What JAX's plugin says of cuDNN: it checks both by itself when it is loaded, so nothing is loaded for this."""
    found: dict[str, str | None] = {"cudnn_version": None, "cudnn_loaded": None}
    try:
        versions = importlib.import_module(f"{(plugin or '').replace('-', '_')}._versions")
        found["cudnn_version"] = cudnn_number(versions.cudnn_build_version())
        found["cudnn_loaded"] = cudnn_number(versions.cudnn_get_version())
    except Exception:
        return found  # no plugin, one of another make, or one that finds no cuDNN: not told
    return found


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


BUILDS: Mapping[str, Callable[[], dict[str, Any]]] = {"tensorflow": _tensorflow, "torch": _torch, "jax": _jax}


def mapped(maps: Path = Path("/proc/self/maps")) -> list[str] | None:
    """The files of CUDA's libraries that are in this process; None where the system does not show them."""
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    files = dict.fromkeys(line[line.index("/") :].removesuffix(" (deleted)") for line in lines if "/" in line)
    named = ((file, LIBRARY.fullmatch(file.rpartition("/")[2])) for file in files)
    return sorted(file for file, found in named if found and found[1] in WHEELS)


def main(name: str) -> str:
    """The line to print for one framework. Which files it took is told by the process, once it was asked for GPUs."""
    try:
        found = {**BUILDS[name](), "loaded": mapped()}
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    return MARK + json.dumps(found)


if __name__ == "__main__":
    sys.__stdout__.write("\n" + main(sys.argv[1]) + "\n")  # type: ignore[union-attr]
