"""What a failed request means, as a value and as a sentence."""

from __future__ import annotations

from slowtrain.oom import host_messages, log_text, memory_questions
from slowtrain.oom.dump_builder import ROUNDING_SHARE
from slowtrain.oom.log_text import format_size
from slowtrain.shared.exhaustion import Dump, FailureKind, FailureOutcome, PoolKind, Purpose


def failure_outcome(dump: Dump) -> FailureOutcome:
    needed = dump.request.needed_bytes
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
    needed, free = dump.request.needed_bytes, free_bytes(dump)
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


POOL_NAMES = {
    PoolKind.DEVICE: "the device's memory",
    PoolKind.PINNED: "the pinned host memory",
    PoolKind.HOST: "the host's memory",
}


def failure_sentence(dump: Dump, outcome: FailureOutcome) -> str:
    if dump.kind is FailureKind.KILL:
        return _kill_sentence(dump)
    if dump.kind is FailureKind.LIBRARY:
        return _library_sentence(dump)
    if dump.kind is FailureKind.HOST or memory_questions.has_no_pool(dump):
        return _host_sentence(dump)
    if outcome is FailureOutcome.TOO_LARGE:
        return _too_large_sentence(dump)
    if outcome is FailureOutcome.TAKEN:
        return _taken_sentence(dump)
    if outcome in (FailureOutcome.FULL, FailureOutcome.FRAGMENTED):
        return (
            _full_sentence(dump) if outcome is FailureOutcome.FULL else _fragmented_sentence(dump)
        ) + _small_pool_sentence(dump)
    return _unknown_sentence(dump) + _small_pool_sentence(dump)


def _small_pool_sentence(dump: Dump) -> str:
    """For a pool that is smaller than any card."""
    if not memory_questions.is_part_of_card(dump):
        return ""
    return (
        f"; the pool got only {format_size(dump.limit_bytes)} when the run began, because other processes held the "
        "card or a limit was set"
    )


def _request_phrase(dump: Dump) -> str:
    needed = format_size(dump.request.needed_bytes)
    if log_text.request_purpose(dump.request) is Purpose.ARRAY:
        return f"{needed} requested to turn an array into a constant"
    return f"{needed} requested"


def _full_sentence(dump: Dump) -> str:
    room = room_bytes(dump)
    more = f" and {format_size(room)} left to grow" if room else ""
    free, short = free_bytes(dump), missing_bytes(dump)
    if dump.driver_free_bytes is not None:
        free = max((dump.pool_bytes or dump.in_use_bytes or 0) - (dump.in_use_bytes or 0), 0) + dump.driver_free_bytes
        more, short = "", max((dump.request.needed_bytes or 0) - free, 0)
    outside = ""
    if memory_questions.other_framework_bytes(dump):
        outside = f"; this process holds {format_size(dump.outside_bytes)} outside PyTorch's pool"
    if not outside and memory_questions.sufficient_others_bytes(dump):
        outside = f"; other processes held {format_size(memory_questions.sufficient_others_bytes(dump))}"
    others = (
        ""
        if dump.in_use_bytes is None or not memory_questions.is_small_request(dump)
        else f"; {_in_use_phrase(dump)} was already in use"
    )
    return (
        f"{POOL_NAMES[dump.pool]} was full: {_request_phrase(dump)}, {format_size(free)} free in total{more}, "
        f"{format_size(short)} short{outside or others}"
    )


def _in_use_phrase(dump: Dump) -> str:
    whole = dump.device_bytes or dump.limit_bytes
    if whole and dump.in_use_bytes and dump.in_use_bytes > whole * (1 + ROUNDING_SHARE):
        return (
            f"{format_size(dump.in_use_bytes)}, more than the card's {format_size(whole)} (the driver keeps the "
            "rest on the host),"
        )
    return format_size(dump.in_use_bytes) + (f" of {format_size(whole)}" if whole else "")


