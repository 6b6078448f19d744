"""What allocators and frameworks say when memory runs out, as patterns; in one place, for versions differ.

TensorFlow 0.7 to 2.21 and JAX (bfc_allocator.cc), their CUDA pool (gpu_cudamallocasync_allocator.cc), PyTorch 1 and 2;
what XLA says beside that is in ``xla.py``. Bounded everywhere: a line may hold anything.
"""

from __future__ import annotations

import re

from slowtrain.dumps.building import size

SIZE = rb"([\d.]{1,20}) ?([KMGT]?i?B?)"
# "Chunk at 0x.. of size N" (until 1.13), "InUse at 0x.. next 1 of size N" (1.14, 2.0), "InUse at 7f.. of size N
# [by op NAME action_count N step N] next N [freed_at_count N]" (from 2.1).
CHUNK = re.compile(
    rb" *(?P<kind>Chunk|InUse|Free) {1,3}at (?:0x)?[0-9a-fA-F]{1,16}"
    rb"(?: next \d+ of size (?P<size2>\d{1,19})| of size (?P<size>\d{1,19}))"
    rb"(?: by op (?P<op>.{0,500}?) action_count \d+)?"
    rb"(?: tag \w{1,30}(?: allocation_annotation (?P<program>.{0,500}?) next \d)?)?"  # jaxlib 0.11
)
# The same from the line's beginning, where nothing stands around it and no op is named.
QUICK = re.compile(
    rb"(?:I\d{4} [\d:.]{5,30} {1,8}(\d{1,10}) |\d{4}-\d\d-\d\d [\d:.]{5,20}: I [\w/]{0,100}?)bfc_allocator\.cc:\d+\] "
    rb"(InUse|Free |Chunk) at [0-9a-fx]{1,18} of size (\d{1,18})(?: next \d+)?\r?\Z"
)
ASKED = re.compile(
    rb"Allocator \((?P<allocator>[^)]{1,100})\) ran out of memory trying to allocate "
    rb"(?P<number>[\d.]{1,20}) ?(?P<unit>[KMGT]?i?B?)\b(?: \(rounded to (?P<rounded>\d{1,19})\))?"
    rb"(?: from the \w{1,20} end)?"
    rb"(?: ?requested by op (?P<op>[^\s]{0,500}))?"
)
RETRIED = b"not a failure"
DUMP = re.compile(rb" *BFCAllocator dump for (\S{1,100})")
INSIDE = re.compile(rb" *(?:Bin \(|Bin for|Next region of|\d+ Chunks of size|Sum Total|Total bytes in pool|Stats:)")
BIN = re.compile(
    rb"Bin \(\d+\):\s+Total Chunks: \d+, Chunks in use: \d+\.? (?P<number>[\d.]{1,20})(?P<unit>[KMGT]?i?B) allocated"
)
BIN_FOR = re.compile(rb" *Bin for " + SIZE + rb" was ")
REGION = re.compile(rb" *Next region of size (\d{1,19})")
SUMMED = re.compile(rb" *(\d{1,15}) Chunks of size (\d{1,19}) totalling")
TOTAL = re.compile(rb" *Sum Total of in-use chunks: " + SIZE)
POOL = re.compile(
    rb" *(?:Total bytes in pool|total_region_allocated_bytes_): ?(\d{1,19}) memory_limit_: ?(\d{1,19})"
    rb" available bytes: ?(\d{1,19})"
)
STAT = re.compile(rb"\s*(Limit|InUse|MaxInUse|NumAllocs|MaxAllocSize|Reserved|PeakReserved|LargestFreeBlock): +" + SIZE)
MAP = re.compile(rb"[*_x]{20,200}\s*$")

ASYNC = re.compile(rb"(\w{1,60}) cu\w{1,30} failed to allocate (\d{1,19}) bytes")
DRIVER_FREE = re.compile(rb"Free memory/Total memory: ?(\d{1,19})/(\d{1,19})")
HISTOGRAM = re.compile(rb"(\d{1,19}), (\d{1,15})\s*$")

