"""The failures in a log, one of each kind, and the open dumps whose lines are still read."""

from __future__ import annotations

import re
from dataclasses import replace

from slowtrain.oom import device_messages, dump_builder, host_messages
from slowtrain.oom.dump_builder import DumpBuilder, DumpKey, LogRank, merge_reports, with_request_facts
from slowtrain.oom.log_text import decode_name, parse_size
from slowtrain.shared.exhaustion import Dump, FailureKind, MemoryRequest, PoolKind

MAX_TPU_DETAIL_LINES = 3  # that belong to one error of a TPU
MAX_DUMP_KINDS = 200  # of different kinds


class Failures:
    """``dumps`` holds one dump of each kind (rank, allocator, op, size), with the number of its repetitions."""

    def __init__(self) -> None:
        self.dumps: dict[DumpKey, Dump] = {}
        self.count = 0

    def newest(self, rank: LogRank) -> Dump | None:
        """The failure that the following lines are about."""
        return self.dumps.get(rank.last) if rank.last is not None else None

    def update_newest(self, rank: LogRank, **about: object) -> None:
        """Adds facts to the newest failure's request; known facts stay."""
        if rank.last is not None and rank.last in self.dumps:
            self.dumps[rank.last] = with_request_facts(self.dumps[rank.last], **about)

    def keep(self, rank: LogRank, dump: Dump) -> DumpKey:
        self.count += 1
        dump = self._with_device_memory(rank, dump)
        key = (rank.name, _failure_identity(dump), dump.request.needed_bytes, dump.request.op)
        if key in self.dumps and dump.kind in (FailureKind.LIBRARY, FailureKind.KILL):
            self.count -= 1
            self.dumps[key] = merge_reports(self.dumps[key], dump)
        elif key in self.dumps:
            self.dumps[key] = replace(self.dumps[key], repeats=self.dumps[key].repeats + 1)
        else:
            if len(self.dumps) >= MAX_DUMP_KINDS:
                self.dumps.pop(next(reversed(self.dumps)))
            self.dumps[key] = dump
        rank.last = key
        return key

    def _with_device_memory(self, rank: LogRank, dump: Dump) -> Dump:
        """The dump with what the log's beginning says about the card."""
        known_card = dump_builder.card_of_allocator(rank.cards, dump.allocator)
        if known_card is None or dump.pool is not PoolKind.DEVICE or dump.kind is FailureKind.PROGRAM:
            return dump
        limit = dump.limit_bytes if dump.limit_bytes is not None else known_card.pool_bytes
        total = dump.device_bytes if dump.device_bytes is not None else known_card.total_bytes
        return replace(dump, limit_bytes=limit, device_bytes=total, free_at_start_bytes=known_card.free_bytes)

    def finish(self, rank: LogRank) -> None:
        """Completes library failures and kills with facts from the rank's whole log."""
        named = {d.allocator for key, d in self.dumps.items() if key[0] == rank.name and "bfc" in d.allocator}
        for key, dump in self.dumps.items():
            if key[0] != rank.name:
                continue
            if (
                not dump.allocator
                and dump.kind is FailureKind.REQUEST
                and dump.in_use_bytes is not None
                and len(named) == 1
            ):
                # The dump's head is missing, and the log has only one allocator.
                self.dumps[key] = replace(dump, allocator=next(iter(named)))
            elif dump.kind is FailureKind.LIBRARY:
                self.dumps[key] = _finish_library_failure(dump, rank)
            elif dump.kind is FailureKind.KILL:
                limit = dump.limit_bytes if dump.limit_bytes is not None else rank.kill_limit_bytes
                self.dumps[key] = replace(dump, limit_bytes=limit, refused_bytes=rank.host_bytes or None)

    def correct_newest(self, rank: LogRank, builder: DumpBuilder) -> None:
        """Corrects the memory space, which a TPU's runtime logs after the size. It need not be hbm."""
        dump = self.newest(rank)
        if (
            dump is None
            or rank.last is None
            or dump.allocator != "TPU hbm"
            or dump.line < builder.line - MAX_TPU_DETAIL_LINES
        ):
            return
        builder.request, builder.limit_bytes = dump.request, dump.free_bytes
        del self.dumps[rank.last]
        self.count -= 1

    def repeats_newest(self, rank: LogRank, builder: DumpBuilder) -> bool:
        """Whether the rank's newest dump is the same failure, without a line of the script; if so, it gets that line.

        XLA's error follows the allocator's dump of the same size, and Python's traceback follows a line of the logging.
        """
        asked = builder.request.needed_bytes
        key = next((key for key in reversed(self.dumps) if key[0] == rank.name), None)
        if key is None or asked is None:
            return False
        dump = self.dumps[key]
        before = dump.request.needed_bytes
        alike = builder.allocator == "XLA" or (builder.allocator == dump.allocator and dump.request.place is None)
        if not alike or before is None or abs(before - asked) > 0.01 * asked:
            return False
        request = builder.request
        self.dumps[key] = with_request_facts(
            dump, place=request.place, within=request.within, constant=request.constant
        )
        rank.last = key
        return True


