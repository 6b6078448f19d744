"""Judges a failure: the three questions, the outcome, and advice with the bytes that it gives."""

from __future__ import annotations

from collections.abc import Iterator

from slowtrain.dumps import advising, outcomes, purpose, questions, remedies, sentences, shrinking
from slowtrain.model.exhaustion import Advice, Dump, Finding, Kind, Outcome, Pool, Purpose


def judged(dump: Dump) -> Finding:
    outcome = outcomes.of(dump)
    return Finding(
        dump, outcome, sentences.of(dump, outcome), tuple(_advice(dump, outcome)), purpose.of(dump.request),
        questions.of(dump, outcome),
    )  # fmt: skip


def _advice(dump: Dump, outcome: Outcome) -> Iterator[Advice]:
    what = purpose.of(dump.request)
    if dump.kind is Kind.KILL:
        yield from remedies.killed(dump)
    elif dump.kind is Kind.LIBRARY:
        yield from remedies.library(dump)
    elif dump.kind is Kind.HOST:
        yield from remedies.host(dump)
    elif dump.pool is Pool.PINNED:
        yield from remedies.pinned(dump)
    elif what is Purpose.ARRAY and not questions.small(dump):
        yield from remedies.array(dump)
        if outcome is Outcome.TAKEN:
            yield from remedies.taken(dump)
    elif dump.allocator.startswith("TPU"):
        yield from remedies.tpu(dump, outcome)
    elif outcome is Outcome.TAKEN and not dump.jax:
        yield from remedies.taken(dump)
    elif outcome is Outcome.UNKNOWN and dump.pool is Pool.DEVICE and _unexplained(dump, what):
        yield from remedies.held(dump)
    elif dump.jax and dump.pool is Pool.DEVICE:
        yield from advising.jax(dump, outcome, tuple(shrinking.smaller(dump, outcome)))
    else:
        yield from _of_the_pool(dump, outcome, what)


def _unexplained(dump: Dump, what: Purpose) -> bool:
    """Whether nothing in the request explains why it was refused."""
    if questions.small(dump) or (dump.request.needed is None and dump.in_use_bytes is None):
        return True
    # Any card has room for this much. Before the first step, or beside XLA's pool, other allocations held the memory.
    begins = dump.kind is Kind.COPY or what is Purpose.VARIABLE or dump.allocator == "XLA"
    return begins and dump.in_use_bytes is None and questions.alone(dump) is False


def _of_the_pool(dump: Dump, outcome: Outcome, what: Purpose) -> Iterator[Advice]:
    if outcome is Outcome.FRAGMENTED:
        yield from remedies.fragments(dump)
        if questions.others_enough(dump):
            yield Advice("end the other processes on this card (nvidia-smi lists them)", dump.others_bytes, True)
    if outcome is Outcome.FULL and questions.outside_bytes(dump):
        yield from remedies.outside(dump)
    if questions.part_of_a_card(dump) and outcome is not Outcome.FRAGMENTED:
        yield from remedies.little()
    if outcome is Outcome.FULL and questions.others_too(dump):
        yield Advice("end the other processes on this card (nvidia-smi lists them)", questions.others_too(dump), True)
    first, then = shrinking.smaller(dump, outcome), remedies.larger(dump, outcome)
    if what is Purpose.UNKNOWN:
        first, then = then, first
    yield from first
    yield from then
    if questions.without_pool(dump):
        yield Advice("a machine, a container or a job with more memory")
