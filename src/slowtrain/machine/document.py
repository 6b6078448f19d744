"""Gathers all facts about a computer into one document, and reads such a document from a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slowtrain.errors import InputError
from slowtrain.machine import folder as folders
from slowtrain.machine import frameworks, kernel_log, libraries, loading
from slowtrain.machine.facts import SCHEMA, facts
from slowtrain.machine.gpu import Gpus
from slowtrain.machine.others import others
from slowtrain.machine.reading import present

MOST_FILE_BYTES = 8 << 20
SECTIONS = ("platform", "cpu", "cgroup", "memory", "gpu")  # sections that every document has


def gather(
    *,
    data: Path | None = None,
    load: bool = True,
    gpus: Gpus | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Gathers every fact. Takes as long as importing the frameworks does; ``say`` is called with progress messages."""
    gpus = gpus or Gpus()
    found = facts(gpus=gpus)
    found["others"] = others(gpus)
    builds: dict[str, Any] = {}
    for name in frameworks.installed():
        say(f"asking {name} how it was built and which GPUs it sees")
        builds[name] = frameworks.framework(name)
    found["frameworks"] = builds
    cuda = [b for b in builds.values() if b.get("cuda_build")]
    names = [n for b in cuda for n in libraries.wanted(b.get("cuda_version"), b.get("cudnn_version"))]
    names += [n for b in cuda for n in libraries.beside(b.get("cuda_version"))]
    names = list(dict.fromkeys(names or (["libcuda.so.1"] if present(found) else [])))
    found["libraries"] = libraries.libraries(names, os.environ) if names else []
    found["kernel_log"] = kernel_log.kernel_log()
    if load and gpus.handles:
        say("copying to the GPU for a moment, to read its link and clocks at work")
    by = next((name for name, b in builds.items() if b.get("gpus")), None)
    found["load"] = loading.load(gpus, by) if load else {"unmeasured": "--no-load was given", "devices": []}
    if data is not None:
        say(f"reading from {data}")
        found["data"] = folders.measure(data)
    return found


def read(path: Path) -> dict[str, Any]:
    """Reads a facts file. Raises ``InputError`` if it is not one, has another version, or is damaged."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_FILE_BYTES + 1)
        if len(text) > MOST_FILE_BYTES:
            raise InputError(f"{path} is too large for a machine's facts; `slowtrain doctor --json` writes them")
        # Read as bytes, because PowerShell's redirection writes UTF-16 or a byte-order mark. NaN is not JSON.
        found = json.loads(text, parse_constant=_refuse)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); `slowtrain doctor --json` writes one") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no JSON; `slowtrain doctor --json` writes a machine's facts") from error
    if isinstance(found, dict) and isinstance(found.get("facts"), dict):
        found = found["facts"]  # the doctor's complete answer
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        said = f"says {schema!r}" if schema is not None else "does not say what it is"
        raise InputError(f"{path} {said}, and not {SCHEMA!r}; `slowtrain doctor --json` writes a machine's facts")
    lacking = [name for name in SECTIONS if not isinstance(found.get(name), dict)]
    if lacking:
        raise InputError(f"{path} is damaged: it has no {lacking[0]!r}; write it again with `slowtrain doctor --json`")
    whole: dict[str, Any] = found
    return whole


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")