def _failure_identity(dump: Dump) -> str:
    """What distinguishes a failure from others of its rank: a process is killed once, whoever reports it."""
    if dump.kind is not FailureKind.KILL:
        return dump.allocator
    return "killed" if dump.who != host_messages.SHARED_MEMORY else dump.who


def _finish_library_failure(dump: Dump, rank: LogRank) -> Dump:
    free, total = rank.usage or (None, dump.device_bytes)
    dump = replace(
        dump, refused_bytes=rank.refused_bytes or None, driver_free_bytes=free, device_bytes=total,
        sure=dump.sure or rank.refused_bytes > 0,
    )  # fmt: skip
    if dump.sure:
        return dump
    if rank.mismatch:
        return replace(dump, other_reason="the cuDNN version differs from the one that the program was built for")
    if free is not None and free >= host_messages.MAX_LIBRARY_NEED_BYTES:
        return replace(dump, other_reason="enough memory was free")
    return dump


def with_list(dump: Dump, listed: Dump) -> Dump:
    """``dump`` with facts from a list after it: who allocated, the parts of a program, the device's capacity."""
    places = tuple(dict.fromkeys(holder.place for holder in listed.by_op if holder.place is not None))
    also = tuple(place for place in places[:1] if place != dump.request.place)
    request = replace(dump.request, also=(*dump.request.also, *also)) if not dump.request.also else dump.request
    return replace(
        dump,
        request=request,
        by_op=listed.by_op or dump.by_op,
        by_part=listed.by_part or dump.by_part,
        limit_bytes=dump.limit_bytes if dump.limit_bytes is not None else listed.limit_bytes,
        in_use_bytes=dump.in_use_bytes if dump.in_use_bytes is not None else listed.in_use_bytes,
    )


# The most specific reader first. A line is read only if it contains one of the reader's words.
_READERS = (
    ((b"ut of memory", b"Tried to allocate"), device_messages.read_torch_error),
    ((b"memory space", b"not possible", b"would exceed memory", b"SparseCore"), device_messages.read_tpu_error),
    ((b"ut of memory", b"ailed to allocate"), device_messages.read_xla_error),
    (
        (b"PrimaryCtxRetain", b"implicit initialization", b"etting context", b"cuInit", b"cuCtxCreate",
         b"cudaGetDevice"),
        host_messages.read_context_failure,
    ),
    (
        (b"CUDNN", b"CUBLAS", b"CUSOLVER", b"CUSPARSE", b"CUFFT", b"udnn handle", b"ublas handle", b"DNN library",
         b"MIOpen", b"miopen", b"rocblas", b"ThenRnn", b"launch failed", b"BLAS support", b"algorithm worked",
         b"convolution algorithm", b"Cuda failure", b"CUDA_ERROR_OUT_OF_MEMORY"),
        host_messages.read_library_failure,
    ),
    (
        (b"MemoryError", b"nable to allocate", b"you tried to allocate", b"bad_alloc", b"allocate memory",
         b"paging file"),
        host_messages.read_host_request,
    ),
    ((b"ill", b"oom", b"xit", b"SIG", b"memory", b"Memory", b"RAM", b"OUT_OF"), host_messages.read_kill),
)  # fmt: skip


# Most lines contain none of these.
_ANY_READER_WORD = re.compile(
    rb"emory|SparseCore|alloc|STATUS_|MEMORY|handle|library|algorithm|ailed|failure|support|ill|oom|xit|SIG|RAM|paging"
)


