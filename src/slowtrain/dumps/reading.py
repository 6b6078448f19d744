"""Reads a log's lines in order, assembles dumps by rank and thread, and joins errors to their dumps."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from slowtrain.dumps import card, killing, libraries, lines, saying, singles, torch, tpu, tracebacks, xla
from slowtrain.dumps.building import Builder, Rank, known, made_at, owner, same_op
from slowtrain.dumps.underway import Underway
from slowtrain.dumps.units import bytes_of, dimensions, name, size
from slowtrain.model.exhaustion import Kind, Request

MOST_RANKS = 4096
MOST_WRAPPED = 8  # into which PyTorch's sentence may be broken
# A block is read line by line only if it contains one of these, or if a dump is open. Searching for each separately is
# several times faster than one pattern for all.
WORDS = (
    b"alloc", b"emory", b"OOM", b"oom", b"OUT_OF_MEMORY", b"xhausted", b"EXHAUSTED", b"Traceback", b"XLA backend",
    b"not initialized", b"ALLOC_FAILED", b"_STATUS_", b"DNN library", b"algorithm", b"illed", b"xit", b"SIGKILL",
    b"Found device", b"paging file", b" RAM", b"launch failed", b"BLAS support", b"ThenRnn", b"MIOpen",
)  # fmt: skip
BLOCK = 1 << 20
# Lists that XLA prints, one line after another.
_BUFFERS = {"buffers": xla.buffer, "parts": xla.part, "hbm": tpu.detail}
_FRAMES = (b'File "', b".py", b" In", b"In [", b"<ipython", b"-> ")


class Reader(Underway):
    """Receives the log block by block; its memory does not grow with the log."""

    def __init__(self) -> None:
        super().__init__()
        self.raised = False  # the log contains XLA's error, not only the dump
        self.programs: dict[str, tuple[int, int]] = {}  # by rank: bytes that a program needs, and its limit
        self.refusals = 0
        self.host_refusals = 0
        self.unified_refusals = 0
        self.most_refused_bytes = 0  # of the device, of the host, or of both
        self.bytes = 0
        self._ranks: dict[str, Rank] = {}
        self._rest = b""

    def feed(self, block: bytes) -> None:
        self.bytes += len(block)
        data = self._rest + block
        whole, self._rest = lines.split(data)
        if not whole:
            return
        # Skips blocks without allocator messages, at the speed of C: most of a log.
        if not self.busy and not any(word in data for word in WORDS):
            self.lines += len(whole)
            return
        for line in whole:
            self.lines += 1
            if line:
                self._line(line)
        self.busy = max(self.busy - 1, 0)

    def close(self) -> None:
        """Ends the log, possibly in the middle of a dump."""
        if self._rest:
            self.lines += 1
            self._line(self._rest)
            self._rest = b""
        for rank in list(self._ranks.values()):
            for thread in list(rank.open):
                self.end(rank, thread)
            self.finish(rank)

    @property
    def refused_bytes(self) -> int:
        return max((rank.refused_bytes for rank in self._ranks.values()), default=0)

    # -- a line

    def _line(self, raw: bytes) -> None:
        quick = saying.QUICK.match(raw)
        if quick is not None and self._chunk(quick):
            return
        line = lines.plain(raw)
        whose, line = lines.unprefixed(line)
        rank = self._ranks.get(whose)
        if rank is None:
            if not any(word in line for word in WORDS):
                return
            rank = self._rank(whose)
        found = lines.MESSAGE.search(line)
        if found is not None and found["file"] == b"xla_util.cc":  # a text of many lines, each with this prefix
            line, found = line[found.end() :], None
        if found is not None:
            rank.listing = rank.listing if rank.listing == "usage" else ""
            self._message(rank, found, line[found.end() :])
        elif rank.listing:
            self._continued(rank, line)
        else:
            self._written(rank, line)

    def _chunk(self, found: re.Match[bytes]) -> bool:
        """Reads a chunk of an open dump from a line without prefix; nearly all lines of a dump are such lines."""
        rank = self._ranks.get("")
        builder = rank.open.get((found[1] or b"").decode()) if rank is not None else None
        if builder is None:
            return False
        builder.chunk(found[2] != b"Free ", int(found[3]))
        return True

    def _rank(self, whose: str) -> Rank:
        if len(self._ranks) >= MOST_RANKS:
            whose = ""
        return self._ranks.setdefault(whose, Rank(whose))

    def _message(self, rank: Rank, found: re.Match[bytes], text: bytes) -> None:
        """Reads a message of TensorFlow's own logging."""
        file, thread = found["file"], (found["thread"] or b"").decode()
        self.busy = 2  # the next block may contain lines that belong to it
        if file.endswith(b"bfc_allocator.cc"):
            self.allocator(rank, thread, text)
        elif b"cudamallocasync" in file:
            self.asynchronous(rank, thread, text)
        elif b"OOM when" in text:
            self._error(rank, text)
        else:
            self._said(rank, text, python=False)

    def _said(self, rank: Rank, text: bytes, *, python: bool) -> None:
        """Reads a line that is meaningful by itself: about the card, the driver, or a failure."""
        if b"emory" in text or b"Found device" in text or b"XLA backend" in text:
            rank.card = card.learn(rank.cards, rank.card, text)
            rank.kill_limit_bytes = killing.limit(text) or rank.kill_limit_bytes
        if xla.BACKEND in text:
            self.jax.add(rank.name)
        elif (b"OUT_OF_MEMORY" in text or b"hipError" in text) and (refused := libraries.REFUSED.search(text)):
            self.refusals += 1
            self.most_refused_bytes = max(self.most_refused_bytes, size(refused[1]) or 0)
            if refused[2] == b"on host":
                self.host_refusals += 1
            elif refused[2] == b"unified memory":
                self.unified_refusals += 1
            else:
                rank.refused_bytes = max(rank.refused_bytes, size(refused[1]) or 0)
        elif b"OUT_OF_MEMORY" in text and b"lloc" in text:
            self.refusals += 1
        elif large := killing.LARGE.search(text):
            rank.host_bytes = max(rank.host_bytes, size(large[1]) or 0)
        elif libraries.MISMATCH.search(text):
            rank.mismatch = True
        elif usage := libraries.USAGE.search(text):
            rank.usage = size(usage[1]) or 0, size(usage[2]) or 0
        elif program := xla.program(text):
            self.programs[rank.name] = max(program, self.programs.get(rank.name, (0, 0)))
        else:
            self._single(rank, text, python=python)

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
        elif rank.listing == "stats" and saying.statistic(builder, line):
            return
        elif rank.listing == "usage" and (used := saying.USED.match(line)):
            builder.made(name(used[3]), size(used[1], used[2]) or 0)
            return
        elif rank.listing == "usage" and (left := saying.REMAINING.match(line)):
            builder.made("all others", size(left[2], left[3]) or 0, int(left[1]))
            return
        elif rank.listing == "wrapped" and self._rejoined(rank, line):
            return
        elif rank.listing in _BUFFERS and _BUFFERS[rank.listing](builder, line):
            if xla.OF_JAX in line:
                self.jax.add(rank.name)
            return
        if line.strip():
            rank.listing = ""
        self._written(rank, line)

    def _written(self, rank: Rank, line: bytes) -> None:
        """Reads a line that Python or another framework wrote."""
        if rank.trail.tracing and any(word in line for word in _FRAMES) and rank.trail.frame(line):
            place = rank.trail.place
            if rank.defines in self.dumps and place is not None:
                self.dumps[rank.defines] = made_at(self.dumps[rank.defines], place, rank.ran)
        elif b"most recent call last" in line:
            self._traceback(rank, line)
        elif (b"defined at" in line or b"Original stack" in line) and (made := tracebacks.DEFINED.search(line)):
            self._defined(rank, name(made[1] or made[2]))
        elif b"OOM when allocating" in line:
            self._error(rank, line)
        elif b"Dst tensor is not initialized" in line or saying.UNSIZED.search(line):
            self._copy(rank, line)
        elif b"{{node" in line or b"[[node" in line or b"[[Node:" in line:
            self._node(rank, line)
        elif b"Current usage from device" in line:
            self._usage(rank, line)
        elif rank.last is not None and (b"Peak buffers" in line or b"BufferAssignment stats" in line):
            self._buffers(rank, "buffers" if b"Peak" in line else "parts")
        else:
            self._said(rank, line, python=True)

    def _traceback(self, rank: Rank, line: bytes) -> None:
        self.busy = 2
        if named := tracebacks.DETECTED.search(line):
            rank.trail.tracing, rank.trail.node = True, name(named[1])
        else:
            rank.trail.begin()
            rank.defines = None

    def _defined(self, rank: Rank, op: str) -> None:
        """The following frames defined an op: that of the previous failure, or of one whose error comes after them."""
        rank.trail.begin()
        rank.trail.node = op
        dump = self.newest(rank)
        rank.defines = None
        if dump is not None and dump.kind is not Kind.KILL:
            rank.defines, rank.ran = rank.last, dump.request
        self.learn(rank, op=op)

    def _copy(self, rank: Rank, line: bytes) -> None:
        """Reads an error without a size, such as a failed copy of a tensor; it belongs to the previous dump, if any."""
        target = saying.COPIED_FOR.search(line) or saying.OP.search(line)
        trail = rank.trail
        op = name(target[1]) if target else trail.node
        for thread in list(rank.open):
            self.end(rank, thread)
        dump = self.newest(rank)
        if dump is None or dump.kind not in (Kind.REQUEST, Kind.COPY) or dump.request.shape:
            kind = Kind.COPY if saying.COPY in line else Kind.REQUEST
            self.keep(rank, Builder("", self.lines, rank.name, Request(op=op), kind=kind).dump())
        self.learn(rank, op=op, place=trail.place, within=trail.within, constant=trail.constant)
        trail.clear()
        if b"[[" in line:
            self._node(rank, line)

    def _error(self, rank: Rank, line: bytes) -> None:
        """Reads an op's error, which names shape, type, device and allocator."""
        found = saying.OOM.search(line)
        if found is None:
            return
        self.busy = 2
        allocator = name(found["allocator"] or b"")
        shape = dimensions(found["shape"])
        about: dict[str, Any] = {
            "shape": shape,
            "dtype": name(found["dtype"] or b""),
            "device": name(found["device"] or b""),
        }
        op = saying.OP.search(line)
        trail = rank.trail
        python = b"Error" in line or trail.tracing
        about |= {"op": name(op[1]) if op else trail.node}
        if python:
            about |= {"place": trail.place, "within": trail.within, "constant": trail.constant}
        for thread in list(rank.open):
            self.end(rank, thread)
        key = owner(self.dumps, Request(shape=shape, op=str(about["op"])), rank.name, allocator)
        if key is None:
            needed = bytes_of(shape, str(about["dtype"]))
            one = Builder(allocator, self.lines, rank.name, Request(needed))
            key = self.keep(rank, one.dump())
        self.dumps[key] = known(self.dumps[key], **about)
        rank.last = key
        if python:
            trail.clear()
            rank.defines = None

    def _node(self, rank: Rank, line: bytes) -> None:
        found = saying.NODE.search(line)
        if found is None:
            return
        op = name(found[1] or found[2])
        self.learn(rank, op=op)
        if copied := saying.COPIED.search(line):
            self._copied(rank, name(copied["dtype"]), dimensions(copied["shape"]))
        place = tracebacks.inline(line) if b"defined at" in line else None
        dump = self.newest(rank)
        if dump is not None and dump.request.shape and (typed := saying.TYPE.search(line)):
            dtype = name(typed[1]).lower()
            self.learn(rank, dtype=dtype, bytes=bytes_of(dump.request.shape, dtype))
            dump = self.newest(rank)
        if dump is not None and not same_op(dump.request.op, op):
            return  # a node that waits for the failed one
        if place is not None and dump is not None and rank.last is not None:
            self.dumps[rank.last] = made_at(dump, place)

    def _copied(self, rank: Rank, dtype: str, shape: tuple[int, ...] | None) -> None:
        """Sets the size of the constant whose copy failed, from the graph's text."""
        dump = self.newest(rank)
        if dump is not None and dump.kind is Kind.COPY and dump.request.shape is None:
            self.learn(rank, shape=shape, dtype=dtype, bytes=bytes_of(shape, dtype))

    def _usage(self, rank: Rank, line: bytes) -> None:
        found = saying.USAGE.search(line)
        if rank.last is None or rank.last not in self.dumps or found is None:
            return
        builder = Builder(name(found[1]), self.lines, rank.name)
        rank.told, rank.listing = builder, "usage"
        rank.open["usage"] = builder

    def _buffers(self, rank: Rank, listing: str) -> None:
        builder = rank.open.get("buffers") or Builder("", self.lines, rank.name)
        rank.told, rank.listing = builder, listing
        rank.open["buffers"] = builder
        self.busy = 2

    def _single(self, rank: Rank, line: bytes, *, python: bool) -> None:
        """Reads a failure that is described in a single line."""
        line, rank.begun = (rank.begun.rstrip() + b" " + line if rank.begun else line), b""
        builder = singles.read(line, self.lines, rank.name)
        if builder is None:
            rank.begun = line if saying.BEGUN.search(line) else b""
            return
        self.busy = 2
        if b"XlaRuntimeError" in line or b"JaxRuntimeError" in line or b"jax.errors." in line:
            self.jax.add(rank.name)
        if builder.kind is Kind.KILL:
            self.keep(rank, builder.dump())
            return
        self.raised |= builder.allocator.startswith(("XLA", "TPU"))
        trail = rank.trail
        if python and (trail.tracing or builder.kind is not Kind.LIBRARY):
            about: dict[str, Any] = {"place": trail.place, "within": trail.within, "constant": trail.constant}
            about["constant"] |= builder.request.constant
            builder.request = replace(builder.request, **about)
        for thread in list(rank.open):
            self.end(rank, thread)
        if builder.request.needed is None and builder.allocator.startswith("TPU "):
            self.corrected(rank, builder)
        if not self.told_before(rank, builder):
            self.keep(rank, builder.dump())
        if builder.allocator.startswith("TPU"):
            self._buffers(rank, "hbm")
        elif builder.allocator == torch.ALLOCATOR and builder.limit_bytes is None:
            rank.told, rank.listing, rank.wrapped = builder, "wrapped", [line]

    def _rejoined(self, rank: Rank, line: bytes) -> bool:
        """Joins PyTorch's message, which an editor or a page broke into lines; whether ``line`` is a part of it."""
        if len(rank.wrapped) >= MOST_WRAPPED or torch.FIGURE.search(line) is None:
            return False
        rank.wrapped.append(line)
        builder = Builder("", self.lines, rank.name)
        old = self.newest(rank)
        if old is not None and torch.read(b" ".join(rank.wrapped), builder) and rank.last is not None:
            new = builder.dump()
            request = replace(old.request, bytes=new.request.bytes)
            self.dumps[rank.last] = replace(new, line=old.line, request=request, repeats=old.repeats)
        return True
