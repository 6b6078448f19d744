"""What a dump means: full, fragmented, taken by others, and what to do about it with its worth in bytes."""

from __future__ import annotations

from collections.abc import Iterator

from slowtrain.dumps import advising, purpose
from slowtrain.dumps.building import CLOSE
from slowtrain.dumps.wording import size
from slowtrain.model.exhaustion import Advice, Dump, Finding, Outcome, Pool, Purpose

FLOATS = ("float", "float32")
FIXED = (Purpose.UPDATE, Purpose.VARIABLE)  # no batch makes these smaller
POOL_NAMES = {Pool.DEVICE: "the device's memory", Pool.PINNED: "the pinned host memory", Pool.HOST: "the host's memory"}


def judged(dump: Dump) -> Finding:
    outcome = _outcome(dump)
    return Finding(dump, outcome, _says(dump, outcome), tuple(_advice(dump, outcome)), purpose.of(dump.request))


def missing(dump: Dump) -> int | None:
    """How many bytes less would have been enough, all pieces taken together; None where it is not known."""
    needed, free = dump.request.needed, dump.free_bytes
    if needed is None or free is None:
        return None
    return max(needed - free - _room(dump), 0)


def _room(dump: Dump) -> int:
    """What the pool could still have grown by, as far as the driver had it."""
    growth = dump.growth_bytes or 0
    return min(growth, dump.driver_free_bytes) if dump.driver_free_bytes is not None else growth


def _outcome(dump: Dump) -> Outcome:
    needed, free = dump.request.needed, dump.free_bytes
    if needed is None:
        return Outcome.UNKNOWN
    if dump.limit_bytes is not None and needed > dump.limit_bytes * (1 + CLOSE):
        return Outcome.TOO_LARGE
    if dump.driver_free_bytes is not None and dump.limit_bytes and dump.in_use_bytes is not None:
        return _of_the_card(dump, needed)
    if dump.growth_bytes is not None and dump.growth_bytes >= needed:
        return Outcome.TAKEN  # it was allowed to grow by more than that, and got nothing
    if free is None:
        return Outcome.UNKNOWN
    if dump.largest_free_bytes is not None and dump.largest_free_bytes >= needed:
        return Outcome.UNKNOWN  # such a piece would have been given: lines of two dumps are mixed
    if free + (dump.growth_bytes or 0) >= needed:
        return Outcome.FRAGMENTED  # what was free in all would have done, and no piece of it did
    return Outcome.FULL


def _of_the_card(dump: Dump, needed: int) -> Outcome:
    """Of allocators that say what the card had left (CUDA's own pool, PyTorch)."""
    left, limit, used = dump.driver_free_bytes or 0, dump.limit_bytes or 0, dump.in_use_bytes or 0
    idle = max((dump.pool_bytes or used) - used, 0)
    if left + idle >= needed:
        return Outcome.FRAGMENTED
    others = limit - left - max(dump.pool_bytes or used, used)
    return Outcome.TAKEN if others >= needed else Outcome.FULL