def read_single_line_failure(line: bytes, number: int, rank: str) -> DumpBuilder | None:
    """The failure that a line describes, as far as it does."""
    if _ANY_READER_WORD.search(line) is None:
        return None
    for words, take in _READERS:
        if any(word in line for word in words):
            builder = DumpBuilder("", number, rank)
            if take(line, builder):
                return builder
    return None


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
        chunk = device_messages.CHUNK_LINE.match(text)
        if chunk is not None:
            builder = builder or self.begin(rank, thread, "")
            op = chunk["op"]
            bytes_ = parse_size(chunk["size"] or chunk["size2"] or b"")
            owner = (
                device_messages.program_name(chunk["program"]) if chunk["program"] else decode_name(op) if op else ""
            )
            if chunk["program"]:
                self.jax.add(rank.name)
            if bytes_ is not None:
                builder.add_chunk(chunk["kind"] != b"Free", bytes_, owner)
            return
        if device_messages.RETRIED in text and (retried := device_messages.RETRIED_FOR.search(text)):
            self._count_retry(rank, decode_name(retried[1]) or "the allocator", parse_size(retried[2], retried[3]) or 0)
            return
        asked = device_messages.REQUEST_LINE.search(text)
        if asked is not None:
            allocator = decode_name(asked["allocator"])
            builder = self.begin(rank, thread, allocator)
            rounded = parse_size(asked["rounded"]) if asked["rounded"] else None
            builder.request = MemoryRequest(
                parse_size(asked["number"], asked["unit"]), rounded, op=decode_name(asked["op"] or b"")
            )
            return
        if b"Ran out" in text and (behind := device_messages.ASKED_BEHIND.search(text)):
            self._set_trailing_size(rank, thread, parse_size(behind[1], behind[2]))
            return
        dump = device_messages.DUMP.match(text)
        if dump is not None and (builder is None or builder.allocator != decode_name(dump[1])):
            builder = self.begin(rank, thread, decode_name(dump[1]))
        if builder is not None:
            self._read_dump_part(rank, thread, builder, text)
        elif device_messages.INSIDE_DUMP.match(text):  # the log begins inside a dump
            self._read_dump_part(rank, thread, self.begin(rank, thread, ""), text)

    def _count_retry(self, rank: LogRank, allocator: str, asked_bytes: int) -> None:
        """Counts a request that failed but can be retried."""
        self.retries[allocator] = self.retries.get(allocator, 0) + 1
        self.retried_bytes[allocator] = max(self.retried_bytes.get(allocator, 0), asked_bytes)
        known_card = dump_builder.card_of_allocator(rank.cards, allocator)
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
        elif dump.request.needed_bytes is None:
            self.update_newest(rank, bytes=asked_bytes)

    def _read_dump_part(self, rank: LogRank, thread: str, builder: DumpBuilder, text: bytes) -> None:
        """Reads the lines of a dump that are not chunks."""
        if text.startswith(b"Stats:"):
            rank.open_dump, rank.listing = builder, "stats"
            device_messages.read_statistic(builder, text[6:])
        elif device_messages.MAP.match(text):
            builder.map = text.strip()
            self.end(rank, thread)
        else:
            device_messages.read_dump_line(builder, text)

    def asynchronous(self, rank: LogRank, thread: str, text: bytes) -> None:
        """Reads a dump of CUDA's own pool (TF_GPU_ALLOCATOR=cuda_malloc_async), which has no chunks."""
        asked = device_messages.ASYNC.search(text)
        builder = rank.open.get(thread)
        if asked is not None:
            builder = self.begin(rank, thread, decode_name(asked[1]))
            builder.request = MemoryRequest(parse_size(asked[2]))
            rank.open_dump, rank.listing = builder, "driver"
        elif builder is not None and text.startswith(b"Stats:"):
            rank.open_dump, rank.listing = builder, "stats"
            device_messages.read_statistic(builder, text[6:])
        elif builder is not None and (row := device_messages.HISTOGRAM.match(text)):
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
        if rank.open_dump is builder:
            rank.open_dump, rank.listing = None, ""
        if thread in OPEN_LISTS:
            if rank.last is not None and rank.last in self.dumps:
                self.dumps[rank.last] = with_list(self.dumps[rank.last], builder.dump())
            return
        dump = builder.dump()
        if dump.request.needed_bytes is None and dump.in_use_bytes is None:
            return  # only a line or two of a dump
        self.mixed += builder.listed and not dump.whole
        self.keep(rank, dump)
