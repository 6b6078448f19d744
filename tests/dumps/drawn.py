"""Dumps drawn in the words of TensorFlow's versions, as its public issues show them (numbers are ours)."""

from __future__ import annotations

from collections.abc import Sequence

MIB = 1 << 20
LAST = 18446744073709551615
# How versions differ: prefix of a line, a chunk that is in use, the line that names the pool's size.
STYLES = ("0.12", "1.4", "1.14", "2.3", "2.8", "2.15", "2.21")


def prefix(style: str, level: str = "I", thread: int = 77) -> str:
    file = "bfc_allocator.cc:1]"
    if style == "0.12":
        return f"{level} tensorflow/core/common_runtime/{file} "
    if style == "2.21":
        return f"{level}0000 00:00:1795315851.089849   {thread} {file} "
    folder = "external/local_tsl/tsl/framework/" if style == "2.15" else "tensorflow/core/common_runtime/"
    return f"2021-03-15 17:16:57.334891: {level} {folder}{file} "


def size(value: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= scale:
            return f"{value / scale:.2f}{unit}"
    return f"{value}B"


def chunk(style: str, at: int, bytes_: int, op: str | None) -> str:
    """``op`` is None for a free chunk."""
    if style in ("0.12", "1.4"):
        return f"{'Chunk' if op is not None else 'Free '} at {hex(at)} of size {bytes_}"
    word = "InUse" if op is not None else "Free "
    if style == "1.14":
        return f"{word} at {hex(at)} next {at % 97} of size {bytes_}"
    made = f" by op {op or 'UNUSED'} action_count {at % 1000} step 12" if style == "2.3" else ""
    return f"{word} at {at:x} of size {bytes_}{made} next {LAST}"


def dump(
    style: str,
    chunks: Sequence[tuple[int, str | None]],
    asked: int,
    *,
    allocator: str = "GPU_0_bfc",
    limit: int | None = None,
    op: str = "model/dense/MatMul",
    thread: int = 77,
) -> list[str]:
    """A whole dump of one region; ``chunks`` are bytes and op, in their order."""
    pool = sum(b for b, _ in chunks)
    used = sum(b for b, o in chunks if o is not None)
    limit = pool if limit is None else limit
    line, warning = prefix(style, "I", thread), prefix(style, "W", thread)
    old = style in ("0.12", "1.4", "1.14")
    by = "" if old else f" (rounded to {asked})" + f"requested by op {op}"
    found = [f"{warning}Allocator ({allocator}) ran out of memory trying to allocate {size(asked)}{by}"]
    if not old:
        found += ["Current allocation summary follows."]
        found += [f"{line}BFCAllocator dump for {allocator}"]
    found += [f"{line}Bin (256): \tTotal Chunks: 0, Chunks in use: 0. 0B allocated for chunks. 0B in use in bin."]
    found += [f"{line}Bin for {size(asked)} was 256.00MiB, Chunk State: ", f"{line}Next region of size {pool}"]
    at = 0x10216400000
    for bytes_, made in chunks:
        found.append(line + chunk(style, at, bytes_, made))
        at += bytes_
    found.append(f"{line}     Summary of in-use Chunks by size: ")
    sizes: dict[int, int] = {}
    for bytes_, made in chunks:
        if made is not None:
            sizes[bytes_] = sizes.get(bytes_, 0) + 1
    found += [f"{line}{n} Chunks of size {s} totalling {size(n * s)}" for s, n in sorted(sizes.items())]
    found.append(f"{line}Sum Total of in-use chunks: {size(used)}")
    if style in ("2.3", "2.8", "2.15"):
        called = "Total bytes in pool" if style == "2.15" else "total_region_allocated_bytes_"
        rest = f"memory_limit_: {limit} available bytes: {limit - pool} curr_region_allocation_bytes_: {2 * limit}"
        found.append(f"{line}{called}: {pool} {rest}")
    found.append(f"{line}Stats: ")
    told = str if style != "2.21" else size
    found += [f"Limit:   {told(limit)}", f"InUse:   {told(used)}", f"MaxInUse:    {told(used)}", "NumAllocs:     9", ""]
    return [*found, warning + "*" * 60 + "_" * 40]


def error(style: str, shape: str, *, allocator: str = "GPU_0_bfc", op: str = "model/dense/MatMul") -> list[str]:
    where = f"on /job:localhost/replica:0/task:0/device:GPU:0 by allocator {allocator}"
    said = f"OOM when allocating tensor with shape[{shape}] and type float {where}"
    return [
        "Traceback (most recent call last):",
        '  File "train.py", line 41, in <module>',
        '  File "/usr/lib/python3.11/site-packages/keras/src/utils/traceback_utils.py", line 122, in error_handler',
        f"tensorflow.python.framework.errors_impl.ResourceExhaustedError: {said}",
        f"\t [[{{{{node {op}}}}}]]" if style[0] == "2" else f"\t [[Node: {op} = MatMul[T=DT_FLOAT]]]",
    ]


FULL = [(100 * MIB, "model/dense/MatMul"), (60 * MIB, "model/dense/Relu"), (10 * MIB, None), (60 * MIB, "Adam/mul")]
PIECES = [(30 * MIB, "a"), (40 * MIB, None), (30 * MIB, "a"), (44 * MIB, None), (30 * MIB, "b")]
