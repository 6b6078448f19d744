"""GPUs by name: how much of their memory TensorFlow can use, which is less than the nominal size.

The numbers are what TensorFlow itself logged ("Created device ... with N MB memory") on a GPU that nobody else used. If
there are several logs, the lowest counts, because driver and context take slightly different amounts. The logs are from
public repositories. Each line was read again on ``LOGS_READ``. Where the logs lie was not recorded, so the source of a
GPU is the log line itself: the place in TensorFlow's source that wrote it, and the GPU's PCI address. TensorFlow
reserves 0.5 to 1.8 GiB of each GPU for its libraries (``MinSystemMemory`` in
tensorflow/core/common_runtime/gpu/gpu_device.cc). The driver's context takes the rest.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slowtrain.errors import InputError

BINARY_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
METRIC_UNITS = {"K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}


@dataclass(frozen=True)
class Card:
    """``usable_mib``: what TensorFlow's allocator may take. ``source_sentence``: the name that the driver gives it.

    ``log``: the log line, identified by its place in TensorFlow's source and the GPU's PCI address.
    """

    name: str
    usable_mib: int
    seen: str
    log: str


LOGS_READ = "2026-11-26"
CARD_TABLE = (
    Card("K80", 10785, "Tesla K80", "gpu_device.cc:1613, PCI 0000:0a:00.0"),
    Card("P100", 15397, "Tesla P100-PCIE-16GB", "gpu_device.cc:1525, PCI 0000:3b:00.0"),
    Card("T4", 13627, "Tesla T4", "gpu_device.cc:1613, PCI 0000:00:1e.0"),
    Card("V100-16GB", 14518, "Tesla V100-SXM2-16GB", "gpu_device.cc:1635, PCI 0000:00:04.0"),
    Card("V100-32GB", 30574, "Tesla V100S-PCIE-32GB", "gpu_device.cc:1532, PCI 0000:83:00.0"),
    Card("L4", 20549, "NVIDIA L4", "gpu_device.cc:1929, PCI 0000:00:03.0"),
    Card("A100-40GB", 38068, "NVIDIA A100-SXM4-40GB", "gpu_device.cc:1929, PCI 0000:90:00.0"),
    Card("A100-80GB", 78945, "NVIDIA A100-SXM4-80GB", "gpu_device.cc:1639, PCI 0000:46:00.0"),
    Card("H100-80GB", 78763, "NVIDIA H100 80GB HBM3", "gpu_device.cc:2021, PCI 0000:06:00.0"),
    Card("RTX-2080-Ti", 8963, "NVIDIA GeForce RTX 2080 Ti", "gpu_device.cc:1510, PCI 0000:26:00.0"),
    Card("RTX-3080-Ti", 9298, "NVIDIA GeForce RTX 3080 Ti", "gpu_device.cc:1928, PCI 0000:0b:00.0"),
    Card("RTX-3090", 22289, "NVIDIA GeForce RTX 3090", "gpu_device.cc:1525, PCI 0000:01:00.0"),
    Card("RTX-4090", 21286, "NVIDIA GeForce RTX 4090", "gpu_device.cc:1886, PCI 0000:01:00.0"),
    Card("RTX-A6000", 46673, "NVIDIA RTX A6000", "gpu_device.cc:1635, PCI 0000:01:00.0"),
)

# MiB that TensorFlow reserves on a GPU outside the table, by the first number of its compute capability. The last entry
# holds for all later ones. Read in ``MinSystemMemory`` on 2026-11-25.
RESERVED_MIB_BY_CAPABILITY = {6: 500, 7: 1050, 8: 1536, 9: 1800}
# The driver's own context. Beyond the reserve, the free memory that NVML shows and the table differ by 233 MiB on a T4
# and by 516 MiB on an H100 (tests/machine/fixtures). Twice the larger value, so that what is promised fits.
DRIVER_CONTEXT_MIB = 1032


def local_gpu_memory(devices: Sequence[Mapping[str, Any]]) -> tuple[str, int, str] | None:
    """The only GPU that NVML shows: its name, the bytes that TensorFlow's allocator can take now, and their source.

    None if there is no GPU, if there are several, if only a slice may be used (MIG), or if the driver does not
    report its memory.
    """
    if len(devices) != 1 or devices[0].get("mig_mode"):
        return None
    name, total, used, capability = (
        devices[0].get(key) for key in ("name", "memory_total_bytes", "memory_used_bytes", "compute_capability")
    )
    if not name or total is None or used is None or not capability:
        return None
    reserved_mib = RESERVED_MIB_BY_CAPABILITY[
        min(
            max(int(str(capability).partition(".")[0]), min(RESERVED_MIB_BY_CAPABILITY)),
            max(RESERVED_MIB_BY_CAPABILITY),
        )
    ]
    free = total - used - (reserved_mib << 20)
    card = next((c for c in CARD_TABLE if c.seen == name), None)
    if card is not None and card.usable_mib << 20 <= free:
        return name, card.usable_mib << 20, source_sentence(card)
    source = (
        f"{(total - used) >> 20:,} MiB are free according to its driver, less what TensorFlow and the driver reserve"
    )
    return name, max(free - (DRIVER_CONTEXT_MIB << 20), 0), source


def source_sentence(card: Card) -> str:
    """A sentence that names the source of the table's number."""
    return f"the memory that TensorFlow took on an unused {card.seen}, according to its own log ({card.log})"


def size_bytes(text: str) -> int | None:
    """Bytes of ``16GiB``, ``16G`` or ``512MB``; None if the text is not a size."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)(B?)", text.strip(), re.IGNORECASE)
    if found is None:
        return None
    number, unit, binary, byte = float(found[1]), found[2].upper(), found[3], found[4]
    scale = METRIC_UNITS[unit] if unit and byte and not binary else BINARY_UNITS[unit]
    return int(number * scale)


def find_card(name: str) -> Card:
    """The card with that name. Raises ``InputError``, which lists similar names."""
    wanted = _normalise_name(name)
    for card in CARD_TABLE:
        if wanted in (_normalise_name(card.name), _normalise_name(card.seen)):
            return card
    several = [
        c.name for c in CARD_TABLE if _normalise_name(c.name).startswith(wanted) or wanted in _normalise_name(c.seen)
    ]
    if len(several) == 1:
        return find_card(several[0])
    near = several or difflib.get_close_matches(name.upper(), [c.name for c in CARD_TABLE], n=3, cutoff=0.4)
    known = " or ".join(near) if near else ", ".join(c.name for c in CARD_TABLE)
    raise InputError(f"no card {name!r} is in the table; write {known}, or a size such as 16GiB")


def _normalise_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().replace("nvidia", "").replace("geforce", "").replace("tesla", ""))
