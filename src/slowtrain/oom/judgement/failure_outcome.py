"""The outcome of a failure: full, fragmented, taken by others, too large, a kill, a library failure."""

from __future__ import annotations

from slowtrain.model.exhaustion import Dump, FailureKind, FailureOutcome, PoolKind
from slowtrain.oom.judgement import memory_questions
from slowtrain.oom.messages.dump_builder import ROUNDING_SHARE


def failure_outcome(dump: Dump) -> FailureOutcome:
    needed = dump.request.needed
    if dump.kind is FailureKind.KILL:
        return FailureOutcome.KILLED
    if dump.kind is FailureKind.LIBRARY:
        return (
            FailureOutcome.OTHER
            if dump.other_reason
            else FailureOutcome.LIBRARY
            if dump.sure
            else FailureOutcome.UNKNOWN
        )
    if dump.kind is FailureKind.HOST:
        return FailureOutcome.FULL  # refused by the system itself
    if needed is None:
        return FailureOutcome.UNKNOWN
    if memory_questions.has_no_pool(dump):
        return FailureOutcome.FULL  # refused by the system itself
    if memory_questions.exceeds_device(dump) or (dump.kind is FailureKind.PROGRAM and dump.limit_bytes is not None):
        return FailureOutcome.TOO_LARGE
    if _is_held_by_others(dump, needed):
        return FailureOutcome.TAKEN
    if dump.limit_bytes is not None and needed > dump.limit_bytes * (1 + ROUNDING_SHARE):
        return FailureOutcome.TOO_LARGE
    if dump.driver_free_bytes is not None and dump.limit_bytes and dump.in_use_bytes is not None:
        return _device_outcome(dump, needed)
    return _pool_outcome(dump, needed)


def missing_bytes(dump: Dump) -> int | None:
    """By how many bytes the free memory was too small, all pieces together; None if it is unknown."""
    needed, free = dump.request.needed, free_bytes(dump)
    if needed is None or free is None:
        return None
    return max(needed - free - room_bytes(dump), 0)


def free_bytes(dump: Dump) -> int | None:
    """Free bytes without possible growth of the pool; derived from the limit if the log lists no pieces."""
    if dump.free_bytes is not None:
        return dump.free_bytes
    if dump.limit_bytes is None or dump.in_use_bytes is None or dump.driver_free_bytes is not None:
        return None
    return max(dump.limit_bytes - dump.in_use_bytes, 0)


def room_bytes(dump: Dump) -> int:
    """By how much the pool could have grown, as far as the driver had memory."""
    if dump.free_bytes is None and dump.driver_free_bytes is None:
        return 0  # ``free_bytes`` contains it
    growth = dump.growth_bytes or 0
    return min(growth, dump.driver_free_bytes) if dump.driver_free_bytes is not None else growth


def _is_held_by_others(dump: Dump, needed: int) -> bool:
    """Whether the request would have fitted without the memory that other processes held."""
    if dump.pool is not PoolKind.DEVICE:
        return False
    others = (
        memory_questions.others_bytes(dump) if dump.driver_free_bytes is None or dump.others_bytes is not None else None
    )
    if others is not None:
        idle = max((dump.pool_bytes or 0) - (dump.in_use_bytes or 0), 0)
        return (
            others >= needed
            and others > idle
            and others >= memory_questions.MIN_OTHERS_SHARE * (dump.device_bytes or 0)
        )
    # If the card's size is unknown, a small pool may be intended. Then the pool's own use decides.
    beyond = dump.device_bytes is not None or needed > (dump.limit_bytes or 0) * (1 + ROUNDING_SHARE)
    return beyond and memory_questions.is_part_of_card(dump)


def _device_outcome(dump: Dump, needed: int) -> FailureOutcome:
    """For allocators that report the card's free memory (CUDA's own pool, PyTorch)."""
    left, used = dump.driver_free_bytes or 0, dump.in_use_bytes or 0
    idle = max((dump.pool_bytes or used) - used, 0)
    if left + idle >= needed:
        return FailureOutcome.FRAGMENTED
    others = memory_questions.others_bytes(dump) or 0
    return FailureOutcome.TAKEN if others >= needed and dump.others_bytes is None else FailureOutcome.FULL


def _pool_outcome(dump: Dump, needed: int) -> FailureOutcome:
    if dump.growth_bytes is not None and dump.growth_bytes >= needed:
        return FailureOutcome.TAKEN  # the pool was allowed to grow by more, and got nothing
    free = dump.free_bytes
    if free is None:
        free = free_bytes(dump)
        return FailureOutcome.FULL if free is not None and free < needed else FailureOutcome.UNKNOWN
    if dump.largest_free_bytes is not None and dump.largest_free_bytes >= needed:
        return FailureOutcome.UNKNOWN  # such a piece would have been used: the lines belong to two dumps
    if free + (dump.growth_bytes or 0) >= needed:
        return FailureOutcome.FRAGMENTED  # the free bytes were enough in total, but no single piece was
    return FailureOutcome.FULL
