"""XLA's messages about a TPU's memory: a program that does not fit, a reservation that failed."""

from __future__ import annotations

import re

from slowtrain.model.exhaustion import FailureKind
from slowtrain.oom.messages import xla_errors
from slowtrain.oom.messages.dump_builder import DumpBuilder
from slowtrain.oom.text.byte_sizes import SIZE, decode_name, parse_size

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
        builder.told_free_bytes = parse_size(free[1], free[2]) if free else None
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
        if part[1] in xla_errors.PROGRAM_PART_LABELS and bytes_:
            builder.parts[xla_errors.PROGRAM_PART_LABELS[part[1]]] = bytes_
    elif expansion := _EXPANSION.match(line):
        builder.expansions[builder.newest_op] = float(expansion[1])
    else:
        return xla_errors.read_buffer_line(builder, line) or _DETAIL.match(line) is not None
    return True
