"""Messages of allocators, XLA, TPUs and PyTorch about exhausted memory.

Versions differ, so all patterns are in one place: TensorFlow 0.7 to 2.21 and JAX (bfc_allocator.cc), their CUDA pool
(gpu_cudamallocasync_allocator.cc), PyTorch since 0.4. Every repetition is bounded, because a line may contain anything.
"""

from __future__ import annotations

import re
from dataclasses import replace

from slowtrain.oom.dump_builder import ROUNDING_SHARE, DumpBuilder
from slowtrain.oom.log_text import SIZE, decode_name, is_library_file, parse_size
from slowtrain.shared.exhaustion import FailureKind
from slowtrain.shared.vocabulary import Place

# "Chunk at 0x.. of size N" (until 1.13), "InUse at 0x.. next 1 of size N" (1.14, 2.0), "InUse at 7f.. of size N
# [by op NAME action_count N step N] next N [freed_at_count N]" (from 2.1).
CHUNK_LINE = re.compile(
    rb" *(?P<kind>Chunk|InUse|Free) {1,3}at (?:0x)?[0-9a-fA-F]{1,16}"
    rb"(?: next \d+ of size (?P<size2>\d{1,19})| of size (?P<size>\d{1,19}))"
    rb"(?: by op (?P<op>.{0,500}?) action_count \d+)?"
    rb"(?: tag \w{1,30}(?: allocation_annotation (?P<program>.{0,500}?) next \d)?)?"  # jaxlib 0.11
)
# The same for a bare line that names no op, matched from its beginning.
QUICK = re.compile(
    rb"(?:I\d{4} [\d:.]{5,30} {1,8}(\d{1,10}) |\d{4}-\d\d-\d\d [\d:.]{5,20}: I [\w/]{0,100}?)bfc_allocator\.cc:\d+\] "
    rb"(InUse|Free |Chunk) at [0-9a-fx]{1,18} of size (\d{1,18})(?: next \d+)?\r?\Z"
)
REQUEST_LINE = re.compile(
    rb"Allocator \((?P<allocator>[^)]{1,100})\) ran out of memory trying to allocate "
    rb"(?P<number>[\d.]{1,20}) ?(?P<unit>[KMGT]?i?B?)\b(?: \(rounded to (?P<rounded>\d{1,19})\))?"
    rb"(?: from the \w{1,20} end)?"
    rb"(?: ?requested by op (?P<op>[^\s]{0,500}))?"
)
MAX_SUMS = 20_000  # distinct sizes among a dump's sums
RETRIED = b"not a failure"
# Until 1.0 the message has no allocator name.
RETRIED_FOR = re.compile(rb"(?:Allocator \(([^)]{1,100})\) r|R)an out of memory trying to allocate " + SIZE)
# Until 1.0 the size follows the dump, on a line of its own.
ASKED_BEHIND = re.compile(rb"Ran out of memory trying to allocate " + SIZE)
COPY = b"Dst tensor is not initialized"
# Errors of TensorFlow that give neither size nor shape.
UNSIZED = re.compile(
    rb"(?:Error|xhausted|XHAUSTED).{0,200}(?:failed to allocate memory|unable to allocate output tensor)"
    rb"|failed to allocate memory \[Op:"
)
# The first part of an error that a terminal or a page broke into two lines.
WRAPPED_ERROR = re.compile(
    rb"(?:xhausted|XHAUSTED).{0,300}(?:Attempting to (?:allocate|reserve) [\d.]{1,20}[KMGT]?i?B?\.?|\bOut(?: of)?)\s*\Z"
)
COPIED_CONSTANT = re.compile(
    rb" = Const\[.{0,200}?value=Tensor<type: (?P<dtype>\w{1,30}) shape: \[(?P<shape>[\d,\s]{1,300})\]"
)
TYPE = re.compile(rb"\[T=DT_(\w{1,20})")  # the type of a TensorFlow 1 op, which is normally that of its result
COPIED_FOR = re.compile(rb"in order to run ([\w./:-]{1,200}?):")
DUMP = re.compile(rb" *BFCAllocator dump for (\S{1,100})")
INSIDE_DUMP = re.compile(
    rb" *(?:Bin \(|Bin for|Next region of|\d+ Chunks of size|Sum Total|Total bytes in pool|total_region_|Stats:)"
)
BIN = re.compile(
    rb"Bin \(\d+\):\s+Total Chunks: \d+, Chunks in use: \d+\.? (?P<number>[\d.]{1,20})(?P<unit>[KMGT]?i?B) allocated"
)
BIN_FOR = re.compile(rb" *Bin for " + SIZE + rb" was ")
LAST_BIN = b"was 256.00MiB"  # contains all pieces of at least this size
# The free pieces in the request's bin.
PIECE = re.compile(rb" *Size: " + SIZE + rb" \| Requested Size: [\d.]{1,20}[KMGT]?i?B \| in_use: 0")
REGION = re.compile(rb" *Next region of size (\d{1,19})")
SUMMED_CHUNKS = re.compile(rb" *(\d{1,15}) Chunks of size (\d{1,19}) totalling")
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
    rb"OOM when allocating tensor(?: (?:with|of) shape ?\[?(?P<shape>[\d,\s]{0,300})\]?)?"
    rb"(?: and type (?P<dtype>\w{1,30}))?(?: on (?P<device>/job\S{1,200}|/device\S{1,100}))?"
    rb"(?: by allocator (?P<allocator>[\w./:-]{1,100}))?"
)
OP = re.compile(rb"\[Op:([\w./:-]{1,200})\]")
NODE = re.compile(rb"\[\[\{\{node (\S{1,500}?)\}\}|\[\[[Nn]ode:? (\S{1,500})")
USAGE = re.compile(rb"Current usage from device:[^,]{0,200}, allocator: (\S{1,100})")
USED = re.compile(rb"\s+" + SIZE + rb" from (\S{1,500})")
REMAINING = re.compile(rb"\s*Remaining (\d{1,15}) nodes with " + SIZE)


