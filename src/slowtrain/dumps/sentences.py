"""Describes a failure in one sentence."""

from __future__ import annotations

from slowtrain.dumps import killing, libraries, outcomes, purpose, questions
from slowtrain.dumps.building import CLOSE
from slowtrain.dumps.wording import size
from slowtrain.model.exhaustion import Dump, Kind, Outcome, Pool, Purpose

POOL_NAMES = {Pool.DEVICE: "the device's memory", Pool.PINNED: "the pinned host memory", Pool.HOST: "the host's memory"}


def of(dump: Dump, outcome: Outcome) -> str:
    if dump.kind is Kind.KILL:
        return _killed(dump)
    if dump.kind is Kind.LIBRARY:
        return _library(dump)
    if dump.kind is Kind.HOST or questions.without_pool(dump):
        return _host(dump)
    if outcome is Outcome.TOO_LARGE:
        return _too_large(dump)
    if outcome is Outcome.TAKEN:
        return _taken(dump)
    if outcome in (Outcome.FULL, Outcome.FRAGMENTED):
        return (_full(dump) if outcome is Outcome.FULL else _fragmented(dump)) + _little(dump)
    return _unknown(dump) + _little(dump)


def _little(dump: Dump) -> str:
    """For a pool that is smaller than any card."""
    if not questions.part_of_a_card(dump):
        return ""
    return (
        f"; the pool got only {size(dump.limit_bytes)} when the run began, for other processes held the card or a "
        "limit was set"
    )


def _asked(dump: Dump) -> str:
    needed = size(dump.request.needed)
    if purpose.of(dump.request) is Purpose.ARRAY:
        return f"{needed} asked for to make a constant of an array"
    return f"{needed} asked for"


def _full(dump: Dump) -> str:
    room = outcomes.room_bytes(dump)
    more = f" and {size(room)} more to grow by" if room else ""
    free, short = outcomes.free_bytes(dump), outcomes.missing_bytes(dump)
    if dump.driver_free_bytes is not None:
        free = max((dump.pool_bytes or dump.in_use_bytes or 0) - (dump.in_use_bytes or 0), 0) + dump.driver_free_bytes
        more, short = "", max((dump.request.needed or 0) - free, 0)
    beside = ""
    if questions.outside_bytes(dump):
        beside = f"; this process holds {size(dump.outside_bytes)} beside PyTorch's pool"
    if not beside and questions.others_too(dump):
        beside = f"; other processes held {size(questions.others_too(dump))}"
    held = "" if dump.in_use_bytes is None or not questions.small(dump) else f"; {_in_use(dump)} was in use before"
    return (
        f"{POOL_NAMES[dump.pool]} was full: {_asked(dump)}, {size(free)} free in all{more}, {size(short)} short"
        f"{beside or held}"
    )


def _in_use(dump: Dump) -> str:
    whole = dump.device_bytes or dump.limit_bytes
    if whole and dump.in_use_bytes and dump.in_use_bytes > whole * (1 + CLOSE):
        return f"{size(dump.in_use_bytes)}, more than the card's {size(whole)} (the driver keeps the rest on the host),"
    return size(dump.in_use_bytes) + (f" of {size(whole)}" if whole else "")


def _fragmented(dump: Dump) -> str:
    where, asked = POOL_NAMES[dump.pool], _asked(dump)
    if dump.driver_free_bytes is not None:
        total = (dump.pool_bytes or dump.in_use_bytes or 0) - (dump.in_use_bytes or 0) + dump.driver_free_bytes
        return f"{where} was fragmented: {asked}, {size(total)} free in all, in no one piece"
    piece = (
        f"the largest piece {size(dump.largest_free_bytes)}"
        if dump.largest_free_bytes is not None
        else "no piece large enough"
    )
    room = outcomes.room_bytes(dump)
    more = f" and {size(room)} more to grow by" if room else ""
    return f"{where} was fragmented: {asked}, {size(dump.free_bytes)} free in all{more}, {piece}"


def _taken(dump: Dump) -> str:
    asked, whole = _asked(dump), size(dump.device_bytes or dump.limit_bytes)
    if dump.pool is not Pool.DEVICE:
        grow = size(dump.growth_bytes)
        return (
            f"{asked}, the pool was still allowed to grow by {grow}, but the system did not give that much: "
            "others hold it"
        )
    if dump.others_bytes is not None:
        left = f", {size(dump.driver_free_bytes)} left on it" if dump.driver_free_bytes is not None else ""
        return f"other processes held {size(dump.others_bytes)} of the card's {whole}: {asked}{left}"
    others = questions.others_bytes(dump)
    if dump.free_at_start_bytes is not None and others is not None:
        pool = f"; the pool got {size(dump.limit_bytes)}" if dump.limit_bytes is not None else ""
        return f"other processes held {size(others)} of the card's {whole} before the run began: {asked}{pool}"
    if questions.part_of_a_card(dump):
        of_card = f"of the card's {whole}" if dump.device_bytes is not None else "(any card has more)"
        return (
            f"the pool got only {size(dump.limit_bytes)} {of_card} when the run began: other processes held the rest, "
            f"or a limit was set; {asked}"
        )
    if dump.driver_free_bytes is not None:
        return f"{size(others)} of the card was held by others: {asked}, {size(dump.driver_free_bytes)} left on it"
    grow = size(dump.growth_bytes)
    return f"{asked}, the pool was still allowed to grow by {grow}, but the card had not that much left: others hold it"


