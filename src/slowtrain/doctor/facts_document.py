"""Gathers all facts about a computer into one document, and reads such a document from a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slowtrain.doctor import gpu_load_check, installed_frameworks, kernel_log
from slowtrain.doctor.busy_cores import sample_busy_cores
from slowtrain.errors import InputError
from slowtrain.machine.host import cuda_libraries
from slowtrain.machine.host import data_folder as folders
from slowtrain.machine.host.gpu_devices import Gpus
from slowtrain.machine.host.host_facts import SCHEMA, machine_facts
from slowtrain.machine.tables.fact_access import has_nvidia_gpu

MAX_FACTS_FILE_BYTES = 8 << 20
REQUIRED_SECTIONS = ("platform", "cpu", "cgroup", "memory", "gpu")  # sections that every document has


def gather_facts(
    *,
    data: Path | None = None,
    load: bool = True,
    gpus: Gpus | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Gathers every fact. Takes as long as importing the frameworks does; ``say`` is called with progress messages."""
    gpus = gpus or Gpus()
    found = machine_facts(gpus=gpus)
    found["others"] = sample_busy_cores(gpus)
    builds: dict[str, Any] = {}
    for name in installed_frameworks.installed_frameworks():
        say(f"asking {name} for its build and the GPUs it sees")
        builds[name] = installed_frameworks.ask_framework(name)
    found["frameworks"] = builds
    cuda = [b for b in builds.values() if b.get("cuda_build")]
    names = [n for b in cuda for n in cuda_libraries.required_libraries(b.get("cuda_version"), b.get("cudnn_version"))]
    names += [n for b in cuda for n in cuda_libraries.optional_libraries(b.get("cuda_version"))]
    names = list(dict.fromkeys(names or (["libcuda.so.1"] if has_nvidia_gpu(found) else [])))
    found["libraries"] = cuda_libraries.find_libraries(names, os.environ) if names else []
    found["kernel_log"] = kernel_log.read_xids()
    if load and gpus.handles:
        say("copying to the GPU briefly to read its link and clocks under load")
    by = next((name for name, b in builds.items() if b.get("gpus")), None)
    found["load"] = (
        gpu_load_check.sample_under_load(gpus, by) if load else {"unmeasured": "--no-load was given", "devices": []}
    )
    if data is not None:
        say(f"reading from {data}")
        found["data"] = folders.measure_folder(data)
    return found


def read_facts_file(path: Path) -> dict[str, Any]:
    """Reads a facts file. Raises ``InputError`` if it is not one, has another version, or is damaged."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FACTS_FILE_BYTES + 1)
        if len(text) > MAX_FACTS_FILE_BYTES:
            raise InputError(f"{path} is too large for a machine's facts; `slowtrain doctor --json` writes them")
        # Read as bytes, because PowerShell's redirection writes UTF-16 or a byte-order mark. NaN is not JSON.
        found = json.loads(text, parse_constant=_reject_constant)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); `slowtrain doctor --json` writes one") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON; `slowtrain doctor --json` writes a machine's facts") from error
    if isinstance(found, dict) and isinstance(found.get("facts"), dict):
        found = found["facts"]  # the doctor's complete answer
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        said = f"has the schema {schema!r}" if schema is not None else "has no schema"
        raise InputError(f"{path} {said}, not {SCHEMA!r}; `slowtrain doctor --json` writes a machine's facts")
    lacking = [name for name in REQUIRED_SECTIONS if not isinstance(found.get(name), dict)]
    if lacking:
        raise InputError(f"{path} is damaged: it has no {lacking[0]!r}; write it again with `slowtrain doctor --json`")
    whole: dict[str, Any] = found
    return whole


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")
