"""Input whose making waits, with no core at work: how long, and whether bytes were read that explain it."""

from __future__ import annotations

import numpy as np

from slowtrain.columns.input_pipeline import Node
from slowtrain.model import Category, Place, Signal
from slowtrain.script.locations.recorded_sources import handmade_input, is_interpreted
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift.machine_conditions import MIN_DISK_BYTES_PER_S
from slowtrain.trace.signals.host.stalls import machine_cores
from slowtrain.trace.signals.input.input_feed import (
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
from slowtrain.trace.signals.series.early_and_late import MIN_GROWTH_PART
from slowtrain.values import dataclass

IDLE = 0.4  # of the step, with no processor at work at all though something makes input all the time
LEAST_LEFT = 0.02
SATURATED = 0.9  # busy share of all the machine's cores
READ = ("read_call_bytes", "read_bytes")  # files in the page cache and not; those that are mapped, from a disk


@dataclass(frozen=True)
class Waiting:
    """``ms`` a step without computing, of the ``made_ms`` that a batch takes; ``left`` is what computing remains.

    ``reads``: nodes that read files, or ops in them, are what waits.
    """

    ms: float
    made_ms: float
    left: float
    where: tuple[Place, ...]
    by_hand: bool = False
    reads: bool = False


def waiting(trace: Trace) -> Waiting | None:
    """None where the steps do not wait so, or where that cannot be told."""
    busy = busy_cores(trace)
    if busy is None or busy > 1 - IDLE:
        return None
    # On a machine whose cores are all taken, by others perhaps, no core at work for us is no sign of waiting for data.
    if (mean(trace, "cpu_mean_share") or 0.0) > SATURATED:
        return None
    cpu = busy * trace.step_ms
    hand = handmade_input(trace)
    if hand is not None and hand.waiting > 0.5 and hand.ms > trace.step_ms - hand.ms:
        return Waiting(hand.ms * hand.waiting, hand.ms, 1 - hand.waiting, hand.where, by_hand=True)
    pipe, wait = trace.pipeline, trace.mean(Category.INPUT)
    rest = trace.step_ms - wait
    if pipe is None or input_wait_share(trace) < MIN_WAIT_SHARE:
        return None
    # Of several threads that make batches, each takes longer than a step over one.
    made = min(max(pipe.exposed_ms, wait), trace.step_ms)
    made = trace.step_ms if pipe.nodes and pipe.exposed_ms < 0.5 * wait else made
    several = user_producers(trace)
    lines, made_by = merge_producer_lines(several), sum(p.ms_per_step for p in several)
    if is_interpreted(lines, made_by / max(sum(p.calls_per_step for p in several), 1e-9)):
        return None  # the interpreter at work, on a machine that is busy with something else
    where = tuple(line.place for line in lines[:2]) + tuple(p.place for p in several[:2] if p.place)
    readers = [n for n in slowest_stage_nodes(pipe) if reads(trace, n)]
    if made <= rest or not (made_by >= 0.5 * wait or readers):
        return None
    where += tuple(p for n in readers for p in user_lines(n))
    where += tuple(w.place for w in pipe.written if w.python and w.place)
    left = max(min((cpu - 0.5 * rest) / made, 1.0), LEAST_LEFT)
    return Waiting(made * (1 - left), made, left, tuple(dict.fromkeys(where)), reads=bool(readers))


def for_bytes(trace: Trace, found: Waiting) -> bool | None:
    """Whether what waits is reading: a sleep, a lock, an answer of some service are waited for in the same way.

    So many bytes were read as a slow disk gives meanwhile, or the machine's cores stood in I/O wait for most of it.
    None where neither was measured.
    """
    if found.reads:
        return True
    rate, stood = read_mb_per_s(trace), mean(trace, "iowait_share")
    if rate is not None and rate * 1e6 * trace.step_ms >= MIN_DISK_BYTES_PER_S * found.ms:
        return True
    if stood is not None and stood * machine_cores(trace) * trace.step_ms >= MIN_GROWTH_PART * found.ms:
        return True
    return None if rate is None else False


def bytes_to_tell(trace: Trace) -> frozenset[Signal]:
    """Signals that it takes to know what is waited for: where Python waits, nothing but the bytes that it read."""
    found = None if trace.fact("profile") else waiting(trace)
    unknown = found is not None and for_bytes(trace, found) is None
    return frozenset({Signal.READS} if unknown else ())


def reads(trace: Trace, node: Node) -> bool:
    """Whether a node's time goes to reading, as far as its ops were profiled, or as the machine's I/O wait says."""
    if node.name.startswith(("TFRecord", "TextLine", "FixedLengthRecord")):
        return True
    if node.written is None or not READING_OPS & set(node.written.ops):
        return False
    inside, read = profiled_op_ms(trace, node), profiled_op_ms(trace, node, READING_OPS)
    if inside and read is not None:
        return read > 0.5 * inside
    return (mean(trace, "iowait_share") or 0.0) > 0.1


def mean(trace: Trace, name: str) -> float | None:
    """Of a figure of the machine's samples; None where it was not measured."""
    column = trace.samples.get(name)
    return float(np.nanmean(column)) if column is not None and np.isfinite(column).any() else None


def read_mb_per_s(trace: Trace) -> float | None:
    """MB a second that the process read over the steps, from wherever they came; None where it was not measured."""
    rates = [rate for name in READ if (rate := _rate(trace, name)) is not None]
    return max(rates, default=None)


def _rate(trace: Trace, name: str) -> float | None:
    read, at = trace.samples.get(name), trace.samples.get("time_ms")
    if read is None or at is None or len(at) < 2 or not len(trace.steps):
        return None
    inside = (at >= trace.steps.start_ms[0]) & (at <= trace.steps.end_ms[-1]) & np.isfinite(read)
    if inside.sum() < 2 or at[inside][-1] <= at[inside][0]:
        return None
    return float((read[inside][-1] - read[inside][0]) / (at[inside][-1] - at[inside][0]) / 1e3)