OOM = re.compile(
    rb"OOM when allocating tensor(?: with shape ?\[?(?P<shape>[\d,\s]{0,300})\]?)?"
    rb"(?: and type (?P<dtype>\w{1,30}))?(?: on (?P<device>/job\S{1,200}|/device\S{1,100}))?"
    rb"(?: by allocator (?P<allocator>[\w./:-]{1,100}))?"
)
OP = re.compile(rb"\[Op:([\w./:-]{1,200})\]")
NODE = re.compile(rb"\[\[\{\{node (\S{1,500}?)\}\}|\[\[[Nn]ode:? (\S{1,500})")
DETECTED = re.compile(rb"Detected at node '?(\S{1,500}?)'? defined at")
FRAME = re.compile(rb"File \"([^\"]{1,1000})\", line (\d{1,8})(?:, in (\S{1,200}))?")
LIBRARY = re.compile(rb"site-packages|dist-packages|[/\\]lib(?:64)?[/\\]python\d|<frozen|\A<|[/\\]Lib[/\\]\w+\.py\Z")

USAGE = re.compile(rb"Current usage from device:[^,]{0,200}, allocator: (\S{1,100})")
USED = re.compile(rb"\s+" + SIZE + rb" from (\S{1,500})")
REMAINING = re.compile(rb"\s*Remaining (\d{1,15}) nodes with " + SIZE)

# From 1.0 on "(GPU 0; 10.76 GiB total capacity; 643.57 MiB already allocated; 8.20 GiB free; 32.43 MiB cached)", where
# later versions say "reserved in total by PyTorch"; from 2.1 on in sentences.
_TORCH_ASKED = re.compile(rb"CUDA out of memory\. Tried to allocate " + SIZE)
_TORCH = {
    "limit": (re.compile(SIZE + rb" total capacity"), re.compile(rb"total capacity of " + SIZE)),
    "free": (re.compile(SIZE + rb" free;"), re.compile(rb"of which " + SIZE + rb" is free")),
    "in_use": (
        re.compile(SIZE + rb" already allocated"),
        re.compile(rb"memory " + SIZE + rb" is allocated by PyTorch"),
    ),
    "pool": (re.compile(SIZE + rb" reserved in total"),),
    "idle": (
        re.compile(SIZE + rb" cached"),
        re.compile(rb"and " + SIZE + rb" is reserved by PyTorch but unallocated"),
    ),
}
_DTYPE_BYTES = {"float": 4, "float32": 4, "half": 2, "float16": 2, "bfloat16": 2, "double": 8, "float64": 8, "int32": 4,
                "int64": 8, "uint8": 1, "int8": 1, "bool": 1, "int16": 2, "uint16": 2, "complex64": 8}  # fmt: skip


def name(text: bytes | None) -> str:
    return (text or b"").decode("utf-8", "replace").strip()[:500]


def shape(text: bytes | None) -> tuple[int, ...] | None:
    """``96,96,3`` as numbers."""
    parts = (text or b"").replace(b" ", b"").split(b",")
    if not all(p.isdigit() and len(p) <= 18 for p in parts) or len(parts) > 32:
        return None
    return tuple(map(int, parts))


def bytes_of(dims: tuple[int, ...] | None, dtype: str) -> int | None:
    """Of a tensor; None where its type's size is not known."""
    each = _DTYPE_BYTES.get(dtype)
    if dims is None or each is None:
        return None
    for one in dims:
        each = min(each * one, 1 << 62)
    return each


def torch(line: bytes) -> dict[str, int] | None:
    """The figures of PyTorch's one line."""
    asked = _TORCH_ASKED.search(line)
    bytes_ = size(asked[1], asked[2]) if asked else None
    if bytes_ is None:
        return None
    found = {"asked": bytes_}
    for key, patterns in _TORCH.items():
        for pattern in patterns:
            hit = pattern.search(line)
            value = size(hit[1], hit[2]) if hit else None
            if value is not None:
                found[key] = value
    if "idle" in found and "in_use" in found:
        found["pool"] = found["in_use"] + found["idle"]
    return found
