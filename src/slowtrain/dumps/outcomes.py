"""What a failure was: full, fragmented, taken by others, too large, a kill, a library's."""

from __future__ import annotations

from slowtrain.dumps import questions
from slowtrain.dumps.building import CLOSE
from slowtrain.model.exhaustion import Dump, Kind, Outcome, Pool


def of(dump: Dump) -> Outcome:
    needed = dump.request.needed
    if dump.kind is Kind.KILL:
        return Outcome.KILLED
    if dump.kind is Kind.LIBRARY:
        return Outcome.OTHER if dump.other_reason else Outcome.LIBRARY if dump.sure else Outcome.UNKNOWN
    if dump.kind is Kind.HOST:
        return Outcome.FULL  # the system itself refused it
    if needed is None:
        return Outcome.UNKNOWN
    if questions.without_pool(dump):
        return Outcome.FULL  # the system itself refused it
    if questions.alone(dump) or (dump.kind is Kind.PROGRAM and dump.limit_bytes is not None):
        return Outcome.TOO_LARGE
    if _held_by_others(dump, needed):
        return Outcome.TAKEN
    if dump.limit_bytes is not None and needed > dump.limit_bytes * (1 + CLOSE):
        return Outcome.TOO_LARGE
    if dump.driver_free_bytes is not None and dump.limit_bytes and dump.in_use_bytes is not None:
        return _of_the_card(dump, needed)
    return _of_the_pool(dump, needed)


def missing_bytes(dump: Dump) -> int | None:
    """How many bytes less would have been enough, all pieces taken together; None where it is not known."""
    needed, free = dump.request.needed, free_bytes(dump)
    if needed is None or free is None:
        return None
    return max(needed - free - room_bytes(dump), 0)


def free_bytes(dump: Dump) -> int | None:
    """In all, without what the pool could grow by; from the limit where the log does not list the pieces."""
    if dump.free_bytes is not None:
        return dump.free_bytes
    if dump.limit_bytes is None or dump.in_use_bytes is None or dump.driver_free_bytes is not None:
        return None
    return max(dump.limit_bytes - dump.in_use_bytes, 0)


def room_bytes(dump: Dump) -> int:
    """What the pool could still have grown by, as far as the driver had it."""
    if dump.free_bytes is None and dump.driver_free_bytes is None:
        return 0  # ``free_bytes`` has it
    growth = dump.growth_bytes or 0
    return min(growth, dump.driver_free_bytes) if dump.driver_free_bytes is not None else growth


def _held_by_others(dump: Dump, needed: int) -> bool:
    """Whether others held so much that without them there would have been room."""
    if dump.pool is not Pool.DEVICE:
        return False
    others = questions.others_bytes(dump) if dump.driver_free_bytes is None or dump.others_bytes is not None else None
    if others is not None:
        idle = max((dump.pool_bytes or 0) - (dump.in_use_bytes or 0), 0)
        return others >= needed and others > idle and others >= questions.OTHERS_SHARE * (dump.device_bytes or 0)
    # Without the card's size, a small pool may as well be one that was meant so: then its own use counts.
    beyond = dump.device_bytes is not None or needed > (dump.limit_bytes or 0) * (1 + CLOSE)
    return beyond and questions.part_of_a_card(dump)


def _of_the_card(dump: Dump, needed: int) -> Outcome:
    """Of allocators that say what the card had left (CUDA's own pool, PyTorch)."""
    left, used = dump.driver_free_bytes or 0, dump.in_use_bytes or 0
    idle = max((dump.pool_bytes or used) - used, 0)
    if left + idle >= needed:
        return Outcome.FRAGMENTED
    others = questions.others_bytes(dump) or 0
    return Outcome.TAKEN if others >= needed and dump.others_bytes is None else Outcome.FULL


def _of_the_pool(dump: Dump, needed: int) -> Outcome:
    if dump.growth_bytes is not None and dump.growth_bytes >= needed:
        return Outcome.TAKEN  # it was allowed to grow by more than that, and got nothing
    free = dump.free_bytes
    if free is None:
        free = free_bytes(dump)
        return Outcome.FULL if free is not None and free < needed else Outcome.UNKNOWN
    if dump.largest_free_bytes is not None and dump.largest_free_bytes >= needed:
        return Outcome.UNKNOWN  # such a piece would have been given: lines of two dumps are mixed
    if free + (dump.growth_bytes or 0) >= needed:
        return Outcome.FRAGMENTED  # what was free in all would have done, and no piece of it did
    return Outcome.FULL
