"""Three questions that are answered before any advice.

Does this request alone exceed the device? Was the memory in use before, and by whom? Is the request a constant that was
made from an array?
"""

from __future__ import annotations

from slowtrain.oom import host_messages, log_text
from slowtrain.oom.dump_builder import ROUNDING_SHARE
from slowtrain.shared.exhaustion import Dump, FailureKind, FailureOutcome, HeldBy, PoolKind, Questions

# The frameworks support no card with less memory. A smaller pool is a part of a card, and a smaller request does not
# exceed a card.
SMALLEST_CARD_BYTES = 1 << 30
# The most that one accelerator had in 2026 is 288 GB. A larger request exceeds any device.
LARGEST_CARD_BYTES = 300 << 30
# Share of the pool. Halving a smaller request gains less than 1/32 of the pool, so the remaining memory matters more.
MAX_SMALL_SHARE = 1 / 16
# TensorFlow's pool takes all memory that is free at its start except at most a tenth (``MinSystemMemory``), JAX's pool
# takes three quarters. A pool below half of the card means that others held the rest, or that a limit was set.
USUAL_POOL_SHARE = 0.5
# Share of the card. A display and its programs use less, and the run's own memory is checked first.
MIN_OTHERS_SHARE = 0.25
# A process's CUDA context, with kernels and workspaces of libraries, takes up to this much outside PyTorch's pool. Only
# the card's figures include it.
MAX_CONTEXT_BYTES = 1 << 30


def answer_questions(dump: Dump, outcome: FailureOutcome) -> Questions:
    held_by, holder_bytes, whole = _find_holder(dump, outcome)
    return Questions(exceeds_device(dump), held_by, holder_bytes, whole, _is_constant(dump))


def exceeds_device(dump: Dump) -> bool | None:
    """Whether the request exceeds the whole device, even if it were empty; None if it is unknown."""
    needed = dump.request.needed_bytes
    if needed is None or dump.kind in (FailureKind.KILL, FailureKind.LIBRARY, FailureKind.HOST):
        return None
    capacity = capacity_bytes(dump)
    if capacity is not None and dump.kind is FailureKind.PROGRAM:
        return True  # the compiler says so
    if capacity is not None:
        return needed > capacity * (1 + ROUNDING_SHARE)
    if dump.pool is not PoolKind.DEVICE:
        return None
    if needed > LARGEST_CARD_BYTES:
        return True
    return False if needed < SMALLEST_CARD_BYTES else None


def capacity_bytes(dump: Dump) -> int | None:
    """The device's memory; the pool's limit if that is unknown and the pool is not a part of a card."""
    if dump.device_bytes is not None:
        return dump.device_bytes
    if dump.limit_bytes is None or (dump.pool is PoolKind.DEVICE and is_part_of_card(dump)):
        return None
    return dump.limit_bytes


def is_part_of_card(dump: Dump) -> bool:
    """Whether the pool got only a part of the card when the run began."""
    limit = dump.limit_bytes
    if (
        limit is None
        or dump.pool is not PoolKind.DEVICE
        or dump.kind is FailureKind.PROGRAM
        or dump.allocator.startswith("TPU")
    ):
        return False
    if dump.device_bytes is not None:
        return limit < USUAL_POOL_SHARE * dump.device_bytes
    return limit < SMALLEST_CARD_BYTES


def others_bytes(dump: Dump) -> int | None:
    """Memory that other processes held, calculated from the log's figures."""
    if dump.others_bytes is not None:
        return dump.others_bytes
    if dump.free_at_start_bytes is not None and dump.device_bytes is not None:
        return max(dump.device_bytes - dump.free_at_start_bytes, 0)
    if dump.kind is FailureKind.REQUEST and dump.driver_free_bytes is not None and dump.limit_bytes:
        if dump.in_use_bytes is None:
            return None
        taken = max(dump.pool_bytes or 0, dump.in_use_bytes) + max(dump.outside_bytes or 0, MAX_CONTEXT_BYTES)
        return max(dump.limit_bytes - dump.driver_free_bytes - taken, 0)
    return None