def _says(dump: Dump, outcome: Outcome) -> str:
    """One sentence."""
    where, needed = POOL_NAMES[dump.pool], size(dump.request.needed)
    asked = f"{needed} asked for"
    free, largest, growth = size(dump.free_bytes), size(dump.largest_free_bytes), size(dump.growth_bytes)
    more = f" and {size(_room(dump))} more to grow by" if _room(dump) else ""
    if outcome is Outcome.FULL:
        return f"{where} was full: {asked}, {free} free in all{more}, {size(missing(dump))} short"
    if outcome is Outcome.FRAGMENTED:
        piece = f"the largest piece {largest}" if dump.largest_free_bytes is not None else "no piece large enough"
        total = dump.free_bytes
        if dump.driver_free_bytes is not None:
            total = (dump.pool_bytes or 0) - (dump.in_use_bytes or 0) + dump.driver_free_bytes
            return f"{where} was fragmented: {asked}, {size(total)} free in all, in no one piece"
        return f"{where} was fragmented: {asked}, {free} free in all{more}, {piece}"
    if outcome is Outcome.TAKEN:
        if dump.pool is Pool.DEVICE and dump.driver_free_bytes is not None:
            held = size((dump.limit_bytes or 0) - dump.driver_free_bytes - (dump.pool_bytes or dump.in_use_bytes or 0))
            return f"{held} of the card was held by others: {asked}, {size(dump.driver_free_bytes)} left on it"
        had = "the card had not that much left" if dump.pool is Pool.DEVICE else "the system did not give that much"
        return f"{asked}, the pool was still allowed to grow by {growth}, but {had}: others hold it"
    if outcome is Outcome.TOO_LARGE:
        return f"{asked} in one piece, more than the whole pool of {size(dump.limit_bytes)}: it can never fit"
    if dump.request.needed is None:
        return f"{where} ran out; the log is cut before it says how much was asked for"
    part = dump.by_size or dump.in_use_bytes is not None or dump.free_bytes is not None
    holds = "has a part of the allocator's dump alone" if part else "does not hold the allocator's dump"
    says = f"{asked}; the log {holds}, so whether it was full or fragmented is not known"
    if dump.used_share is not None:
        says += f" (its map has {dump.used_share:.0%} of the pool in use)"
    return says


def _advice(dump: Dump, outcome: Outcome) -> Iterator[Advice]:
    if dump.pool is Pool.PINNED:
        yield from _for_pinned(dump)
        return
    if dump.jax and dump.pool is Pool.DEVICE:
        yield from advising.jax(dump, outcome, tuple(_smaller(dump, outcome)))
        return
    if outcome is Outcome.TAKEN:
        yield from _for_taken(dump)
    if outcome is Outcome.FRAGMENTED:
        yield from _for_fragments(dump)
    if outcome is Outcome.TAKEN:
        return
    first, then = _smaller(dump, outcome), _larger(dump, outcome)
    if purpose.of(dump.request) is Purpose.UNKNOWN:
        first, then = then, first
    yield from first
    yield from then


def _larger(dump: Dump, outcome: Outcome) -> Iterator[Advice]:
    """More memory: what is short is known of this one request, and of none that would have come after it."""
    what = purpose.of(dump.request)
    short = missing(dump) if outcome is Outcome.FULL else None
    alone = " for this tensor alone; what comes after it is not in this log" if short else ""
    if short and what is Purpose.VARIABLE:
        alone += ": the rest of the model, what the optimizer keeps and the first step (slowtrain memory measures them)"
    if dump.pool is Pool.HOST and dump.limit_bytes:
        by = f" by {size(short)} or more" if short else ""
        yield Advice(f"raise the limit of the host's pool (TF_CPU_BFC_MEM_LIMIT_IN_MB){by}{alone}")
    elif dump.pool is Pool.DEVICE and what in FIXED:
        more = f": {size(short)} or more" if short else ""
        yield Advice(f"a card with more memory, or a larger memory_limit where one is set{more}{alone}")


def _for_pinned(dump: Dump) -> Iterator[Advice]:
    yield Advice("it is host memory, not the GPU's: a smaller batch or model on the GPU is no cure by itself")
    yield Advice("buffer fewer or smaller batches: less prefetch, uint8 instead of float32 up to the device")
    limit = f" above {size(dump.limit_bytes)}" if dump.limit_bytes else ""
    yield Advice(f"let the pool grow{limit} where the machine has the memory: TF_GPU_HOST_MEM_LIMIT_IN_MB")


def _for_taken(dump: Dump) -> Iterator[Advice]:
    needed = dump.request.needed or 0
    if dump.pool is Pool.DEVICE:
        gain = dump.growth_bytes
        if dump.driver_free_bytes is not None:
            gain = max(
                (dump.limit_bytes or 0) - dump.driver_free_bytes - (dump.pool_bytes or dump.in_use_bytes or 0), 0
            )
        enough = None if gain is None else gain + (dump.free_bytes or 0) >= needed
        yield Advice("end the other processes on this card (nvidia-smi lists them), or use another card", gain, enough)
        yield Advice(
            "where both are yours, give each a share: set_memory_growth, or a LogicalDevice with a memory_limit"
        )
    else:
        yield Advice("the machine or its container has no memory left: give it more, or end what holds it")


