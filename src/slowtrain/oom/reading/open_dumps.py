"""Open dumps of allocators: joins their lines by rank and thread."""

from __future__ import annotations

from dataclasses import replace

from slowtrain.model.exhaustion import FailureKind, MemoryRequest
from slowtrain.oom.messages import allocator_lines, device_memory, xla_errors
from slowtrain.oom.messages.dump_builder import DumpBuilder, LogRank
from slowtrain.oom.reading.failure_list import Failures, with_list
from slowtrain.oom.text.byte_sizes import decode_name, parse_size

MAX_OPEN_THREADS = 64  # of a rank with an open dump
OPEN_LISTS = ("usage", "buffers")  # that can be open beside the dumps of threads


class OpenDumps(Failures):
    """``mixed`` counts dumps that are incomplete or contain lines of another dump."""

    def __init__(self) -> None:
        super().__init__()
        self.retries: dict[str, int] = {}
        self.retried_bytes: dict[str, int] = {}  # the largest request among these
        self.oversized: dict[str, int] = {}  # of these, requests larger than the whole pool
        self.pool_bytes: dict[str, int] = {}
        self.jax: set[str] = set()  # ranks with messages of JAX
        self.mixed = 0
        self.lines = 0
        self.busy = 0  # blocks still to be read although they contain none of our words

    def allocator(self, rank: LogRank, thread: str, text: bytes) -> None:
        builder = rank.open.get(thread)
        chunk = allocator_lines.CHUNK_LINE.match(text)
        if chunk is not None:
            builder = builder or self.begin(rank, thread, "")
            op = chunk["op"]
            bytes_ = parse_size(chunk["size"] or chunk["size2"] or b"")
            made = xla_errors.program_name(chunk["program"]) if chunk["program"] else decode_name(op) if op else ""
            if chunk["program"]:
                self.jax.add(rank.name)
            if bytes_ is not None:
                builder.add_chunk(chunk["kind"] != b"Free", bytes_, made)
            return
        if allocator_lines.RETRIED in text and (retried := allocator_lines.RETRIED_FOR.search(text)):
            self._count_retry(rank, decode_name(retried[1]) or "the allocator", parse_size(retried[2], retried[3]) or 0)
            return
        asked = allocator_lines.REQUEST_LINE.search(text)
        if asked is not None:
            allocator = decode_name(asked["allocator"])
            builder = self.begin(rank, thread, allocator)
            rounded = parse_size(asked["rounded"]) if asked["rounded"] else None
            builder.request = MemoryRequest(
                parse_size(asked["number"], asked["unit"]), rounded, op=decode_name(asked["op"] or b"")
            )
            return
        if b"Ran out" in text and (behind := allocator_lines.ASKED_BEHIND.search(text)):
            self._set_trailing_size(rank, thread, parse_size(behind[1], behind[2]))
            return
        dump = allocator_lines.DUMP.match(text)
        if dump is not None and (builder is None or builder.allocator != decode_name(dump[1])):
            builder = self.begin(rank, thread, decode_name(dump[1]))
        if builder is not None:
            self._read_dump_part(rank, thread, builder, text)
        elif allocator_lines.INSIDE_DUMP.match(text):  # the log begins inside a dump
            self._read_dump_part(rank, thread, self.begin(rank, thread, ""), text)

    def _count_retry(self, rank: LogRank, allocator: str, asked_bytes: int) -> None:
        """Counts a request that failed but can be retried."""
        self.retries[allocator] = self.retries.get(allocator, 0) + 1
        self.retried_bytes[allocator] = max(self.retried_bytes.get(allocator, 0), asked_bytes)
        known_card = device_memory.card_of_allocator(rank.cards, allocator)
        if known_card is not None and known_card.pool_bytes is not None:
            self.pool_bytes[allocator] = known_card.pool_bytes
            self.oversized[allocator] = self.oversized.get(allocator, 0) + (asked_bytes > known_card.pool_bytes)

    def _set_trailing_size(self, rank: LogRank, thread: str, asked_bytes: int | None) -> None:
        """Sets the size that follows its dump, whose head may be missing."""
        builder = rank.open.get(thread)
        if builder is not None:
            builder.request = replace(builder.request, bytes=asked_bytes)
            self.end(rank, thread)
            return
        dump = self.newest(rank)
        if dump is None or dump.kind is not FailureKind.REQUEST or dump.request.shape is not None:
            self.keep(rank, DumpBuilder("", self.lines, rank.name, MemoryRequest(asked_bytes)).dump())
        elif dump.request.needed is None:
            self.update_newest(rank, bytes=asked_bytes)

    def _read_dump_part(self, rank: LogRank, thread: str, builder: DumpBuilder, text: bytes) -> None:
        """Reads the lines of a dump that are not chunks."""
        if text.startswith(b"Stats:"):
            rank.told, rank.listing = builder, "stats"
            allocator_lines.read_statistic(builder, text[6:])
        elif allocator_lines.MAP.match(text):
            builder.map = text.strip()
            self.end(rank, thread)
        else:
            allocator_lines.read_dump_line(builder, text)

    def asynchronous(self, rank: LogRank, thread: str, text: bytes) -> None:
        """Reads a dump of CUDA's own pool (TF_GPU_ALLOCATOR=cuda_malloc_async), which has no chunks."""
        asked = allocator_lines.ASYNC.search(text)
        builder = rank.open.get(thread)
        if asked is not None:
            builder = self.begin(rank, thread, decode_name(asked[1]))
            builder.request = MemoryRequest(parse_size(asked[2]))
            rank.told, rank.listing = builder, "driver"
        elif builder is not None and text.startswith(b"Stats:"):
            rank.told, rank.listing = builder, "stats"
            allocator_lines.read_statistic(builder, text[6:])
        elif builder is not None and (row := allocator_lines.HISTOGRAM.match(text)):
            builder.sums[parse_size(row[1]) or 0] = min(int(row[2]), 1 << 40)

    def begin(self, rank: LogRank, thread: str, allocator: str) -> DumpBuilder:
        if thread in rank.open:
            self.end(rank, thread)
        if len(rank.open) >= MAX_OPEN_THREADS:
            self.end(rank, next(iter(rank.open)))
        builder = rank.open[thread] = DumpBuilder(allocator, self.lines, rank.name)
        self.busy = 2
        return builder

    def end(self, rank: LogRank, thread: str) -> None:
        builder = rank.open.pop(thread)
        if rank.told is builder:
            rank.told, rank.listing = None, ""
        if thread in OPEN_LISTS:
            if rank.last is not None and rank.last in self.dumps:
                self.dumps[rank.last] = with_list(self.dumps[rank.last], builder.dump())
            return
        dump = builder.dump()
        if dump.request.needed is None and dump.in_use_bytes is None:
            return  # only a line or two of a dump
        self.mixed += builder.listed and not dump.whole
        self.keep(rank, dump)
