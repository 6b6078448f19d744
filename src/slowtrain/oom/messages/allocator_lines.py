"""Patterns for messages of allocators and frameworks about exhausted memory. Versions differ, so all are in one place.

Covers TensorFlow 0.7 to 2.21 and JAX (bfc_allocator.cc), and their CUDA pool (gpu_cudamallocasync_allocator.cc). The
messages of others are in ``xla_errors``, ``tpu_errors``, ``torch_errors``, ``library_failures`` and ``host_memory``.
Every repetition is bounded, because a line may contain anything.
"""

from __future__ import annotations

import re
from dataclasses import replace

from slowtrain.oom.messages import xla_errors
from slowtrain.oom.messages.dump_builder import DumpBuilder
from slowtrain.oom.text.byte_sizes import SIZE, parse_size

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
        builder.largest_told_bytes = max(builder.largest_told_bytes or 0, parse_size(piece[1], piece[2]) or 0)
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
        xla_errors.read_allocator_summary(builder, text)


def read_statistic(builder: DumpBuilder, line: bytes) -> bool:
    """Reads a line of the allocator's statistics; returns whether it is one, or empty."""
    found = STAT.match(line)
    if found is None:
        return not line.strip()
    value = parse_size(found[2], found[3] or b"")
    if value is not None:
        builder.stats[found[1].decode()] = value
    return True
