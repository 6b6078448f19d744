"""The failures in a log, one of each kind, and what later lines add to them."""

from __future__ import annotations

from dataclasses import replace

from slowtrain.model.exhaustion import Dump, FailureKind, PoolKind
from slowtrain.oom.messages import device_memory, host_memory, library_failures
from slowtrain.oom.messages.dump_builder import DumpBuilder, DumpKey, LogRank, merge_reports, with_request_facts

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
        key = (rank.name, _failure_identity(dump), dump.request.needed, dump.request.op)
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
        known_card = device_memory.card_of_allocator(rank.cards, dump.allocator)
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
        asked = builder.request.needed
        key = next((key for key in reversed(self.dumps) if key[0] == rank.name), None)
        if key is None or asked is None:
            return False
        dump = self.dumps[key]
        before = dump.request.needed
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
    return "killed" if dump.who != host_memory.SHARED_MEMORY else dump.who


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
    if free is not None and free >= library_failures.MAX_LIBRARY_NEED_BYTES:
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
