"""Cards by name: what of their memory TensorFlow gets, which is less than what is printed on the box.

The numbers are what TensorFlow itself wrote, "Created device ... with N MB memory", on a card that nobody else used;
of several, the lowest, since driver and context take a little more or less. They were read in logs that people put in
public repositories, and each again on ``LOGS_READ`` by its own words. Where these logs lie was not told there, so that
a card's source is the line itself: what wrote it, and for the card at which PCI address. TensorFlow keeps from 0.5 to
1.8 GiB of each card back for its libraries (``MinSystemMemory`` in tensorflow/core/common_runtime/gpu/gpu_device.cc)
and the driver's context takes the rest.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from slowtrain.errors import InputError
from slowtrain.values import dataclass

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
METRIC = {"K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}


@dataclass(frozen=True)
class Card:
    """``usable_mib``: what TensorFlow's allocator may take. ``seen``: the name that the driver gives it.

    ``log``: the line of TensorFlow's that said so, by its place in the source and the card's PCI address.
    """

    name: str
    usable_mib: int
    seen: str
    log: str


LOGS_READ = "2026-11-26"
CARDS = (
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

# What TensorFlow keeps back of a card outside the table, by the first number of its compute capability; the last holds
# for all later ones. Read on 2026-11-25 in ``MinSystemMemory``, see above.
KEPT_MIB = {6: 500, 7: 1050, 8: 1536, 9: 1800}
# The driver's own context: between what NVML shows free and what the table says lie 233 MiB of a T4 beyond that, and
# 516 of an H100 (tests/machine/fixtures). Twice the larger, so that what is promised fits.
CONTEXT_MIB = 1032


def here(devices: Sequence[Mapping[str, Any]]) -> tuple[str, int, str] | None:
    """Of the only GPU that NVML shows: its name, bytes for TensorFlow's allocator now, and where they are from.

    None where there is none, there are several, only a slice may be used (MIG), or the driver does not tell its memory.
    """
    if len(devices) != 1 or devices[0].get("mig_mode"):
        return None
    name, total, used, capability = (
        devices[0].get(key) for key in ("name", "memory_total_bytes", "memory_used_bytes", "compute_capability")
    )
    if not name or total is None or used is None or not capability:
        return None
    kept = KEPT_MIB[min(max(int(str(capability).partition(".")[0]), min(KEPT_MIB)), max(KEPT_MIB))]
    free = total - used - (kept << 20)
    card = next((c for c in CARDS if c.seen == name), None)
    if card is not None and card.usable_mib << 20 <= free:
        return name, card.usable_mib << 20, seen(card)
    source = f"{(total - used) >> 20:,} MiB are free by its driver, less what TensorFlow and the driver keep back"
    return name, max(free - (CONTEXT_MIB << 20), 0), source


def seen(card: Card) -> str:
    """Where the number of the table is from."""
    return f"what TensorFlow took of a {card.seen} that nobody else used, by its own log ({card.log})"


def size_bytes(text: str) -> int | None:
    """Bytes of ``16GiB``, ``16G``, ``512MB``; None for what is no size."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)(B?)", text.strip(), re.IGNORECASE)
    if found is None:
        return None
    number, unit, binary, byte = float(found[1]), found[2].upper(), found[3], found[4]
    scale = METRIC[unit] if unit and byte and not binary else UNITS[unit]
    return int(number * scale)


def find(name: str) -> Card:
    """The card of that name. Raises ``InputError``, which names those that are near."""
    wanted = _plain(name)
    for card in CARDS:
        if wanted in (_plain(card.name), _plain(card.seen)):
            return card
    several = [c.name for c in CARDS if _plain(c.name).startswith(wanted) or wanted in _plain(c.seen)]
    if len(several) == 1:
        return find(several[0])
    near = several or difflib.get_close_matches(name.upper(), [c.name for c in CARDS], n=3, cutoff=0.4)
    known = " or ".join(near) if near else ", ".join(c.name for c in CARDS)
    raise InputError(f"no card {name!r} is in the table; write {known}, or a size such as 16GiB")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().replace("nvidia", "").replace("geforce", "").replace("tesla", ""))