def other_framework_bytes(dump: Dump) -> int:
    """Memory of another framework in this process, if it is at least as large as the request; else 0."""
    outside = max((dump.outside_bytes or 0) - MAX_CONTEXT_BYTES, 0)
    return outside if outside >= (dump.request.needed_bytes or 0) else 0


def sufficient_others_bytes(dump: Dump) -> int:
    """Memory of other processes that the log states, if it is at least as large as the request; else 0."""
    is_stated = dump.others_bytes is not None or dump.free_at_start_bytes is not None
    others = (others_bytes(dump) or 0) if is_stated else 0
    return others if others >= (dump.request.needed_bytes or 0) > 0 else 0


def fits_without_others(dump: Dump) -> bool:
    """Whether the request would fit into the free memory and the memory of other processes that the log states."""
    if not dump.others_bytes or dump.driver_free_bytes is None:
        return False
    return dump.others_bytes + dump.driver_free_bytes >= (dump.request.needed_bytes or 0)


def has_no_pool(dump: Dump) -> bool:
    """Whether the request went directly to the system: TensorFlow's CPU allocator has no pool."""
    unknown = dump.limit_bytes is None and dump.in_use_bytes is None and not dump.by_size
    name = dump.allocator.lower()
    return (
        dump.kind is FailureKind.REQUEST
        and dump.pool is PoolKind.HOST
        and unknown
        and "bfc" not in name
        and "cpu" in name
    )


def is_small_request(dump: Dump) -> bool:
    """Whether the request is so small that reducing it would hardly help."""
    needed = dump.request.needed_bytes
    whole = dump.limit_bytes or dump.device_bytes or SMALLEST_CARD_BYTES
    if dump.limit_bytes is None and dump.device_bytes is None and dump.pool is not PoolKind.DEVICE:
        return False
    return needed is not None and needed < MAX_SMALL_SHARE * whole


def _find_holder(dump: Dump, outcome: FailureOutcome) -> tuple[HeldBy | None, int | None, int | None]:
    whole = dump.device_bytes or dump.limit_bytes
    others = others_bytes(dump)
    if outcome is FailureOutcome.TAKEN:
        if others:
            return HeldBy.OTHERS, others, whole
        if is_part_of_card(dump):
            rest = dump.device_bytes - (dump.limit_bytes or 0) if dump.device_bytes is not None else None
            return HeldBy.LIMIT, rest, dump.device_bytes
        return HeldBy.OTHERS, dump.growth_bytes, whole
    if outcome in (FailureOutcome.FULL, FailureOutcome.FRAGMENTED, FailureOutcome.UNKNOWN) and is_part_of_card(dump):
        return HeldBy.LIMIT, None, None
    if outcome in (FailureOutcome.FULL, FailureOutcome.FRAGMENTED):
        return HeldBy.OWN, (dump.in_use_bytes or 0) + (dump.outside_bytes or 0) or None, whole
    if outcome is FailureOutcome.TOO_LARGE:
        return HeldBy.NOBODY, None, None
    if outcome is FailureOutcome.LIBRARY and dump.who == host_messages.CONTEXT_OF_CUDA:
        return HeldBy.OTHERS, None, None
    unexplained = exceeds_device(dump) is False or dump.request.needed_bytes is None
    if outcome is FailureOutcome.LIBRARY or (
        outcome is FailureOutcome.UNKNOWN and dump.kind is FailureKind.REQUEST and unexplained
    ):
        return HeldBy.SOMEBODY, None, None
    return None, None, None


def _is_constant(dump: Dump) -> bool | None:
    request = dump.request
    if dump.kind in (FailureKind.KILL, FailureKind.LIBRARY, FailureKind.PROGRAM, FailureKind.HOST):
        return None
    if log_text.is_constant(request):
        return True
    return False if request.op or request.within is not None else None