def read_dump_line(builder: DumpBuilder, text: bytes) -> None:
    """Reads a line of the allocator's dump that is not a chunk and has no continuation."""
    if region := REGION.match(text):
        builder.add_region(parse_size(region[1]) or 0)
    elif bin_ := BIN.match(text):
        builder.bins += 1
        builder.bins_bytes += parse_size(bin_["number"], bin_["unit"]) or 0
    elif wanted := BIN_FOR.match(text):
        if builder.request.bytes is None:
            builder.request = replace(builder.request, bytes=parse_size(wanted[1], wanted[2]))
        builder.in_last_bin = LAST_BIN in text
    elif builder.in_last_bin and (piece := PIECE.match(text)):
        builder.largest_stated_bytes = max(builder.largest_stated_bytes or 0, parse_size(piece[1], piece[2]) or 0)
    elif summed := SUMMED_CHUNKS.match(text):
        each = parse_size(summed[2])
        if each and len(builder.sums) < MAX_SUMS:
            builder.sums[each] = min(int(summed[1]), 1 << 40)
    elif total := TOTAL.match(text):
        builder.total_bytes = parse_size(total[1], total[2])
    elif pool := POOL.match(text):
        builder.pool_bytes, builder.limit_bytes = parse_size(pool[1]), parse_size(pool[2])
        builder.growth_bytes = parse_size(pool[3])
    else:
        read_allocator_summary(builder, text)


def read_statistic(builder: DumpBuilder, line: bytes) -> bool:
    """Reads a line of the allocator's statistics; returns whether it is one, or empty."""
    found = STAT.match(line)
    if found is None:
        return not line.strip()
    value = parse_size(found[2], found[3] or b"")
    if value is not None:
        builder.stats[found[1].decode()] = value
    return True


