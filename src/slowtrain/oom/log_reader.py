"""Reads a log's lines in order, assembles dumps by rank and thread, and joins errors to their dumps."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from slowtrain.oom import device_messages, dump_builder, failure_list, host_messages, log_text
from slowtrain.oom.dump_builder import DumpBuilder, LogRank, find_owner, is_same_op, with_origin, with_request_facts
from slowtrain.oom.failure_list import OpenDumps
from slowtrain.oom.log_text import decode_name, parse_dimensions, parse_size, tensor_bytes
from slowtrain.shared.exhaustion import FailureKind, MemoryRequest

MAX_RANKS = 4096
MAX_WRAPPED_LINES = 8  # into which PyTorch's sentence may be broken
# A block is read line by line only if it contains one of these, or if a dump is open. Searching for each separately is
# several times faster than one pattern for all.
BLOCK_WORDS = (
    b"alloc", b"emory", b"OOM", b"oom", b"OUT_OF_MEMORY", b"xhausted", b"EXHAUSTED", b"Traceback", b"XLA backend",
    b"not initialized", b"ALLOC_FAILED", b"_STATUS_", b"DNN library", b"algorithm", b"illed", b"xit", b"SIGKILL",
    b"Found device", b"paging file", b" RAM", b"launch failed", b"BLAS support", b"ThenRnn", b"MIOpen",
)  # fmt: skip
LOG_BLOCK_BYTES = 1 << 20
# Lists that XLA prints, one line after another.
_LIST_READERS = {
    "buffers": device_messages.read_buffer_line,
    "parts": device_messages.read_program_sum,
    "hbm": device_messages.read_tpu_detail,
}
_FRAME_MARKS = (b'File "', b".py", b" In", b"In [", b"<ipython", b"-> ")


class LogReader(OpenDumps):
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
        self._ranks: dict[str, LogRank] = {}
        self._rest = b""

    def feed(self, block: bytes) -> None:
        self.bytes += len(block)
        data = self._rest + block
        whole, self._rest = log_text.split_lines(data)
        if not whole:
            return
        # Skips blocks without allocator messages, at the speed of C: most of a log.
        if not self.busy and not any(word in data for word in BLOCK_WORDS):
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
        quick = device_messages.QUICK.match(raw)
        if quick is not None and self._read_bare_chunk(quick):
            return
        line = log_text.strip_terminal_codes(raw)
        whose, line = log_text.split_rank_prefix(line)
        rank = self._ranks.get(whose)
        if rank is None:
            if not any(word in line for word in BLOCK_WORDS):
                return
            rank = self._find_rank(whose)
        found = log_text.MESSAGE_PATTERN.search(line)
        if found is not None and found["file"] == b"xla_util.cc":  # a text of many lines, each with this prefix
            line, found = line[found.end() :], None
        if found is not None:
            rank.listing = rank.listing if rank.listing == "usage" else ""
            self._message(rank, found, line[found.end() :])
        elif rank.listing:
            self._read_continuation(rank, line)
        else:
            self._read_foreign_line(rank, line)

    def _read_bare_chunk(self, found: re.Match[bytes]) -> bool:
        """Reads a chunk of an open dump from a line without prefix; nearly all lines of a dump are such lines."""
        rank = self._ranks.get("")
        builder = rank.open.get((found[1] or b"").decode()) if rank is not None else None
        if builder is None:
            return False
        builder.add_chunk(found[2] != b"Free ", int(found[3]))
        return True

    def _find_rank(self, whose: str) -> LogRank:
        if len(self._ranks) >= MAX_RANKS:
            whose = ""
        return self._ranks.setdefault(whose, LogRank(whose))

    def _message(self, rank: LogRank, found: re.Match[bytes], text: bytes) -> None:
        """Reads a message of TensorFlow's own logging."""
        file, thread = found["file"], (found["thread"] or b"").decode()
        self.busy = 2  # the next block may contain lines that belong to it
        if file.endswith(b"bfc_allocator.cc"):
            self.allocator(rank, thread, text)
        elif b"cudamallocasync" in file:
            self.asynchronous(rank, thread, text)
        elif b"OOM when" in text:
            self._read_op_error(rank, text)
        else:
            self._read_statement(rank, text, python=False)

    def _read_statement(self, rank: LogRank, text: bytes, *, python: bool) -> None:
        """Reads a line that is meaningful by itself: about the card, the driver, or a failure."""
        if b"emory" in text or b"Found device" in text or b"XLA backend" in text:
            rank.card = dump_builder.read_device_line(rank.cards, rank.card, text)
            rank.kill_limit_bytes = host_messages.container_limit_bytes(text) or rank.kill_limit_bytes
        if device_messages.BACKEND in text:
            self.jax.add(rank.name)
        elif (b"OUT_OF_MEMORY" in text or b"hipError" in text) and (
            refused := host_messages.REFUSED_PATTERN.search(text)
        ):
            self.refusals += 1
            self.most_refused_bytes = max(self.most_refused_bytes, parse_size(refused[1]) or 0)
            if refused[2] == b"on host":
                self.host_refusals += 1
            elif refused[2] == b"unified memory":
                self.unified_refusals += 1
            else:
                rank.refused_bytes = max(rank.refused_bytes, parse_size(refused[1]) or 0)
        elif b"OUT_OF_MEMORY" in text and b"lloc" in text:
            self.refusals += 1
        elif large := host_messages.LARGE_ALLOCATION.search(text):
            rank.host_bytes = max(rank.host_bytes, parse_size(large[1]) or 0)
        elif host_messages.MISMATCH_PATTERN.search(text):
            rank.mismatch = True
        elif usage := host_messages.USAGE_PATTERN.search(text):
            rank.usage = parse_size(usage[1]) or 0, parse_size(usage[2]) or 0
        elif program := device_messages.program_memory(text):
            self.programs[rank.name] = max(program, self.programs.get(rank.name, (0, 0)))
        else:
            self._read_single_line_failure(rank, text, python=python)

    # -- lines without a prefix of their own

    def _read_continuation(self, rank: LogRank, line: bytes) -> None:
        builder = rank.open_dump
        if builder is None:
            rank.listing = ""
        elif rank.listing == "driver":
            free = device_messages.DRIVER_FREE.search(line)
            if free is not None:
                builder.driver_free_bytes, builder.limit_bytes = parse_size(free[1]), parse_size(free[2])
                rank.listing = ""
                return
        elif rank.listing == "stats" and device_messages.read_statistic(builder, line):
            return
        elif rank.listing == "usage" and (used := device_messages.USED.match(line)):
            builder.add_op_memory(decode_name(used[3]), parse_size(used[1], used[2]) or 0)
            return
        elif rank.listing == "usage" and (left := device_messages.REMAINING.match(line)):
            builder.add_op_memory("all others", parse_size(left[2], left[3]) or 0, int(left[1]))
            return
        elif rank.listing == "wrapped" and self._rejoin_wrapped_line(rank, line):
            return
        elif rank.listing in _LIST_READERS and _LIST_READERS[rank.listing](builder, line):
            if device_messages.JAX_OP_MARK in line:
                self.jax.add(rank.name)
            return
        if line.strip():
            rank.listing = ""
        self._read_foreign_line(rank, line)

    def _read_foreign_line(self, rank: LogRank, line: bytes) -> None:
        """Reads a line that Python or another framework wrote."""
        if rank.trail.tracing and any(word in line for word in _FRAME_MARKS) and rank.trail.frame(line):
            place = rank.trail.place
            if rank.defines in self.dumps and place is not None:
                self.dumps[rank.defines] = with_origin(self.dumps[rank.defines], place, rank.ran)
        elif b"most recent call last" in line:
            self._read_traceback(rank, line)
        elif (b"defined at" in line or b"Original stack" in line) and (definition := log_text.DEFINED_AT.search(line)):
            self._begin_definition(rank, decode_name(definition[1] or definition[2]))
        elif b"OOM when allocating" in line:
            self._read_op_error(rank, line)
        elif b"Dst tensor is not initialized" in line or device_messages.UNSIZED.search(line):
            self._read_copy_error(rank, line)
        elif b"{{node" in line or b"[[node" in line or b"[[Node:" in line:
            self._read_node(rank, line)
        elif b"Current usage from device" in line:
            self._read_usage(rank, line)
        elif rank.last is not None and (b"Peak buffers" in line or b"BufferAssignment stats" in line):
            self._begin_buffer_list(rank, "buffers" if b"Peak" in line else "parts")
        else:
            self._read_statement(rank, line, python=True)

    def _read_traceback(self, rank: LogRank, line: bytes) -> None:
        self.busy = 2
        if named := log_text.DETECTED_AT.search(line):
            rank.trail.tracing, rank.trail.node = True, decode_name(named[1])
        else:
            rank.trail.begin()
            rank.defines = None

    def _begin_definition(self, rank: LogRank, op: str) -> None:
        """The following frames defined an op: that of the previous failure, or of one whose error comes after them."""
        rank.trail.begin()
        rank.trail.node = op
        dump = self.newest(rank)
        rank.defines = None
        if dump is not None and dump.kind is not FailureKind.KILL:
            rank.defines, rank.ran = rank.last, dump.request
        self.update_newest(rank, op=op)

    def _read_copy_error(self, rank: LogRank, line: bytes) -> None:
        """Reads an error without a size, such as a failed copy of a tensor; it belongs to the previous dump, if any."""
        target = device_messages.COPIED_FOR.search(line) or device_messages.OP.search(line)
        trail = rank.trail
        op = decode_name(target[1]) if target else trail.node
        for thread in list(rank.open):
            self.end(rank, thread)
        dump = self.newest(rank)
        if dump is None or dump.kind not in (FailureKind.REQUEST, FailureKind.COPY) or dump.request.shape:
            kind = FailureKind.COPY if device_messages.COPY in line else FailureKind.REQUEST
            self.keep(rank, DumpBuilder("", self.lines, rank.name, MemoryRequest(op=op), kind=kind).dump())
        self.update_newest(rank, op=op, place=trail.place, within=trail.within, constant=trail.constant)
        trail.clear()
        if b"[[" in line:
            self._read_node(rank, line)

    def _read_op_error(self, rank: LogRank, line: bytes) -> None:
        """Reads an op's error, which names shape, type, device and allocator."""
        found = device_messages.OOM.search(line)
        if found is None:
            return
        self.busy = 2
        allocator = decode_name(found["allocator"] or b"")
        shape = parse_dimensions(found["shape"])
        about: dict[str, Any] = {
            "shape": shape,
            "dtype": decode_name(found["dtype"] or b""),
            "device": decode_name(found["device"] or b""),
        }
        op = device_messages.OP.search(line)
        trail = rank.trail
        python = b"Error" in line or trail.tracing
        about |= {"op": decode_name(op[1]) if op else trail.node}
        if python:
            about |= {"place": trail.place, "within": trail.within, "constant": trail.constant}
        for thread in list(rank.open):
            self.end(rank, thread)
        key = find_owner(self.dumps, MemoryRequest(shape=shape, op=str(about["op"])), rank.name, allocator)
        if key is None:
            needed = tensor_bytes(shape, str(about["dtype"]))
            one = DumpBuilder(allocator, self.lines, rank.name, MemoryRequest(needed))
            key = self.keep(rank, one.dump())
        self.dumps[key] = with_request_facts(self.dumps[key], **about)
        rank.last = key
        if python:
            trail.clear()
            rank.defines = None

    def _read_node(self, rank: LogRank, line: bytes) -> None:
        found = device_messages.NODE.search(line)
        if found is None:
            return
        op = decode_name(found[1] or found[2])
        self.update_newest(rank, op=op)
        if copied := device_messages.COPIED_CONSTANT.search(line):
            self._set_copy_size(rank, decode_name(copied["dtype"]), parse_dimensions(copied["shape"]))
        place = log_text.inline_place(line) if b"defined at" in line else None
        dump = self.newest(rank)
        if dump is not None and dump.request.shape and (typed := device_messages.TYPE.search(line)):
            dtype = decode_name(typed[1]).lower()
            self.update_newest(rank, dtype=dtype, bytes=tensor_bytes(dump.request.shape, dtype))
            dump = self.newest(rank)
        if dump is not None and not is_same_op(dump.request.op, op):
            return  # a node that waits for the failed one
        if place is not None and dump is not None and rank.last is not None:
            self.dumps[rank.last] = with_origin(dump, place)

    def _set_copy_size(self, rank: LogRank, dtype: str, shape: tuple[int, ...] | None) -> None:
        """Sets the size of the constant whose copy failed, from the graph's text."""
        dump = self.newest(rank)
        if dump is not None and dump.kind is FailureKind.COPY and dump.request.shape is None:
            self.update_newest(rank, shape=shape, dtype=dtype, bytes=tensor_bytes(shape, dtype))

    def _read_usage(self, rank: LogRank, line: bytes) -> None:
        found = device_messages.USAGE.search(line)
        if rank.last is None or rank.last not in self.dumps or found is None:
            return
        builder = DumpBuilder(decode_name(found[1]), self.lines, rank.name)
        rank.open_dump, rank.listing = builder, "usage"
        rank.open["usage"] = builder

    def _begin_buffer_list(self, rank: LogRank, listing: str) -> None:
        builder = rank.open.get("buffers") or DumpBuilder("", self.lines, rank.name)
        rank.open_dump, rank.listing = builder, listing
        rank.open["buffers"] = builder
        self.busy = 2

    def _read_single_line_failure(self, rank: LogRank, line: bytes, *, python: bool) -> None:
        """Reads a failure that is described in a single line."""
        line, rank.begun = (rank.begun.rstrip() + b" " + line if rank.begun else line), b""
        builder = failure_list.read_single_line_failure(line, self.lines, rank.name)
        if builder is None:
            rank.begun = line if device_messages.WRAPPED_ERROR.search(line) else b""
            return
        self.busy = 2
        if b"XlaRuntimeError" in line or b"JaxRuntimeError" in line or b"jax.errors." in line:
            self.jax.add(rank.name)
        if builder.kind is FailureKind.KILL:
            self.keep(rank, builder.dump())
            return
        self.raised |= builder.allocator.startswith(("XLA", "TPU"))
        trail = rank.trail
        if python and (trail.tracing or builder.kind is not FailureKind.LIBRARY):
            about: dict[str, Any] = {"place": trail.place, "within": trail.within, "constant": trail.constant}
            about["constant"] |= builder.request.constant
            builder.request = replace(builder.request, **about)
        for thread in list(rank.open):
            self.end(rank, thread)
        if builder.request.needed_bytes is None and builder.allocator.startswith("TPU "):
            self.correct_newest(rank, builder)
        if not self.repeats_newest(rank, builder):
            self.keep(rank, builder.dump())
        if builder.allocator.startswith("TPU"):
            self._begin_buffer_list(rank, "hbm")
        elif builder.allocator == device_messages.CACHING_ALLOCATOR and builder.limit_bytes is None:
            rank.open_dump, rank.listing, rank.wrapped = builder, "wrapped", [line]

    def _rejoin_wrapped_line(self, rank: LogRank, line: bytes) -> bool:
        """Joins PyTorch's message, which an editor or a page broke into lines; whether ``line`` is a part of it."""
        if len(rank.wrapped) >= MAX_WRAPPED_LINES or device_messages.FIGURE_PATTERN.search(line) is None:
            return False
        rank.wrapped.append(line)
        builder = DumpBuilder("", self.lines, rank.name)
        old = self.newest(rank)
        if (
            old is not None
            and device_messages.read_torch_error(b" ".join(rank.wrapped), builder)
            and rank.last is not None
        ):
            new = builder.dump()
            request = replace(old.request, bytes=new.request.bytes)
            self.dumps[rank.last] = replace(new, line=old.line, request=request, repeats=old.repeats)
        return True