def _too_large(dump: Dump) -> str:
    needed, limit = dump.request.needed, dump.limit_bytes or dump.device_bytes
    if dump.kind is Kind.PROGRAM:
        space = dump.allocator.removeprefix("TPU").strip() or "device memory"
        over = _exact((needed or 0) - (limit or 0), (needed or 0) >= 1 << 30)
        return f"the compiled program needs {_exact(needed)} of {_exact(limit)} of {space}: {over} too much"
    if purpose.of(dump.request) is Purpose.ARRAY:
        return (
            f"a whole array of {size(needed)} was to be put on the device as a constant, more than all of its "
            f"{size(limit)}: it can never fit"
        )
    if limit is None:
        return f"{_asked(dump)} in one piece, more than any single device has: it can never fit"
    whole = "the whole pool" if dump.limit_bytes is not None else "the whole device"
    return f"{_asked(dump)} in one piece, more than {whole} of {size(limit)}: it can never fit"


def _exact(value: int | None, large: bool = False) -> str:
    """The size with as many digits and in the unit that the compiler's message uses;

    ``large`` figures have one unit.
    """
    if value is None:
        return size(value)
    return f"{value / 2**30:.2f} GiB" if large or value >= 1 << 30 else f"{value / 2**20:.2f} MiB"


def _killed(dump: Dump) -> str:
    if dump.who == killing.SHARED:
        return "the shared memory (/dev/shm) of the data loader's workers ran out"
    held = f"; it held {size(dump.in_use_bytes)}" if dump.in_use_bytes else ""
    if dump.in_use_bytes and dump.in_use_bytes < killing.LEAST_PYTHON_BYTES:
        held += ", less than any Python: another process of it filled the memory"
    held += f" of a limit of {size(dump.limit_bytes)}" if dump.limit_bytes else ""
    large = f"; it had allocated {size(dump.refused_bytes)} at once" if dump.refused_bytes and not held else ""
    if dump.sure or dump.refused_bytes:
        name = f" ({dump.allocator})" if dump.allocator else ""
        return f"{dump.who} killed the process{name}: the host's memory ran out, not the device's{held}{large}"
    return (
        "the system killed the process (SIGKILL): most often since the host's memory ran out; the kernel's log "
        "(dmesg), or kubectl describe pod, says whether it was that"
    )


def _host(dump: Dump) -> str:
    asked = "more of it" if dump.request.needed is None else size(dump.request.needed)
    shape = f" for {list(dump.request.shape)}" if dump.request.shape is not None else ""
    whom = "Python" if dump.allocator == "the system" else dump.allocator
    whom = "TensorFlow" if "cpu" in whom else whom
    return f"the host's memory ran out: {whom} asked for {asked} at once{shape}, and the system refused"


def _library(dump: Dump) -> str:
    free = f", {size(dump.driver_free_bytes)} free on the card" if dump.driver_free_bytes is not None else ""
    if dump.other_reason:
        return f"{dump.who} could not begin, and memory is not the reason: {dump.other_reason}{free}"
    if not dump.sure:
        return f"{dump.who} could not begin{free}; whether for want of memory, the log does not tell"
    if dump.who == libraries.CONTEXT_OF_CUDA:
        return "the card had not even the memory to begin: other processes hold all of it"
    refused = f"; the driver had refused {size(dump.refused_bytes)} to the pool before" if dump.refused_bytes else ""
    return f"{dump.who} failed for want of the device's memory, which it takes beside the pool{refused}{free}"


def _unknown(dump: Dump) -> str:
    where, request = POOL_NAMES[dump.pool], dump.request
    if dump.kind is Kind.COPY:
        what = "a whole array was copied to it as a constant"
        what = what if purpose.of(request) is Purpose.ARRAY else "a tensor was copied to it"
        if request.needed is not None:
            return f"{where} ran out when {what.replace('was', f'of {size(request.needed)} was', 1)}"
        return f"{where} ran out when {what}; the log does not say how large it is"
    if request.needed is None:
        if request.shape is not None:
            return f"{where} ran out when a tensor {list(request.shape)} was asked for; the log does not say by what"
        if not dump.by_size and dump.in_use_bytes is None:
            return f"{where} ran out; the error names no size"
        return f"{where} ran out; the log is cut before it says how much was asked for"
    figures = (dump.in_use_bytes, dump.free_bytes, dump.largest_free_bytes)
    part = dump.by_size or any(figure is not None for figure in figures)
    holds = "has a part of the allocator's dump alone" if part else "does not hold the allocator's dump"
    says = f"{_asked(dump)}; the log {holds}, so whether it was full or fragmented is not known"
    if questions.small(dump) and dump.pool is Pool.DEVICE and not part:
        says = (
            f"{size(request.needed)} were refused, which is little: the pool or the card was held already, by this "
            "process or others; by whom is not known, for the log does not hold the allocator's dump"
        )
    if dump.used_share is not None:
        says += f" (its map has {dump.used_share:.0%} of the pool in use)"
    return says