# "Out of memory while trying to allocate 20.00GiB."; with XLA_PYTHON_CLIENT_ALLOCATOR=platform (and before jaxlib 0.4)
# "Failed to allocate request for 2.99GiB (3206250496B) on device ordinal 0"; on a CPU
# "Out of memory allocating N bytes".
REQUEST_ERROR = re.compile(
    rb"(?:Out of memory (?:while trying to allocate|allocating) " + SIZE + rb"|[Ff]ailed to allocate request for "
    rb"[\d.]{1,20}[KMGT]?i?B \((\d{1,19})B\)|Failed to allocate (\d{1,19}) bytes for new constant"
    rb"|[Ff]ailed to allocate request for " + SIZE + rb" on device)"
)
JAX_OP_MARK = b'op_name="jit('  # the program's name in JAX's notation
BACKEND = b"XLA backend"
# jaxlib.xla_extension.XlaRuntimeError, jax.errors.JaxRuntimeError. TensorFlow raises its own error instead.
PROGRAM = re.compile(
    rb"reduce memory use below [\d.]{1,20}[KMGT]?i?B \((\d{1,19}) bytes\) by rematerialization; only reduced to "
    rb"[\d.]{1,20}[KMGT]?i?B \((\d{1,19}) bytes\)"
)
SUMMARY = re.compile(
    rb" *Allocator memory summary: rounded request " + SIZE + rb", total free in pool " + SIZE + rb", largest free "
    rb"chunk usable by \w{1,20} end " + SIZE + rb", unallocated bytes " + SIZE + rb", pool size " + SIZE
)
EXECUTABLE = re.compile(rb"executable=([^,}\s]{1,300})")
BUFFER = re.compile(rb"\s*(?:\d{1,4}\. |\s)Size: " + SIZE)
OPERATOR = re.compile(rb"\s+Operator: (?:op_type=\"[^\"]{0,200}\" )?op_name=\"([^\"\[]{1,1000})")
SOURCE = re.compile(rb"source_file=\"([^\"]{1,1000})\" source_line=(\d{1,8})")
BUFFER_LABEL = re.compile(rb"\s+(?:XLA [Ll]abel: %?|Entry Parameter Subshape: )(\S{1,200})")
BUFFER_REST = re.compile(
    rb"\s*$|\s+(?:Buffer \d+:|XLA [Ll]abel|Shape:|Entry Parameter|=====|Allocation type|Unpadded size|Extra memory|"
    rb"deduplicated|Operator:)"
)
ASSIGNED = re.compile(rb"\s+(parameter|constant|maybe_live_out|preallocated temp) allocation: +" + SIZE)
# The parts of a program by the names in XLA's sums: first those of buffer assignment, then those of a TPU's list.
PROGRAM_PART_LABELS = {
    b"parameter": "the program's arguments",
    b"constant": "its constants",
    b"maybe_live_out": "its results",
    b"preallocated temp": "its temporaries",
    b"arguments": "the program's arguments",
    b"global": "its constants",
    b"output": "its results",
    b"HLO temp": "its temporaries",
}


def program_name(annotation: bytes) -> str:
    """The program in ``xla.execute{executable=jit_step}``; else the whole annotation."""
    found = EXECUTABLE.search(annotation)
    return decode_name(found[1] if found else annotation)


def read_xla_error(line: bytes, builder: DumpBuilder) -> bool:
    """Reads the size in XLA's own error; returns whether the line is one."""
    found = REQUEST_ERROR.search(line)
    if found is None:
        return False
    builder.allocator = "XLA"
    size = next((found[i], found[i + 1]) for i in (1, 5) if found[i]) if found[1] or found[5] else None
    builder.ask(parse_size(*size) if size else parse_size(found[3] or found[4]))
    if found[4]:
        builder.request = replace(builder.request, constant=True)
    return True


def program_memory(text: bytes) -> tuple[int, int] | None:
    """The compiler's peak memory of a program, and the limit that it had to keep."""
    found = PROGRAM.search(text)
    needs, limit = (parse_size(found[2]), parse_size(found[1])) if found else (None, None)
    return (needs, limit) if needs and limit else None


def read_allocator_summary(builder: DumpBuilder, text: bytes) -> bool:
    """Reads the allocator's figures in one line, with three digits each (jaxlib 0.11)."""
    found = SUMMARY.match(text)
    if found is None:
        return False
    _, free, largest, growth, pool = (parse_size(found[i], found[i + 1] or b"") for i in range(1, 11, 2))
    builder.stated_free_bytes, builder.usable_bytes = free, largest
    builder.growth_bytes, builder.stated_pool_bytes = growth, pool
    return True


def read_buffer_line(builder: DumpBuilder, line: bytes) -> bool:
    """Reads a line of the list of buffers that are alive at the memory peak."""
    if sized := BUFFER.match(line):
        builder.stats["buffer"] = parse_size(sized[1], sized[2]) or 0
        builder.listed = True
        return True
    if named := OPERATOR.match(line) or BUFFER_LABEL.match(line):
        bytes_ = builder.stats.pop("buffer", 0)
        if bytes_:
            builder.add_op_memory(decode_name(named[1]), bytes_)
            source = SOURCE.search(line)
            if source is not None and not is_library_file(source[1]):
                builder.places.setdefault(builder.newest_op, Place(decode_name(source[1]), int(source[2])))
        return True
    return BUFFER_REST.match(line) is not None


def read_program_sum(builder: DumpBuilder, line: bytes) -> bool:
    """Reads a line of the program's own sums (BufferAssignment stats)."""
    found = ASSIGNED.match(line)
    bytes_ = parse_size(found[2], found[3] or b"") if found else None
    if found and bytes_:
        builder.parts[PROGRAM_PART_LABELS[found[1]]] = bytes_
    return found is not None or b" fragmentation: " in line or b"total allocation: " in line


