"""The producer waits for bytes, not for a processor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from slowtrain.causes import Cause
from slowtrain.figures import plain
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.source.cures import measured
from slowtrain.source.cures.input import ahead
from slowtrain.source.reading.recorded import by_hand, is_interpreted
from slowtrain.trace import Trace
from slowtrain.trace.feeding import (
    READING,
    WAITED,
    busy_cores,
    deciding,
    joined_lines,
    op_ms,
    producers,
    wait_share,
    written_place,
)
from slowtrain.trace.pipeline import Node
from slowtrain.whatif import Drop, Remedy, Supply

IDLE = 0.4  # of the step, with no processor at work at all though something makes input all the time
LEAST_LEFT = 0.02


@dataclass(frozen=True)
class Waiting:
    """``ms`` a step without computing, of the time that making a batch takes; ``left`` is what computing remains."""

    ms: float
    left: float
    where: tuple[Place, ...]
    by_hand: bool = False


class SlowStorage(Cause):
    """Batches come as slowly as a disk, a file share or a network gives their bytes.

    ## What it means
    The code that makes input sits and waits for data. More cores do not help; asking for several
    pieces at once, or for fewer bytes, does.

    ## How it is recognised
    Making a batch takes longer than the rest of the step, reading is what it does, and yet the
    process keeps no core busy meanwhile: the processor time of a step is much shorter than the
    step. The machine's I/O wait and the bytes read a second are shown beside it. Where a batch
    would fit behind the step, prefetching alone is the cure, and where a core is busy, decoding or
    Python is the limit: other causes.

    ## What to do
    Copy the data to a local disk or into memory, keep it there with `cache()`, store fewer bytes
    (uint8 for pictures, compressed records), or read several files at once: `interleave(...,
    num_parallel_calls=tf.data.AUTOTUNE)`, or `map` with 8 to 32 parallel calls.

    ## When it is not worth it
    When the store is at its limit for the whole machine: then only fewer bytes or a copy help.
    """

    title = "Storage is the limit"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.MACHINE})
    symptoms = frozenset({Category.INPUT, Category.PYTHON})

    def examine(self, trace: Trace) -> Evidence | None:
        found = _waiting(trace)
        if found is None:
            return None
        iowait, rate = _mean(trace, "iowait_share"), _rate(trace)
        beside = f"; {plain(rate)} MB/s were read, I/O wait {100 * (iowait or 0):.0f} %" if rate is not None else ""
        return Evidence(
            f"making a batch takes up to {plain(trace.step_ms)} ms, "
            f"{plain(found.ms)} ms of it with no core at work{beside}",
            {"waiting_ms": found.ms, "iowait_share": iowait or 0.0, "read_mb_per_s": rate or 0.0},
            found.where,
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = _waiting(trace)
        if found is None:
            return []
        if found.by_hand:
            return [Drop({Category.PYTHON: found.ms}, 0.0, (0.7, 1.1))]
        return [Supply(found.left, spread=(0.7, 1.1))]

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        pipe = trace.pipeline
        readers = [n for n in deciding(pipe) if _reads(trace, n)] if pipe is not None else []
        node = measured.making(trace) or (readers[0] if readers else None)
        if by_hand(trace) is not None:
            beside = measured.first(trace, evidence.where, ahead.made_ahead)
            says = "fetch the next batch in a background thread while the step runs"
            yield Prescription("edit", Effect.EXACT, says, edits=beside)
        made = measured.kept(trace, evidence.where, node)
        if made:
            says = "keep what was read with .cache(): it fits in memory"
            yield Prescription("edit", Effect.EXACT, says, edits=made, later=True)
        yield Prescription(
            "advice", Effect.EXACT, "read several pieces at once, or copy the data to a local disk or into memory"
        )
        yield Prescription(
            "advice", Effect.EQUIVALENT, "store fewer bytes an element: uint8 instead of floats, compressed records"
        )

    fires = (
        """
        step    1111111111
        input   iiiiiiii..
        device  ........kk
        @fact cpu_ms_per_step=2
        @producer fetch ms=9 calls=2 line=9 hot=11
        @pipeline Range ms=0.1 > Map ms=9 elements=2 line=20 detail={"ops":{"PyFunc":1}} > Batch ms=0.1 line=20
        > Prefetch line=20
        """,
        """
        step    1111111111
        input   iiiiiiii..
        device  ........kk
        @fact cpu_ms_per_step=3
        @sample iowait_share=0.4
        @pipeline Slices ms=0.1 > Map ms=9 elements=2 line=20 detail={"ops":{"ReadFile":1}} > Batch ms=0.1 line=20
        > Prefetch line=20
        """,
    )
    quiet = (
        """
        step    1111111111
        input   iiiiiiii..
        device  ........kk
        @fact cpu_ms_per_step=10
        @pipeline Slices ms=0.1 > Map ms=9 elements=2 line=20 detail={"ops":{"ReadFile":1}} > Batch ms=0.1 line=20
        > Prefetch line=20
        """,
        """
        step    1111111111
        input   iiii......
        device  ....kkkkkk
        @fact cpu_ms_per_step=2
        @producer fetch ms=4 calls=2 line=9 hot=11
        @pipeline Range ms=0.1 > Map ms=4 elements=2 line=20 detail={"ops":{"PyFunc":1}} > Batch ms=0.1 line=20
        """,
    )


SATURATED = 0.9  # busy share of all the machine's cores


def _waiting(trace: Trace) -> Waiting | None:
    busy = busy_cores(trace)
    if busy is None or busy > 1 - IDLE:
        return None
    # On a machine whose cores are all taken, by others perhaps, no core at work for us is no sign of waiting for data.
    if (_mean(trace, "cpu_mean_share") or 0.0) > SATURATED:
        return None
    cpu = busy * trace.step_ms
    hand = by_hand(trace)
    if hand is not None and hand.waiting > 0.5 and hand.ms > trace.step_ms - hand.ms:
        return Waiting(hand.ms * hand.waiting, 1 - hand.waiting, hand.where, True)
    pipe, wait = trace.pipeline, trace.mean(Category.INPUT)
    rest = trace.step_ms - wait
    if pipe is None or wait_share(trace) < WAITED:
        return None
    made = max(pipe.exposed_ms, trace.step_ms if pipe.nodes and pipe.exposed_ms < 0.5 * wait else wait)
    several = producers(trace)
    lines, made_by = joined_lines(several), sum(p.ms_per_step for p in several)
    if is_interpreted(lines, made_by / max(sum(p.calls_per_step for p in several), 1e-9)):
        return None  # the interpreter at work, on a machine that is busy with something else
    where = tuple(line.place for line in lines[:2]) + tuple(p.place for p in several[:2] if p.place)
    readers = [n for n in deciding(pipe) if _reads(trace, n)]
    if made <= rest or not (made_by >= 0.5 * wait or readers):
        return None
    where += tuple(p for n in readers for p in written_place(n))
    where += tuple(w.place for w in pipe.written if w.python and w.place)
    left = max(min((cpu - 0.5 * rest) / made, 1.0), LEAST_LEFT)
    return Waiting(made * (1 - left), left, tuple(dict.fromkeys(where)))


def _reads(trace: Trace, node: Node) -> bool:
    """Whether a node's time goes to reading, as far as its ops were profiled, or as the machine's I/O wait says."""
    if node.name.startswith(("TFRecord", "TextLine", "FixedLengthRecord")):
        return True
    if node.written is None or not READING & set(node.written.ops):
        return False
    inside, read = op_ms(trace, node), op_ms(trace, node, READING)
    if inside and read is not None:
        return read > 0.5 * inside
    return (_mean(trace, "iowait_share") or 0.0) > 0.1


def _mean(trace: Trace, name: str) -> float | None:
    column = trace.samples.get(name)
    return float(np.nanmean(column)) if column is not None and np.isfinite(column).any() else None


def _rate(trace: Trace) -> float | None:
    """MB a second that the process read over the steps, from wherever they came."""
    read, at = trace.samples.get("read_call_bytes"), trace.samples.get("time_ms")
    if read is None or at is None or len(at) < 2 or not len(trace.steps):
        return None
    inside = (at >= trace.steps.start_ms[0]) & (at <= trace.steps.end_ms[-1]) & np.isfinite(read)
    if inside.sum() < 2 or at[inside][-1] <= at[inside][0]:
        return None
    return float((read[inside][-1] - read[inside][0]) / (at[inside][-1] - at[inside][0]) / 1e3)
