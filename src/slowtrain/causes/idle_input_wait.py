"""Input that is slow because its producer waits while no core works, and whether it waits for bytes to be read."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from slowtrain.columns.input_pipeline import Node
from slowtrain.model import Category, Place, Signal
from slowtrain.script.locations.recorded_sources import handmade_input, is_interpreted
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift.machine_conditions import MIN_DISK_BYTES_PER_S, MIN_GROWTH_PART
from slowtrain.trace.signals.host.stalls import machine_cores
from slowtrain.trace.signals.input_feed import (
    MIN_WAIT_SHARE,
    READING_OPS,
    busy_cores,
    input_wait_share,
    merge_producer_lines,
    profiled_op_ms,
    slowest_stage_nodes,
    user_lines,
    user_producers,
)

MIN_IDLE_SHARE = 0.4  # of the step without a working processor, although input is being made
MIN_LEFT_SHARE = 0.02  # of a batch's time that computing keeps
MAX_MACHINE_BUSY_SHARE = 0.9  # of all cores of the machine
READ_COLUMNS = ("read_call_bytes", "read_bytes")  # all files that are read; mapped files that a disk reads


class IdleInputWait(Struct, frozen=True):
    """``ms`` per step without computing, of the ``made_ms`` that a batch takes. ``left``: the share that computes.

    ``reads``: the part that waits is nodes that read files, or ops in them.
    """

    ms: float
    made_ms: float
    left: float
    where: tuple[Place, ...]
    by_hand: bool = False
    reads: bool = False


def find_idle_input_wait(trace: Trace) -> IdleInputWait | None:
    """None if the steps do not wait in this way, or if that is not known."""
    busy = busy_cores(trace)
    if busy is None or busy > 1 - MIN_IDLE_SHARE:
        return None
    # If all cores of the machine are busy, perhaps for other processes, our idle cores are no sign of waiting for data.
    if (mean_sample(trace, "cpu_mean_share") or 0.0) > MAX_MACHINE_BUSY_SHARE:
        return None
    cpu = busy * trace.step_ms
    hand = handmade_input(trace)
    if hand is not None and hand.waiting > 0.5 and hand.ms > trace.step_ms - hand.ms:
        return IdleInputWait(hand.ms * hand.waiting, hand.ms, 1 - hand.waiting, hand.where, by_hand=True)
    pipe, wait = trace.pipeline, trace.mean(Category.INPUT)
    rest = trace.step_ms - wait
    if pipe is None or input_wait_share(trace) < MIN_WAIT_SHARE:
        return None
    # With several threads that make batches, one batch takes longer than a step.
    made = min(max(pipe.exposed_ms, wait), trace.step_ms)
    made = trace.step_ms if pipe.nodes and pipe.exposed_ms < 0.5 * wait else made
    several = user_producers(trace)
    lines, made_by = merge_producer_lines(several), sum(p.ms_per_step for p in several)
    if is_interpreted(lines, made_by / max(sum(p.calls_per_step for p in several), 1e-9)):
        return None  # the interpreter works, on a machine that is busy otherwise
    where = tuple(line.place for line in lines[:2]) + tuple(p.place for p in several[:2] if p.place)
    readers = [n for n in slowest_stage_nodes(pipe) if reads_files(trace, n)]
    if made <= rest or not (made_by >= 0.5 * wait or readers):
        return None
    where += tuple(p for n in readers for p in user_lines(n))
    where += tuple(w.place for w in pipe.written if w.python and w.place)
    left = max(min((cpu - 0.5 * rest) / made, 1.0), MIN_LEFT_SHARE)
    return IdleInputWait(made * (1 - left), made, left, tuple(dict.fromkeys(where)), reads=bool(readers))


def waits_for_bytes(trace: Trace, found: IdleInputWait) -> bool | None:
    """Whether the wait is for reading. A sleep, a lock or a reply of a service look the same otherwise.

    It is if as many bytes were read as a slow disk delivers in that time, or if the cores of the machine were in I/O
    wait for most of it. None if neither was measured.
    """
    if found.reads:
        return True
    rate, io_wait = read_mb_per_s(trace), mean_sample(trace, "iowait_share")
    if rate is not None and rate * 1e6 * trace.step_ms >= MIN_DISK_BYTES_PER_S * found.ms:
        return True
    if io_wait is not None and io_wait * machine_cores(trace) * trace.step_ms >= MIN_GROWTH_PART * found.ms:
        return True
    return None if rate is None else False


def missing_read_signals(trace: Trace) -> frozenset[Signal]:
    """Signals without which the reason of the wait is unknown. If Python waits, only the bytes that it read show it."""
    found = None if trace.fact("profile") else find_idle_input_wait(trace)
    unknown = found is not None and waits_for_bytes(trace, found) is None
    return frozenset({Signal.READS} if unknown else ())


def reads_files(trace: Trace, node: Node) -> bool:
    """Whether a node spends its time on reading, by its profiled ops or by the I/O wait of the machine."""
    if node.name.startswith(("TFRecord", "TextLine", "FixedLengthRecord")):
        return True
    if node.written is None or not READING_OPS & set(node.written.ops):
        return False
    inside, read = profiled_op_ms(trace, node), profiled_op_ms(trace, node, READING_OPS)
    if inside and read is not None:
        return read > 0.5 * inside
    return (mean_sample(trace, "iowait_share") or 0.0) > 0.1


def mean_sample(trace: Trace, name: str) -> float | None:
    """The mean of a column of the machine's samples; None if it was not measured."""
    column = trace.samples.get(name)
    return float(np.nanmean(column)) if column is not None and np.isfinite(column).any() else None


def read_mb_per_s(trace: Trace) -> float | None:
    """MB per second that the process read during the steps, from any source; None if it was not measured."""
    rates = [rate for name in READ_COLUMNS if (rate := _read_rate(trace, name)) is not None]
    return max(rates, default=None)


def _read_rate(trace: Trace, name: str) -> float | None:
    read, at = trace.samples.get(name), trace.samples.get("time_ms")
    if read is None or at is None or len(at) < 2 or not len(trace.steps):
        return None
    inside = (at >= trace.steps.start_ms[0]) & (at <= trace.steps.end_ms[-1]) & np.isfinite(read)
    if inside.sum() < 2 or at[inside][-1] <= at[inside][0]:
        return None
    return float((read[inside][-1] - read[inside][0]) / (at[inside][-1] - at[inside][0]) / 1e3)
