"""Judges a failure: the three questions, the outcome, and advice with the bytes that it gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slowtrain.oom import failure_outcome, jax_advice, log_text, memory_advice, memory_questions
from slowtrain.oom.log_text import format_size
from slowtrain.shared.exhaustion import (
    Advice,
    Dump,
    Exhaustion,
    FailureKind,
    FailureOutcome,
    JudgedDump,
    PoolKind,
    Purpose,
)


def judge_dump(dump: Dump) -> JudgedDump:
    outcome = failure_outcome.failure_outcome(dump)
    return JudgedDump(
        dump, outcome, failure_outcome.failure_sentence(dump, outcome), tuple(_advice_for(dump, outcome)),
        log_text.request_purpose(dump.request),
        memory_questions.answer_questions(dump, outcome),
    )  # fmt: skip


def _advice_for(dump: Dump, outcome: FailureOutcome) -> Iterator[Advice]:
    what = log_text.request_purpose(dump.request)
    if dump.kind is FailureKind.KILL:
        yield from memory_advice.kill_advice(dump)
    elif dump.kind is FailureKind.LIBRARY:
        yield from memory_advice.library_advice(dump)
    elif dump.kind is FailureKind.HOST:
        yield from memory_advice.host_advice(dump)
    elif dump.pool is PoolKind.PINNED:
        yield from memory_advice.pinned_advice(dump)
    elif what is Purpose.ARRAY and not memory_questions.is_small_request(dump):
        yield from memory_advice.array_advice(dump)
        if outcome is FailureOutcome.TAKEN:
            yield from memory_advice.taken_advice(dump)
    elif dump.allocator.startswith("TPU"):
        yield from memory_advice.tpu_advice(dump, outcome)
    elif outcome is FailureOutcome.TAKEN and not dump.jax:
        yield from memory_advice.taken_advice(dump)
    elif outcome is FailureOutcome.UNKNOWN and dump.pool is PoolKind.DEVICE and _is_unexplained(dump, what):
        yield from memory_advice.held_advice(dump)
    elif dump.jax and dump.pool is PoolKind.DEVICE:
        yield from jax_advice.jax_advice(dump, outcome, tuple(memory_advice.smaller_request_advice(dump, outcome)))
    else:
        yield from _pool_advice(dump, outcome, what)


def _is_unexplained(dump: Dump, what: Purpose) -> bool:
    """Whether nothing in the request explains why it was refused."""
    if memory_questions.is_small_request(dump) or (dump.request.needed_bytes is None and dump.in_use_bytes is None):
        return True
    # Any card has room for this much. Before the first step, or beside XLA's pool, other allocations held the memory.
    begins = dump.kind is FailureKind.COPY or what is Purpose.VARIABLE or dump.allocator == "XLA"
    return begins and dump.in_use_bytes is None and memory_questions.exceeds_device(dump) is False


def _pool_advice(dump: Dump, outcome: FailureOutcome, what: Purpose) -> Iterator[Advice]:
    if outcome is FailureOutcome.FRAGMENTED:
        yield from memory_advice.fragmentation_advice(dump)
        if memory_questions.fits_without_others(dump):
            yield Advice("stop the other processes on this card (nvidia-smi lists them)", dump.others_bytes, True)
    if outcome is FailureOutcome.FULL and memory_questions.other_framework_bytes(dump):
        yield from memory_advice.other_framework_advice(dump)
    if memory_questions.is_part_of_card(dump) and outcome is not FailureOutcome.FRAGMENTED:
        yield from memory_advice.small_pool_advice()
    if outcome is FailureOutcome.FULL and memory_questions.sufficient_others_bytes(dump):
        yield Advice(
            "stop the other processes on this card (nvidia-smi lists them)",
            memory_questions.sufficient_others_bytes(dump),
            True,
        )
    first, then = memory_advice.smaller_request_advice(dump, outcome), memory_advice.more_memory_advice(dump, outcome)
    if what is Purpose.UNKNOWN:
        first, then = then, first
    yield from first
    yield from then
    if memory_questions.has_no_pool(dump):
        yield Advice("use a machine, a container or a job with more memory")


MAX_LISTED_HOLDERS = 6


def recorded_summary(found: Exhaustion) -> dict[str, Any] | None:
    """None if the log says nothing about memory."""
    sure = [one for one in found.findings if one.dump.sure]
    if not sure and not found.retries:
        return None
    summary: dict[str, Any] = {"dumps": found.dumps, "retries": dict(found.retries)}
    if not sure:
        return summary
    one = sure[0]
    dump, asked = one.dump, one.dump.request
    figures = ("limit_bytes", "in_use_bytes", "free_bytes", "largest_free_bytes", "growth_bytes")
    holders = [
        (h.name or f"{h.count} pieces of {format_size(h.each_bytes)}", h.bytes)
        for h in (dump.by_op or dump.by_size)[:MAX_LISTED_HOLDERS]
    ]
    return summary | {
        "outcome": str(one.outcome),
        "says": one.says,
        "pool": str(dump.pool),
        "allocator": dump.allocator,
        "asked_bytes": asked.needed_bytes,
        "op": asked.op,
        "shape": list(asked.shape) if asked.shape is not None else None,
        "dtype": asked.dtype,
        "site": [asked.place.file, asked.place.line] if asked.place is not None else None,
        "held": holders,
        "advice": [(a.says, a.gain_bytes) for a in one.advice[:MAX_LISTED_HOLDERS]],
        **{name: getattr(dump, name) for name in figures},
    }
