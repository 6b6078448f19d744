"""The installed frameworks, each asked in a child process: its build options, and how many GPUs it sees."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from slowtrain.machine.host import cuda_libraries

BUILD_MODULE = "slowtrain.capture.inspection.framework_builds"  # a name, because only capture/ may import a framework
ANSWER_PREFIX = "slowtrain.build:"
FRAMEWORK_NAMES = ("tensorflow", "torch", "jax")
MAX_ANSWER_S = 120.0
# A line of a framework's log with one of these words is about GPUs. The first few such lines are kept.
GPU_LOG_WORDS = ("cuda", "cudnn", "gpu", "libcu", "dlopen", "dynamic library", "driver", "rocm")
MAX_LOG_LINES = 6
# Start-up messages that do not matter: factories registered twice, and instructions that a CPU build could use.
HARMLESS_LOG_WORDS = ("factory", "cpu_feature_guard", "onednn", "absl::initializelog", "tf-trt")


def installed_frameworks() -> tuple[str, ...]:
    """The frameworks that could be imported."""
    return tuple(name for name in FRAMEWORK_NAMES if importlib.util.find_spec(name) is not None)


def ask_framework(name: str, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The answer of one framework. ``error``: it could not be asked. ``said``: its own log lines about GPUs."""
    own = {"TF_CPP_MIN_LOG_LEVEL": "0", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONUNBUFFERED": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", BUILD_MODULE, name], capture_output=True, timeout=MAX_ANSWER_S, check=False,
            env={**(os.environ if environ is None else environ), **own},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": f"did not answer in {MAX_ANSWER_S:.0f} s"}
    except OSError as error:
        return {"error": str(error)}
    said = done.stderr.decode(errors="replace").splitlines()
    for line in reversed(done.stdout.decode(errors="replace").splitlines()):
        if line.startswith(ANSWER_PREFIX):
            found = json.loads(line.removeprefix(ANSWER_PREFIX))
            if isinstance(found.get("loaded"), list):
                found["loaded"] = cuda_libraries.describe_loaded_files(found["loaded"])
            return {**found, "said": gpu_log_lines(said)}
    last = next((line for line in reversed(said) if line.strip()), "no answer")
    return {"error": f"ended with exit code {done.returncode}: {last.strip()[:200]}", "said": gpu_log_lines(said)}


def gpu_log_lines(lines: Sequence[str]) -> list[str]:
    """The lines about GPUs in a framework's log, each once, without time and thread."""
    found = []
    for line in lines:
        lower = line.lower()
        if any(word in lower for word in GPU_LOG_WORDS) and not any(word in lower for word in HARMLESS_LOG_WORDS):
            found.append(line.partition("] ")[2].strip() or line.strip())
    return [line[:300] for line in dict.fromkeys(found)][:MAX_LOG_LINES]
