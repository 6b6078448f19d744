"""Open dumps of allocators: joins their lines by rank and thread."""

from __future__ import annotations

from dataclasses import replace

from slowtrain.dumps import card, saying, xla
from slowtrain.dumps.building import Builder, Rank
from slowtrain.dumps.failures import Failures, with_list
from slowtrain.dumps.units import name, size
from slowtrain.model.exhaustion import Kind, Request

MOST_THREADS = 64  # of a rank with an open dump
LISTS = ("usage", "buffers")  # that can be open beside the dumps of threads


class Underway(Failures):
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

    def allocator(self, rank: Rank, thread: str, text: bytes) -> None:
        builder = rank.open.get(thread)
        chunk = saying.CHUNK.match(text)
        if chunk is not None:
            builder = builder or self.begin(rank, thread, "")
            op = chunk["op"]
            bytes_ = size(chunk["size"] or chunk["size2"] or b"")
            made = xla.made_by(chunk["program"]) if chunk["program"] else name(op) if op else ""
            if chunk["program"]:
                self.jax.add(rank.name)
            if bytes_ is not None:
                builder.chunk(chunk["kind"] != b"Free", bytes_, made)
            return
        if saying.RETRIED in text and (retried := saying.RETRIED_FOR.search(text)):
            self._retried(rank, name(retried[1]) or "the allocator", size(retried[2], retried[3]) or 0)
            return
        asked = saying.ASKED.search(text)
        if asked is not None:
            allocator = name(asked["allocator"])
            builder = self.begin(rank, thread, allocator)
            rounded = size(asked["rounded"]) if asked["rounded"] else None
            builder.request = Request(size(asked["number"], asked["unit"]), rounded, op=name(asked["op"] or b""))
            return
        if b"Ran out" in text and (behind := saying.ASKED_BEHIND.search(text)):
            self._behind(rank, thread, size(behind[1], behind[2]))
            return
        dump = saying.DUMP.match(text)
        if dump is not None and (builder is None or builder.allocator != name(dump[1])):
            builder = self.begin(rank, thread, name(dump[1]))
        if builder is not None:
            self._part(rank, thread, builder, text)
        elif saying.INSIDE.match(text):  # the log begins inside a dump
            self._part(rank, thread, self.begin(rank, thread, ""), text)

    def _retried(self, rank: Rank, allocator: str, asked_bytes: int) -> None:
        """Counts a request that failed but can be retried."""
        self.retries[allocator] = self.retries.get(allocator, 0) + 1
        self.retried_bytes[allocator] = max(self.retried_bytes.get(allocator, 0), asked_bytes)
        known_card = card.of(rank.cards, allocator)
        if known_card is not None and known_card.pool_bytes is not None:
            self.pool_bytes[allocator] = known_card.pool_bytes
            self.oversized[allocator] = self.oversized.get(allocator, 0) + (asked_bytes > known_card.pool_bytes)

    def _behind(self, rank: Rank, thread: str, asked_bytes: int | None) -> None:
        """Sets the size that follows its dump, whose head may be missing."""
        builder = rank.open.get(thread)
        if builder is not None:
            builder.request = replace(builder.request, bytes=asked_bytes)
            self.end(rank, thread)
            return
        dump = self.newest(rank)
        if dump is None or dump.kind is not Kind.REQUEST or dump.request.shape is not None:
            self.keep(rank, Builder("", self.lines, rank.name, Request(asked_bytes)).dump())
        elif dump.request.needed is None:
            self.learn(rank, bytes=asked_bytes)

    def _part(self, rank: Rank, thread: str, builder: Builder, text: bytes) -> None:
        """Reads the lines of a dump that are not chunks."""
        if text.startswith(b"Stats:"):
            rank.told, rank.listing = builder, "stats"
            saying.statistic(builder, text[6:])
        elif saying.MAP.match(text):
            builder.map = text.strip()
            self.end(rank, thread)
        else:
            saying.part(builder, text)

    def asynchronous(self, rank: Rank, thread: str, text: bytes) -> None:
        """Reads a dump of CUDA's own pool (TF_GPU_ALLOCATOR=cuda_malloc_async), which has no chunks."""
        asked = saying.ASYNC.search(text)
        builder = rank.open.get(thread)
        if asked is not None:
            builder = self.begin(rank, thread, name(asked[1]))
            builder.request = Request(size(asked[2]))
            rank.told, rank.listing = builder, "driver"
        elif builder is not None and text.startswith(b"Stats:"):
            rank.told, rank.listing = builder, "stats"
            saying.statistic(builder, text[6:])
        elif builder is not None and (row := saying.HISTOGRAM.match(text)):
            builder.sums[size(row[1]) or 0] = min(int(row[2]), 1 << 40)

    def begin(self, rank: Rank, thread: str, allocator: str) -> Builder:
        if thread in rank.open:
            self.end(rank, thread)
        if len(rank.open) >= MOST_THREADS:
            self.end(rank, next(iter(rank.open)))
        builder = rank.open[thread] = Builder(allocator, self.lines, rank.name)
        self.busy = 2
        return builder

    def end(self, rank: Rank, thread: str) -> None:
        builder = rank.open.pop(thread)
        if rank.told is builder:
            rank.told, rank.listing = None, ""
        if thread in LISTS:
            if rank.last is not None and rank.last in self.dumps:
                self.dumps[rank.last] = with_list(self.dumps[rank.last], builder.dump())
            return
        dump = builder.dump()
        if dump.request.needed is None and dump.in_use_bytes is None:
            return  # only a line or two of a dump
        self.mixed += builder.listed and not dump.whole
        self.keep(rank, dump)