def _for_fragments(dump: Dump) -> Iterator[Advice]:
    usable = dump.free_bytes
    if dump.pool is Pool.DEVICE and "PyTorch" in dump.allocator:
        yield Advice("set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which joins free pieces")
    elif dump.pool is Pool.DEVICE and dump.driver_free_bytes is None:
        yield Advice("set TF_GPU_ALLOCATOR=cuda_malloc_async, which joins free pieces", usable,
                     usable is not None and usable >= (dump.request.needed or 0))  # fmt: skip
    if (dump.regions or 0) > 1:
        yield Advice(
            f"the pool grew in {dump.regions} regions, which are never joined: "
            + (
                "leave set_memory_growth off, so that it is one"
                if dump.pool is Pool.DEVICE
                else "allocate what is large first"
            )
        )
    yield Advice("keep shapes the same from step to step (pad, drop_remainder=True): freed pieces then fit again")


def _smaller(dump: Dump, outcome: Outcome) -> Iterator[Advice]:
    """Less of it: halving the batch halves this tensor, where the batch is its first axis."""
    request, needed, what = dump.request, dump.request.needed, purpose.of(dump.request)
    if what in FIXED:
        yield from _smaller_model(dump, what)
    if needed is None or what in FIXED:
        return
    if what is Purpose.UNKNOWN:
        yield from _maybe_smaller(dump, needed)
        return
    enough = None
    free = dump.largest_free_bytes
    if free is not None:
        enough = True if needed / 2 <= free else None
    alike = sum(h.bytes for h in dump.by_size if h.each_bytes and abs(h.each_bytes - needed) <= 256)
    gain = (needed + alike) // 2
    first = f", {request.shape[0]} here" if request.shape else ""
    also = f", with {size(alike)} in pieces of the same size" if alike else ""
    yield Advice(f"halve the batch: if it is the first axis{first}, this tensor needs half{also}", gain, enough)
    if request.dtype in FLOATS and dump.pool is Pool.DEVICE:
        yield Advice("mixed_float16 halves this tensor and every activation like it", gain, enough)
    if outcome is Outcome.TOO_LARGE:
        yield Advice("compute it in parts: no setting of the allocator makes one piece larger than the pool")


def _smaller_model(dump: Dump, what: Purpose) -> Iterator[Advice]:
    """Of a variable, or of its update: as large as the variable is, whatever the batch."""
    made = "it is a variable that was being made" if what is Purpose.VARIABLE else "it is of a variable's update"
    later = ", once the model is made" if what is Purpose.VARIABLE else ""
    yield Advice(
        f"a smaller model (fewer units, smaller tables): {made}, which no smaller batch makes smaller"
        + (" (but for sparse gradients of an embedding)" if what is Purpose.UPDATE else "")
    )
    yield Advice(
        f"an optimizer with less state: Adam keeps two values for each weight{later}, SGD with momentum one, plain SGD "
        "none"
    )
    if dump.request.dtype in ("", *FLOATS):
        yield Advice(
            "weights of lower precision: the dtype policy bfloat16 halves them (mixed_float16 keeps them in 32 bits)"
        )


def _maybe_smaller(dump: Dump, needed: int) -> Iterator[Advice]:
    """Of what may be a batch's or a weight's."""
    request = dump.request
    first = f" and its first axis, {request.shape[0]} here, the batch" if request.shape else ""
    yield Advice(
        f"where this is made of a batch{first}: halve the batch, and it needs half. A weight, its gradient and what an "
        "optimizer keeps stay as large; which of these it is, the log does not tell",
        needed // 2,
    )
    if request.dtype in FLOATS and dump.pool is Pool.DEVICE:
        yield Advice("mixed_float16, which halves activations and no weights", needed // 2)