def _fragmented_sentence(dump: Dump) -> str:
    where, asked = POOL_NAMES[dump.pool], _request_phrase(dump)
    if dump.driver_free_bytes is not None:
        total = (dump.pool_bytes or dump.in_use_bytes or 0) - (dump.in_use_bytes or 0) + dump.driver_free_bytes
        return f"{where} was fragmented: {asked}, {format_size(total)} free in total, but not in one piece"
    piece = (
        f"largest free piece {format_size(dump.largest_free_bytes)}"
        if dump.largest_free_bytes is not None
        else "no free piece large enough"
    )
    room = room_bytes(dump)
    more = f" and {format_size(room)} left to grow" if room else ""
    return f"{where} was fragmented: {asked}, {format_size(dump.free_bytes)} free in total{more}, {piece}"


def _taken_sentence(dump: Dump) -> str:
    asked, whole = _request_phrase(dump), format_size(dump.device_bytes or dump.limit_bytes)
    if dump.pool is not PoolKind.DEVICE:
        grow = format_size(dump.growth_bytes)
        return (
            f"{asked}, the pool could still grow by {grow}, but the system did not provide that much: other "
            "processes hold it"
        )
    if dump.others_bytes is not None:
        left = f", {format_size(dump.driver_free_bytes)} left on it" if dump.driver_free_bytes is not None else ""
        return f"other processes held {format_size(dump.others_bytes)} of the card's {whole}: {asked}{left}"
    others = memory_questions.others_bytes(dump)
    if dump.free_at_start_bytes is not None and others is not None:
        pool = f"; the pool got {format_size(dump.limit_bytes)}" if dump.limit_bytes is not None else ""
        return f"other processes held {format_size(others)} of the card's {whole} before the run began: {asked}{pool}"
    if memory_questions.is_part_of_card(dump):
        of_card = f"of the card's {whole}" if dump.device_bytes is not None else "(less than any card has)"
        return (
            f"the pool got only {format_size(dump.limit_bytes)} {of_card} when the run began: other processes held "
            f"the rest, or a limit was set; {asked}"
        )
    if dump.driver_free_bytes is not None:
        return (
            f"other processes held {format_size(others)} of the card: {asked}, "
            f"{format_size(dump.driver_free_bytes)} left on it"
        )
    grow = format_size(dump.growth_bytes)
    return (
        f"{asked}, the pool could still grow by {grow}, but the card did not have that much left: other processes "
        "hold it"
    )


def _too_large_sentence(dump: Dump) -> str:
    needed, limit = dump.request.needed_bytes, dump.limit_bytes or dump.device_bytes
    if dump.kind is FailureKind.PROGRAM:
        space = dump.allocator.removeprefix("TPU").strip() or "device memory"
        over = _compiler_size((needed or 0) - (limit or 0), (needed or 0) >= 1 << 30)
        return (
            f"the compiled program needs {_compiler_size(needed)}, but {space} has {_compiler_size(limit)}: {over} "
            "too much"
        )
    if log_text.request_purpose(dump.request) is Purpose.ARRAY:
        return (
            f"a whole array of {format_size(needed)} was to be put on the device as a constant, but the device has "
            f"only {format_size(limit)}: it can never fit"
        )
    if limit is None:
        return f"{_request_phrase(dump)} in one piece, more than any device has: it can never fit"
    whole = "the whole pool" if dump.limit_bytes is not None else "the whole device"
    return f"{_request_phrase(dump)} in one piece, more than {whole} of {format_size(limit)}: it can never fit"


def _compiler_size(value: int | None, large: bool = False) -> str:
    """The size with as many digits and in the unit that the compiler's message uses;

    ``large`` figures have one unit.
    """
    if value is None:
        return format_size(value)
    return f"{value / 2**30:.2f} GiB" if large or value >= 1 << 30 else f"{value / 2**20:.2f} MiB"


