"""Access to facts of any origin: any fact may be missing or have the wrong type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slowtrain.figures import plain
from slowtrain.machine.rules import MAKERS, PICTURE_ONLY

DXG = "/dev/dxg"
Facts = Mapping[str, Any]
NAMES = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX"}


def at(facts: Any, *path: str) -> Any:
    """A nested fact; None if it is absent."""
    for key in path:
        facts = facts.get(key) if isinstance(facts, Mapping) else None
    return facts


def rows(value: Any) -> list[Facts]:
    """The objects in a list; other entries are left out."""
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, (list, tuple)) else []


def figure(value: Any) -> float | None:
    """The value as a number; None for other types: True and "4" are not numbers."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def version(said: Any) -> tuple[int, ...] | None:
    """(550, 54, 15) of "550.54.15"; None if the text does not begin with a number."""
    found = re.match(r"\d+(?:\.\d+)*", str(said or ""))
    return tuple(map(int, found[0].split("."))) if found else None


def cards(facts: Facts) -> list[Facts]:
    """The GPUs that the driver shows."""
    return rows(at(facts, "gpu", "devices"))


def card(gpu: Facts) -> str:
    """The name of a GPU in a sentence."""
    return f"GPU {gpu.get('index', '?')} ({gpu.get('name') or 'unnamed'})"


def builds(facts: Facts) -> dict[str, Facts]:
    """The frameworks that answered; the backend of Keras first."""
    found = at(facts, "frameworks")
    named = {n: b for n, b in found.items() if isinstance(b, Mapping)} if isinstance(found, Mapping) else {}
    return dict(sorted(named.items(), key=lambda item: item[0] != backend(facts)))


def backend(facts: Facts) -> str:
    """The backend that trains here: that of Keras, or TensorFlow if the facts do not name one."""
    return str(at(facts, "keras_backend") or "tensorflow")


def called(name: str, build: Facts) -> str:
    return f"{NAMES.get(name, name)} {build.get('version') or ''}".strip()


def present(facts: Facts) -> bool | None:
    """Whether this computer has an NVIDIA GPU, by any source; None if the system does not show it."""
    pci = at(facts, "devices", "pci_gpus")
    files = {str(row.get("path")) for row in rows(at(facts, "devices", "files"))}
    if cards(facts) or pci or files - {DXG}:
        return True
    if DXG in files:  # in WSL the file exists for every GPU of Windows, NVIDIA's library only for NVIDIA's
        return True if at(facts, "devices", "wsl_driver") else None
    return False if isinstance(pci, list) else None


def others(facts: Facts) -> list[str]:
    """GPUs of other vendors, in words, without those that only drive a console."""
    found = rows(at(facts, "devices", "other_gpus"))
    return [f"{maker(row)} GPU at PCI {row.get('address')}" for row in found if _computes(row)]


def pictures(facts: Facts) -> list[str]:
    """The vendors of displays that cannot compute, each once."""
    return list(dict.fromkeys(maker(r) for r in rows(at(facts, "devices", "other_gpus")) if not _computes(r)))


def maker(row: Facts) -> str:
    vendor = str(row.get("vendor"))
    return MAKERS.get(vendor, f"vendor {vendor}")


def _computes(row: Facts) -> bool:
    return str(row.get("vendor")) not in PICTURE_ONLY


def container(facts: Facts) -> str | None:
    found = at(facts, "platform", "container")
    return found if isinstance(found, str) else None


def gib(count: float) -> str:
    return f"{plain(count / (1 << 30))} GiB" if count >= 1 << 30 else f"{plain(count / (1 << 20))} MiB"
