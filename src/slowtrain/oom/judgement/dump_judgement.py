"""Judges a failure: the three questions, the outcome, and advice with the bytes that it gives."""

from __future__ import annotations

from collections.abc import Iterator

from slowtrain.model.exhaustion import Advice, Dump, FailureKind, FailureOutcome, JudgedDump, PoolKind, Purpose
from slowtrain.oom.judgement import (
    failure_outcome,
    failure_sentence,
    jax_advice,
    memory_advice,
    memory_questions,
    smaller_request,
)
from slowtrain.oom.text import tensor_purpose


def judge_dump(dump: Dump) -> JudgedDump:
    outcome = failure_outcome.failure_outcome(dump)
    return JudgedDump(
        dump, outcome, failure_sentence.failure_sentence(dump, outcome), tuple(_advice_for(dump, outcome)),
        tensor_purpose.request_purpose(dump.request),
        memory_questions.answer_questions(dump, outcome),
    )  # fmt: skip


def _advice_for(dump: Dump, outcome: FailureOutcome) -> Iterator[Advice]:
    what = tensor_purpose.request_purpose(dump.request)
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
        yield from jax_advice.jax_advice(dump, outcome, tuple(smaller_request.smaller_request_advice(dump, outcome)))
    else:
        yield from _pool_advice(dump, outcome, what)


def _is_unexplained(dump: Dump, what: Purpose) -> bool:
    """Whether nothing in the request explains why it was refused."""
    if memory_questions.is_small_request(dump) or (dump.request.needed is None and dump.in_use_bytes is None):
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
    first, then = smaller_request.smaller_request_advice(dump, outcome), memory_advice.more_memory_advice(dump, outcome)
    if what is Purpose.UNKNOWN:
        first, then = then, first
    yield from first
    yield from then
    if memory_questions.has_no_pool(dump):
        yield Advice("use a machine, a container or a job with more memory")
