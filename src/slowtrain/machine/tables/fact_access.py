"""Access to facts of any origin: any fact may be missing or have the wrong type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slowtrain.machine.tables.rule_table import DISPLAY_MAKERS, DISPLAY_ONLY_VENDORS
from slowtrain.number_text import format_number

DXG_FILE = "/dev/dxg"
Facts = Mapping[str, Any]
THROTTLE_REASONS = {
    0x2: "a clock was set by an application",
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x10: "synchronised with another GPU",
    0x20: "too hot (software)",
    0x40: "too hot (hardware)",
    0x80: "external power brake",
    0x100: "display clock",
}
"""Bits of NVML's reasons for a clock below its maximum; 0x1 (idle) is not listed, because it is harmless."""
FRAMEWORK_TITLES = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX"}


def nested_fact(facts: Any, *path: str) -> Any:
    """A nested fact; None if it is absent."""
    for key in path:
        facts = facts.get(key) if isinstance(facts, Mapping) else None
    return facts


def object_rows(value: Any) -> list[Facts]:
    """The objects in a list; other entries are left out."""
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, (list, tuple)) else []


def number_or_none(value: Any) -> float | None:
    """The value as a number; None for other types: True and "4" are not numbers."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def parse_version(text: Any) -> tuple[int, ...] | None:
    """(550, 54, 15) of "550.54.15"; None if the text does not begin with a number."""
    found = re.match(r"\d+(?:\.\d+)*", str(text or ""))
    return tuple(map(int, found[0].split("."))) if found else None


def driver_gpus(facts: Facts) -> list[Facts]:
    """The GPUs that the driver shows."""
    return object_rows(nested_fact(facts, "gpu", "devices"))


def gpu_label(gpu: Facts) -> str:
    """The name of a GPU in a sentence."""
    return f"GPU {gpu.get('index', '?')} ({gpu.get('name') or 'unnamed'})"


def framework_builds(facts: Facts) -> dict[str, Facts]:
    """The frameworks that answered; the backend of Keras first."""
    found = nested_fact(facts, "frameworks")
    named = {n: b for n, b in found.items() if isinstance(b, Mapping)} if isinstance(found, Mapping) else {}
    return dict(sorted(named.items(), key=lambda item: item[0] != keras_backend_name(facts)))


def keras_backend_name(facts: Facts) -> str:
    """The backend that trains here: that of Keras, or TensorFlow if the facts do not name one."""
    return str(nested_fact(facts, "keras_backend") or "tensorflow")


def build_label(name: str, build: Facts) -> str:
    return f"{FRAMEWORK_TITLES.get(name, name)} {build.get('version') or ''}".strip()


def has_nvidia_gpu(facts: Facts) -> bool | None:
    """Whether this computer has an NVIDIA GPU, by any source; None if the system does not show it."""
    pci = nested_fact(facts, "devices", "pci_gpus")
    files = {str(row.get("path")) for row in object_rows(nested_fact(facts, "devices", "files"))}
    if driver_gpus(facts) or pci or files - {DXG_FILE}:
        return True
    if DXG_FILE in files:  # in WSL the file exists for every GPU of Windows, NVIDIA's library only for NVIDIA's
        return True if nested_fact(facts, "devices", "wsl_driver") else None
    return False if isinstance(pci, list) else None


def other_gpu_labels(facts: Facts) -> list[str]:
    """GPUs of other vendors, in words, without those that only drive a console."""
    found = object_rows(nested_fact(facts, "devices", "other_gpus"))
    return [f"{maker_name(row)} GPU at PCI {row.get('address')}" for row in found if _can_compute(row)]


def display_only_makers(facts: Facts) -> list[str]:
    """The vendors of displays that cannot compute, each once."""
    return list(
        dict.fromkeys(
            maker_name(r) for r in object_rows(nested_fact(facts, "devices", "other_gpus")) if not _can_compute(r)
        )
    )


def maker_name(row: Facts) -> str:
    vendor = str(row.get("vendor"))
    return DISPLAY_MAKERS.get(vendor, f"vendor {vendor}")


def _can_compute(row: Facts) -> bool:
    return str(row.get("vendor")) not in DISPLAY_ONLY_VENDORS


def container_kind(facts: Facts) -> str | None:
    found = nested_fact(facts, "platform", "container")
    return found if isinstance(found, str) else None


def format_bytes(count: float) -> str:
    return f"{format_number(count / (1 << 30))} GiB" if count >= 1 << 30 else f"{format_number(count / (1 << 20))} MiB"


def describe_throttle_bits(bits: int | None) -> list[str] | None:
    """NVML's bits in words. An empty list means that nothing reduces the clock; None means not measured."""
    if bits is None:
        return None
    return [says for bit, says in THROTTLE_REASONS.items() if bits & bit]