_SPACE = re.compile(rb"Ran out of memory in memory space (\w{1,20})")
_USED = re.compile(rb"Used " + SIZE + rb" of " + SIZE + rb" (\w{1,20})")
_RESERVE = re.compile(rb"Attempting to (?:reserve|allocate) " + SIZE + rb"[^.]{0,60}\. That was not possible")
_FREE = re.compile(rb"There are " + SIZE + rb" free")
_RESERVABLE = re.compile(rb"reserved, and " + SIZE + rb" reservable")
_EXCEEDS = re.compile(rb"Allocation \(size=(\d{1,19})\) would exceed memory \(size=(\d{1,19})\)")
_CAPACITY = re.compile(rb"\s*HBM capacity " + SIZE)
_ALLOCATED = re.compile(rb"\s*Currently allocated:\s+" + SIZE)
_PART = re.compile(rb"\s+(arguments|global|HLO temp|output|heap allocations[^\d]{0,40}?)\s+" + SIZE)
_DETAIL = re.compile(
    rb"\s*(?:\Z|;|Total hbm usage|Output size|Program \w+ requirement|Largest program allocations|Heap allocator|"
    rb"Persistent allocations|reserved|program\b|scoped|overlays|stack|Max free chunk|Top-of-Memory|Available after|"
    rb"Program requirement|-{5,}|\s{2,})"
)
_EXPANSION = re.compile(rb"\s+Extra memory due to padding: [\d.]{1,20}[KMGT]?B? \((\d{1,9}(?:\.\d{1,3})?)x expansion\)")


_CORES = re.compile(
    rb"TensorCore Hbm usage: " + SIZE + rb", SparseCore Hbm usage:? " + SIZE + rb", exceeding available bytes: " + SIZE
)
SPARSE_CORE_PART = "the SparseCore's, with the tables of embeddings"


def read_tpu_error(line: bytes, builder: DumpBuilder) -> bool:
    """Reads the figures of such a message; returns whether the line is one."""
    if space := _SPACE.search(line):
        used = _USED.search(line)
        builder.kind = FailureKind.PROGRAM
        builder.allocator = f"TPU {decode_name(space[1])}"
        if used is not None:
            builder.ask(parse_size(used[1], used[2]))
            builder.limit_bytes = parse_size(used[3], used[4])
        return True
    if reserve := _RESERVE.search(line):
        free, reservable = _FREE.search(line), _RESERVABLE.search(line)
        builder.allocator = "TPU hbm"
        builder.ask(parse_size(reserve[1], reserve[2]))
        builder.stated_free_bytes = parse_size(free[1], free[2]) if free else None
        builder.usable_bytes = parse_size(reservable[1], reservable[2]) if reservable else None
        return True
    if cores := _CORES.search(line):
        dense, sparse = parse_size(cores[1], cores[2]) or 0, parse_size(cores[3], cores[4]) or 0
        builder.kind, builder.allocator = FailureKind.PROGRAM, "TPU hbm"
        builder.ask(dense + sparse)
        builder.limit_bytes = parse_size(cores[5], cores[6])
        builder.parts = {"the TensorCore's": dense, SPARSE_CORE_PART: sparse}
        return True
    if exceeds := _EXCEEDS.search(line):
        builder.kind, builder.allocator = FailureKind.PROGRAM, "TPU"
        builder.ask(parse_size(exceeds[1]))
        builder.limit_bytes = parse_size(exceeds[2])
        return True
    return False


def read_tpu_detail(builder: DumpBuilder, line: bytes) -> bool:
    """Reads a line that follows: sums, and the largest allocations."""
    if capacity := _CAPACITY.match(line):
        builder.stats["Limit"] = parse_size(capacity[1], capacity[2]) or 0
    elif allocated := _ALLOCATED.match(line):
        builder.stats["InUse"] = parse_size(allocated[1], allocated[2]) or 0
    elif part := _PART.match(line):
        bytes_ = parse_size(part[2], part[3])
        if part[1] in PROGRAM_PART_LABELS and bytes_:
            builder.parts[PROGRAM_PART_LABELS[part[1]]] = bytes_
    elif expansion := _EXPANSION.match(line):
        builder.expansions[builder.newest_op] = float(expansion[1])
    else:
        return read_buffer_line(builder, line) or _DETAIL.match(line) is not None
    return True


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