def _kill_sentence(dump: Dump) -> str:
    if dump.who == host_messages.SHARED_MEMORY:
        return "the shared memory (/dev/shm) of the data loader's workers ran out"
    memory = f"; it held {format_size(dump.in_use_bytes)}" if dump.in_use_bytes else ""
    if dump.in_use_bytes and dump.in_use_bytes < host_messages.MIN_PYTHON_BYTES:
        memory += ", less than any Python process needs: another of its processes filled the memory"
    memory += f" of a limit of {format_size(dump.limit_bytes)}" if dump.limit_bytes else ""
    large = f"; it had allocated {format_size(dump.refused_bytes)} at once" if dump.refused_bytes and not memory else ""
    if dump.sure or dump.refused_bytes:
        name = f" ({dump.allocator})" if dump.allocator else ""
        return f"{dump.who} killed the process{name}: the host's memory ran out, not the device's{memory}{large}"
    return (
        "the system killed the process (SIGKILL), usually because the host's memory ran out; the kernel's log "
        "(dmesg) or kubectl describe pod shows whether that was the reason"
    )


def _host_sentence(dump: Dump) -> str:
    asked = "more" if dump.request.needed_bytes is None else format_size(dump.request.needed_bytes)
    shape = f" for {list(dump.request.shape)}" if dump.request.shape is not None else ""
    whom = "Python" if dump.allocator == "the system" else dump.allocator
    whom = "TensorFlow" if "cpu" in whom else whom
    return f"the host's memory ran out: {whom} requested {asked} at once{shape}, and the system refused"


def _library_sentence(dump: Dump) -> str:
    free = f", {format_size(dump.driver_free_bytes)} free on the card" if dump.driver_free_bytes is not None else ""
    if dump.other_reason:
        return f"{dump.who} could not start, but not because of memory: {dump.other_reason}{free}"
    if not dump.sure:
        return f"{dump.who} could not start{free}; the log does not show whether memory ran out"
    if dump.who == host_messages.CONTEXT_OF_CUDA:
        return "the card did not even have the memory to start: other processes hold all of it"
    refused = (
        f"; the driver had refused {format_size(dump.refused_bytes)} to the pool before" if dump.refused_bytes else ""
    )
    return f"{dump.who} failed because it found no device memory outside the pool{refused}{free}"


def _unknown_sentence(dump: Dump) -> str:
    where, request = POOL_NAMES[dump.pool], dump.request
    if dump.kind is FailureKind.COPY:
        what = "a whole array was copied to it as a constant"
        what = what if log_text.request_purpose(request) is Purpose.ARRAY else "a tensor was copied to it"
        if request.needed_bytes is not None:
            return f"{where} ran out when {what.replace('was', f'of {format_size(request.needed_bytes)} was', 1)}"
        return f"{where} ran out when {what}; the log does not show its size"
    if request.needed_bytes is None:
        if request.shape is not None:
            return (
                f"{where} ran out when a tensor {list(request.shape)} was requested; the log does not show by which op"
            )
        if not dump.by_size and dump.in_use_bytes is None:
            return f"{where} ran out; the error gives no size"
        return f"{where} ran out; the log ends before the size of the request"
    figures = (dump.in_use_bytes, dump.free_bytes, dump.largest_free_bytes)
    part = dump.by_size or any(figure is not None for figure in figures)
    holds = "has only a part of the allocator's dump" if part else "does not hold the allocator's dump"
    says = f"{_request_phrase(dump)}; the log {holds}, so it is unknown whether the memory was full or fragmented"
    if memory_questions.is_small_request(dump) and dump.pool is PoolKind.DEVICE and not part:
        says = (
            f"a small request of {format_size(request.needed_bytes)} was refused: this process or others already held "
            "the pool or the card; who held it is unknown, because the log does not hold the allocator's dump"
        )
    if dump.used_share is not None:
        says += f" (the allocator's map shows {dump.used_share:.0%} of the pool in use)"
    return says
