"""PyTorch's messages about exhausted memory of CUDA, HIP, XPU and MPS, since 0.4."""

from __future__ import annotations

import re

from slowtrain.oom.messages.dump_builder import ROUNDING_SHARE, DumpBuilder
from slowtrain.oom.text.byte_sizes import SIZE, parse_size

CACHING_ALLOCATOR = "PyTorch's caching allocator"
MPS_ALLOCATOR = "PyTorch's allocator of MPS"
_RAN_OUT = re.compile(rb"\b(?:CUDA|HIP|XPU|NPU|MPS backend) out of memory\b|\b(?:CUDA|HIP) error: out of memory"
                      rb"|\ATried to allocate " + SIZE + rb" \([GNX]PU \d")  # fmt: skip
_ASKED = re.compile(rb"Tried to allocate " + SIZE)
# Since 0.4: "(GPU 0; 10.76 GiB total capacity; 643.57 MiB already allocated; 8.20 GiB free; 32.43 MiB cached)". Later
# versions say "reserved in total by PyTorch"; since 2.1 the figures are in sentences.
_FIGURE_PATTERNS = {
    "limit": (re.compile(SIZE + rb" total capacity"), re.compile(rb"total capaci?ty of " + SIZE),
              re.compile(rb"max allowed: " + SIZE)),
    "free": (re.compile(SIZE + rb" free;"), re.compile(rb"of which " + SIZE + rb" is free")),
    "in_use": (
        re.compile(SIZE + rb" already allocated"),
        re.compile(rb"memory " + SIZE + rb" is allocated by PyTorch"),
        re.compile(rb"MPS allocated: " + SIZE),
    ),
    "pool": (re.compile(SIZE + rb" reserved in total"),),
    "idle": (
        re.compile(SIZE + rb" cached"),
        re.compile(rb"and " + SIZE + rb" is reserved by PyTorch but unallocated"),
    ),
    "own": (re.compile(rb"this process has " + SIZE + rb" memory in use"),),
    "outside": (re.compile(rb"other allocations: " + SIZE),),
}  # fmt: skip
# In a continuation line of the message.
FIGURE_PATTERN = re.compile(rb"\d [KMG]iB (?:total capacity|already|free|reserved|cached|is free|memory in use|is "
                            rb"allocated)"
                    rb"|total capaci?ty of|by PyTorch")  # fmt: skip
_PROCESS = re.compile(rb"Process \d{1,10} has " + SIZE + rb" memory in use")


def read_torch_error(line: bytes, builder: DumpBuilder) -> bool:
    """Reads the figures in PyTorch's message; returns whether the line is one."""
    if _RAN_OUT.search(line) is None:
        return False
    builder.allocator = CACHING_ALLOCATOR
    if b"MPS" in line:
        line = line.replace(b" GB", b" GiB").replace(b" MB", b" MiB")  # MPS divides by 1024
    asked = _ASKED.search(line)
    builder.ask(parse_size(asked[1], asked[2]) if asked else None)
    found = {
        key: value for key, patterns in _FIGURE_PATTERNS.items() if (value := _find_size(line, patterns)) is not None
    }
    builder.limit_bytes, builder.driver_free_bytes = found.get("limit"), found.get("free")
    builder.total_bytes, builder.pool_bytes = found.get("in_use"), found.get("pool")
    builder.growth_bytes = found.get("free")
    builder.device_bytes = builder.limit_bytes
    if "idle" in found and "in_use" in found:
        builder.pool_bytes = found["in_use"] + found["idle"]
    builder.outside_bytes = found.get("outside")
    if b"MPS" in line and {"limit", "in_use", "outside"} <= found.keys():
        builder.allocator = MPS_ALLOCATOR
        builder.driver_free_bytes = max(found["limit"] - found["in_use"] - found["outside"], 0)
    _read_processes(line, builder, found.get("own"))
    return True


def _read_processes(line: bytes, builder: DumpBuilder, own: int | None) -> None:
    """Reads what other processes hold, and what this one holds outside the pool.

    In a container this process has two process ids, and PyTorch lists it like another process. Then the figures add up
    to more than the card has in use.
    """
    processes = sorted(parse_size(one[1], one[2]) or 0 for one in _PROCESS.finditer(line))
    pool = builder.pool_bytes
    if own is None and processes and pool is not None and builder.limit_bytes is not None:
        used = builder.limit_bytes - (builder.driver_free_bytes or 0)
        if pool + sum(processes) > used * (1 + ROUNDING_SHARE):
            own = next((one for one in processes if one >= pool * (1 - ROUNDING_SHARE)), None)
            if own is not None:
                processes.remove(own)
    builder.others_bytes = sum(processes) if processes else None
    if own is not None and pool is not None:
        builder.outside_bytes = max(own - pool, 0)


def _find_size(line: bytes, patterns: tuple[re.Pattern[bytes], ...]) -> int | None:
    found = next((hit for pattern in patterns if (hit := pattern.search(line))), None)
    return parse_size(found[1], found[2]) if found else None
