"""A log's lines in order: dumps are put together by rank and thread, errors joined to the dump they belong to."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from slowtrain.dumps import lines, purpose, saying, xla
from slowtrain.dumps.building import Builder, Key, Rank, known, owner, size
from slowtrain.model import Place
from slowtrain.model.exhaustion import Dump, Request

MOST_RANKS = 4096
MOST_THREADS = 64  # of a rank with a dump under way
MOST_DUMPS = 200  # of different kinds
# One of these a block must hold to be looked at line by line, while nothing is under way. Looking for each by itself is
# several times as fast as for all with one pattern.
WORDS = (
    b"bfc_allocator", b"ut of memory", b"OOM when", b"OUT_OF_MEMORY", b"xhausted", b"EXHAUSTED", b"cudamallocasync",
    b"Traceback", b"Current usage from device", b"MemAlloc", b"XLA backend", b"rematerialization",
)  # fmt: skip
BLOCK = 1 << 20
# Lists that XLA writes, one line after another.
_BUFFERS = {"buffers": xla.buffer, "parts": xla.part}


class Reader:
    """Is given the log block by block; memory does not grow with it.

    ``dumps`` holds one of each kind (rank, allocator, op, size), with the times that it came again.
    """

    def __init__(self) -> None:
        self.dumps: dict[Key, Dump] = {}
        self.count = 0
        self.retries: dict[str, int] = {}
        self.retried_bytes: dict[str, int] = {}  # the most that one of these asked for
        self.jax: set[str] = set()  # ranks in whose lines JAX speaks
        self.raised = False  # XLA's error stands in the log, and not the dump alone
        self.programs: dict[str, tuple[int, int]] = {}  # by rank: bytes that a program needs, and that it may have
        self.refusals = 0
        self.lines = 0
        self.bytes = 0
        self.mixed = 0
        self._ranks: dict[str, Rank] = {}
        self._rest = b""
        self._busy = 0  # blocks to look at although no word of ours is in them

    def feed(self, block: bytes) -> None:
        self.bytes += len(block)
        data = self._rest + block
        whole, self._rest = lines.split(data)
        if not whole:
            return
        # A quick look, at C's speed, past what is no allocator's: most of a log.
        if not self._busy and not any(word in data for word in WORDS):
            self.lines += len(whole)
            return
        for line in whole:
            self.lines += 1
            if line:
                self._line(line)
        self._busy = max(self._busy - 1, 0)

    def close(self) -> None:
        """The log ends here, maybe in the midst of a dump."""
        if self._rest:
            self.lines += 1
            self._line(self._rest)
            self._rest = b""
        for rank in list(self._ranks.values()):
            for thread in list(rank.open):
                self._end(rank, thread)

    # -- a line

    def _line(self, raw: bytes) -> None:
        quick = saying.QUICK.match(raw)
        if quick is not None and self._chunk(quick):
            return
        line = lines.plain(raw)
        name, line = lines.unprefixed(line)
        rank = self._ranks.get(name)
        if rank is None:
            if not any(word in line for word in WORDS):
                return
            rank = self._rank(name)
        found = lines.MESSAGE.search(line)
        if found is not None:
            rank.listing = rank.listing if rank.listing == "usage" else ""
            self._message(rank, found, line[found.end() :])
        elif rank.listing:
            self._continued(rank, line)
        else:
            self._written(rank, line)

    def _chunk(self, found: re.Match[bytes]) -> bool:
        """A chunk of a dump that is open, from a line that nothing stands around: nearly all lines of a dump."""
        rank = self._ranks.get("")
        builder = rank.open.get((found[1] or b"").decode()) if rank is not None else None
        if builder is None:
            return False
        builder.chunk(found[2] != b"Free ", int(found[3]))
        return True

    def _rank(self, name: str) -> Rank:
        if len(self._ranks) >= MOST_RANKS:
            name = ""
        return self._ranks.setdefault(name, Rank(name))

    def _message(self, rank: Rank, found: re.Match[bytes], text: bytes) -> None:
        """What TensorFlow's own logging wrote."""
        file, thread = found["file"], (found["thread"] or b"").decode()
        self._busy = 2  # what belongs to it may stand in the next block
        if file.endswith(b"bfc_allocator.cc"):
            self._allocator(rank, thread, text)
        elif b"cudamallocasync" in file:
            self._asynchronous(rank, thread, text)
        elif b"OOM when" in text:
            self._error(rank, text)
        elif b"OUT_OF_MEMORY" in text and b"lloc" in text:
            self.refusals += 1
        elif xla.BACKEND.match(text):
            self.jax.add(rank.name)
        elif program := xla.program(text):
            self.programs[rank.name] = max(program, self.programs.get(rank.name, (0, 0)))
        else:
            self._compiled(rank, text)

    def _allocator(self, rank: Rank, thread: str, text: bytes) -> None:
        builder = rank.open.get(thread)
        chunk = saying.CHUNK.match(text)
        if chunk is not None:
            builder = builder or self._begin(rank, thread, "")
            op = chunk["op"]
            bytes_ = size(chunk["size"] or chunk["size2"] or b"")
            made = xla.made_by(chunk["program"]) if chunk["program"] else saying.name(op) if op else ""
            if chunk["program"]:
                self.jax.add(rank.name)
            if bytes_ is not None:
                builder.chunk(chunk["kind"] != b"Free", bytes_, made)
            return
        asked = saying.ASKED.search(text)
        if asked is not None:
            allocator = saying.name(asked["allocator"])
            if saying.RETRIED in text:
                self.retries[allocator] = self.retries.get(allocator, 0) + 1
                asked_bytes = size(asked["number"], asked["unit"]) or 0
                self.retried_bytes[allocator] = max(self.retried_bytes.get(allocator, 0), asked_bytes)
                return
            builder = self._begin(rank, thread, allocator)
            rounded = size(asked["rounded"]) if asked["rounded"] else None
            builder.request = Request(size(asked["number"], asked["unit"]), rounded, op=saying.name(asked["op"] or b""))
            return
        dump = saying.DUMP.match(text)
        if dump is not None and (builder is None or builder.allocator != saying.name(dump[1])):
            builder = self._begin(rank, thread, saying.name(dump[1]))
        if builder is not None:
            self._part(rank, thread, builder, text)
        elif saying.INSIDE.match(text):  # the log begins in the midst of a dump
            self._part(rank, thread, self._begin(rank, thread, ""), text)

    def _part(self, rank: Rank, thread: str, builder: Builder, text: bytes) -> None:
        """The lines of a dump that are no chunks."""
        if region := saying.REGION.match(text):
            builder.region(size(region[1]) or 0)
        elif bin_ := saying.BIN.match(text):
            builder.bins += 1
            builder.bins_bytes += size(bin_["number"], bin_["unit"]) or 0
        elif wanted := saying.BIN_FOR.match(text):
            if builder.request.bytes is None:
                builder.request = replace(builder.request, bytes=size(wanted[1], wanted[2]))
        elif summed := saying.SUMMED.match(text):
            each = size(summed[2])
            if each and len(builder.sums) < 20_000:
                builder.sums[each] = min(int(summed[1]), 1 << 40)
        elif total := saying.TOTAL.match(text):
            builder.total_bytes = size(total[1], total[2])
        elif pool := saying.POOL.match(text):
            builder.pool_bytes, builder.limit_bytes = size(pool[1]), size(pool[2])
            builder.growth_bytes = size(pool[3])
        elif xla.summary(builder, text):
            return
        elif text.startswith(b"Stats:"):
            rank.told, rank.listing = builder, "stats"
            self._stat(builder, text[6:])
        elif saying.MAP.match(text):
            builder.map = text.strip()
            self._end(rank, thread)

    def _asynchronous(self, rank: Rank, thread: str, text: bytes) -> None:
        """CUDA's own pool (TF_GPU_ALLOCATOR=cuda_malloc_async): no chunks, but what is in use, by size."""
        asked = saying.ASYNC.search(text)
        builder = rank.open.get(thread)
        if asked is not None:
            builder = self._begin(rank, thread, saying.name(asked[1]))
            builder.request = Request(size(asked[2]))
            rank.told, rank.listing = builder, "driver"
        elif builder is not None and text.startswith(b"Stats:"):
            rank.told, rank.listing = builder, "stats"
            self._stat(builder, text[6:])
        elif builder is not None and (row := saying.HISTOGRAM.match(text)):
            builder.sums[size(row[1]) or 0] = min(int(row[2]), 1 << 40)

    # -- lines without a prefix of their own

    def _continued(self, rank: Rank, line: bytes) -> None:
        builder = rank.told
        if builder is None:
            rank.listing = ""
        elif rank.listing == "driver":
            free = saying.DRIVER_FREE.search(line)
            if free is not None:
                builder.driver_free_bytes, builder.limit_bytes = size(free[1]), size(free[2])
                rank.listing = ""
                return
        elif rank.listing == "stats" and self._stat(builder, line):
            return
        elif rank.listing == "usage" and (used := saying.USED.match(line)):
            builder.made(saying.name(used[3]), size(used[1], used[2]) or 0)
            return
        elif rank.listing == "usage" and (left := saying.REMAINING.match(line)):
            builder.made("all others", size(left[2], left[3]) or 0, int(left[1]))
            return
        elif rank.listing in _BUFFERS and _BUFFERS[rank.listing](builder, line):
            return
        if line.strip():
            rank.listing = ""
        self._written(rank, line)

    def _stat(self, builder: Builder, line: bytes) -> bool:
        found = saying.STAT.match(line)
        if found is None:
            return not line.strip()
        value = size(found[2], found[3] or b"")
        if value is not None:
            builder.stats[found[1].decode()] = value
        return True

    def _written(self, rank: Rank, line: bytes) -> None:
        """What Python and other frameworks wrote."""
        if b'File "' in line and rank.tracing:
            self._frame(rank, line)
        elif b"most recent call last" in line:
            rank.tracing, self._busy = True, 2
            if named := saying.DETECTED.search(line):
                rank.node = saying.name(named[1])
            else:
                rank.place, rank.within, rank.node = None, None, ""
        elif b"OOM when allocating" in line:
            self._error(rank, line)
        elif b"{{node" in line or b"[[node" in line or b"[[Node:" in line:
            self._node(rank, line)
        elif b"Current usage from device" in line:
            self._usage(rank, line)
        elif b"CUDA out of memory" in line:
            self._torch(rank, line)
        elif b"Peak buffers" in line and rank.last is not None:
            self._buffers(rank, "buffers")
        elif b"BufferAssignment stats" in line and rank.last is not None:
            self._buffers(rank, "parts")
        else:
            self._compiled(rank, line)

    def _frame(self, rank: Rank, line: bytes) -> None:
        found = saying.FRAME.search(line)
        if found is None:
            return
        if saying.LIBRARY.search(found[1]):
            rank.within = purpose.of_frame(found[1], found[3] or b"") or rank.within
        else:
            rank.place = Place(saying.name(found[1]), int(found[2]))

    def _error(self, rank: Rank, line: bytes) -> None:
        """The error that an op raised: it names shape, type, device and allocator."""
        found = saying.OOM.search(line)
        if found is None:
            return
        self._busy = 2
        allocator = saying.name(found["allocator"] or b"")
        shape = saying.shape(found["shape"])
        about: dict[str, Any] = {
            "shape": shape,
            "dtype": saying.name(found["dtype"] or b""),
            "device": saying.name(found["device"] or b""),
        }
        op = saying.OP.search(line)
        python = b"Error" in line or rank.tracing
        about |= {"op": saying.name(op[1]) if op else rank.node}
        if python:
            about |= {"place": rank.place, "within": rank.within}
        for thread in list(rank.open):
            self._end(rank, thread)
        key = owner(self.dumps, Request(shape=shape, op=str(about["op"])), rank.name, allocator)
        if key is None:
            needed = saying.bytes_of(shape, str(about["dtype"]))
            one = Builder(allocator, self.lines, rank.name, Request(needed))
            key = self._keep(rank, one.dump())
        self.dumps[key] = known(self.dumps[key], **about)
        rank.last = key
        if python:
            rank.tracing, rank.place, rank.within, rank.node = False, None, None, ""

    def _node(self, rank: Rank, line: bytes) -> None:
        found = saying.NODE.search(line)
        if found is not None and rank.last is not None and rank.last in self.dumps:
            self.dumps[rank.last] = known(self.dumps[rank.last], op=saying.name(found[1] or found[2]))

    def _usage(self, rank: Rank, line: bytes) -> None:
        found = saying.USAGE.search(line)
        if rank.last is None or rank.last not in self.dumps or found is None:
            return
        builder = Builder(saying.name(found[1]), self.lines, rank.name)
        rank.told, rank.listing = builder, "usage"
        rank.open["usage"] = builder

    def _buffers(self, rank: Rank, listing: str) -> None:
        builder = Builder("", self.lines, rank.name)
        rank.told, rank.listing = builder, listing
        rank.open["buffers"] = builder
        self._busy = 2

    def _torch(self, rank: Rank, line: bytes) -> None:
        found = saying.torch(line)
        if found is None:
            return
        request = Request(found.pop("asked"), place=rank.place, within=rank.within)
        one = Builder("PyTorch's caching allocator", self.lines, rank.name, request)
        one.limit_bytes, one.driver_free_bytes = found.get("limit"), found.get("free")
        one.total_bytes, one.pool_bytes = found.get("in_use"), found.get("pool")
        one.growth_bytes = found.get("free")
        self._keep(rank, one.dump())

    def _compiled(self, rank: Rank, line: bytes) -> None:
        """XLA's own error; where the allocator's dump came before it, they are one."""
        said, asked = xla.asked(line)
        if not said:
            return
        self.raised = True
        if xla.ERROR.search(line):
            self.jax.add(rank.name)
        for thread in list(rank.open):
            self._end(rank, thread)
        for key in reversed(self.dumps):
            known_bytes = self.dumps[key].request.needed
            if self.dumps[key].rank == rank.name:
                if known_bytes is not None and asked is not None and abs(known_bytes - asked) <= 0.01 * asked:
                    self.dumps[key] = known(self.dumps[key], place=rank.place, within=rank.within)
                    rank.last = key
                    return
                break
        request = Request(asked, place=rank.place, within=rank.within)
        self._keep(rank, Builder("XLA", self.lines, rank.name, request).dump())

    # -- dumps

    def _begin(self, rank: Rank, thread: str, allocator: str) -> Builder:
        if thread in rank.open:
            self._end(rank, thread)
        if len(rank.open) >= MOST_THREADS:
            self._end(rank, next(iter(rank.open)))
        builder = rank.open[thread] = Builder(allocator, self.lines, rank.name)
        self._busy = 2
        return builder

    def _end(self, rank: Rank, thread: str) -> None:
        builder = rank.open.pop(thread)
        if rank.told is builder:
            rank.told, rank.listing = None, ""
        if thread in ("usage", "buffers"):
            if rank.last is not None and rank.last in self.dumps and builder.ops:
                self.dumps[rank.last] = replace(self.dumps[rank.last], by_op=builder.dump().by_op)
            return
        dump = builder.dump()
        if dump.request.needed is None and dump.in_use_bytes is None:
            return  # a line or two of one
        self.mixed += builder.listed and not dump.whole
        self._keep(rank, dump)

    def _keep(self, rank: Rank, dump: Dump) -> Key:
        self.count += 1
        key = (rank.name, dump.allocator, dump.request.needed, dump.request.op)
        if key in self.dumps:
            self.dumps[key] = replace(self.dumps[key], repeats=self.dumps[key].repeats + 1)
        else:
            if len(self.dumps) >= MOST_DUMPS:
                self.dumps.pop(next(reversed(self.dumps)))
            self.dumps[key] = dump
        rank.last = key
        return key
