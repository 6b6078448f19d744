"""Feeding by hand in a recording: conversions by line, and the lines in front of the training call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from slowtrain.causes.transfer.per_step_feed.hand_feed import HandFeed
from slowtrain.model import Category, Place
from slowtrain.script.locations.recorded_sources import (
    MIN_LINE_VISITS,
    divide_loop_lines,
    handmade_input,
    only_converts,
)
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift import step_growth
from slowtrain.trace.signals.host import host_work
from slowtrain.trace.signals.input_feed import handover_ms_by_category

ARRAY_BYTES_PER_MS = 7e6  # that a compiled function copies of an array: 30.7 MB in 4.4 ms (TensorFlow 2.21, one core)
MAX_WAITING_SHARE = 0.5  # of the time on the batch: a loop that waits longer for a file or a server is a cause of input
MIN_OWN_SHARE = 0.5  # of a line's time that is the script's own; with less the line is a call of a compiled function


def find_loop_feed(trace: Trace) -> HandFeed | None:
    """None if nothing is converted, or if the loop's batches do not come from Python and conversions cost little."""
    from_python = host_work.batch_comes_from_python(trace)
    lines = divide_loop_lines(trace)
    fed = _conversions_before_step(trace, from_python)
    feed = sum(fed.values())
    made = _making_ms(trace, lines) if from_python else 0.0
    in_call = _in_call_ms(trace) if from_python else 0.0
    total = min(feed, sum(handover_ms_by_category(trace).values())) + made + in_call
    if not fed and not (from_python and (made or in_call)):
        return None
    if not from_python and feed < 0.5 * total:
        return None
    conversions = host_work.spans_per_step(trace, "feed")
    return HandFeed(feed, made, in_call, conversions, _costliest_places(trace, fed, lines))


def _conversions_before_step(trace: Trace, from_python: bool) -> dict[Place, float]:
    """Ms of conversions by line. A tensor made behind the training call is for logging, not for training."""
    if not from_python and (trace.eager or trace.steps.source.endswith("()")):
        return {}
    feeds = host_work.ms_by_line(trace, "feed")
    return {p: ms for p, ms in feeds.items() if not host_work.is_after_step(trace, p)}


def _making_ms(trace: Trace, lines: host_work.LoopLines) -> float:
    """Ms a step of the script's Python that makes the batch."""
    if not trace.steps.training or trace.steps.source.endswith("()"):
        return 0.0
    own = _own_line_ms(trace, lines)
    if own.making + own.others:
        part = own.making / (own.making + own.others)
    else:
        # On JAX Python may also wait for a device that is behind, which only lines would show.
        part = 0.0 if trace.on_jax or lines.before else 1.0
    hand = handmade_input(trace)
    waiting = hand.waiting if hand is not None and hand.waiting > MAX_WAITING_SHARE else 0.0
    # A loop over single elements is no conversion of a batch: that is a cause of input.
    by_element = hand is not None and sum(line.visits for line in hand.lines) >= MIN_LINE_VISITS
    # What grows from step to step belongs to drift/growing-step.
    python = trace.mean(Category.PYTHON) - step_growth.category_growth_ms(trace, Category.PYTHON)
    made = 0.0 if by_element else max(python, 0.0) * part * (1 - waiting)
    if hand is not None and not hand.is_interpreted and only_converts(trace, hand):
        made = max(made, hand.ms * (1 - waiting))
    return made


@dataclass(frozen=True)
class _OwnLineMs:
    """The script's own ms in lines that may make the batch, and in others."""

    making: float
    others: float


def _own_line_ms(trace: Trace, lines: host_work.LoopLines) -> _OwnLineMs:
    """Others are lines behind the call, and lines that mostly call a compiled function, which converts nothing."""
    calls, scale = host_work.ms_by_line(trace, "function"), _step_per_traced_ms(trace)
    own = [(max(line.ms - calls.get(line.place, 0.0) / scale, 0.0), line) for line in lines.before]
    calling = sum(ms for ms, line in own if ms < MIN_OWN_SHARE * line.ms)
    return _OwnLineMs(sum(ms for ms, _ in own) - calling, calling + sum(line.ms for line in lines.after))


def _in_call_ms(trace: Trace) -> float:
    """What a compiled step spends on copying the NumPy arrays that it gets, by their size; no more than its call.

    The call converts them to tensors itself, which no measurement separates.
    """
    traced = [e for e in trace.events_of("trace") if e.data.get("training")]
    if not traced or not trace.steps.source.startswith("function"):
        return 0.0
    leaves = (traced[-1].data.get("signature") or {}).values()
    arrays = (leaf for leaf in leaves if leaf.get("kind") == "array")
    size = sum(prod(int(d or 0) for d in leaf.get("shape") or ()) * _number_bytes(leaf) for leaf in arrays)
    return min(size / ARRAY_BYTES_PER_MS, trace.mean(Category.DISPATCH))


def _number_bytes(leaf: Mapping[str, Any]) -> int:
    """Bytes of one number, by the digits at the end of its type: ``float32``, ``uint8``; 1 without digits."""
    bits = re.search(r"\d{1,3}$", str(leaf.get("dtype")))
    return max(int(bits[0]) // 8, 1) if bits else 1


def _step_per_traced_ms(trace: Trace) -> float:
    """The factor from times of traced lines to those of a step: tracing makes lines slower."""
    return trace.step_ms / (sum(line.ms for line in trace.loop_lines) or trace.step_ms or 1.0)


def _costliest_places(trace: Trace, fed: dict[Place, float], lines: host_work.LoopLines) -> tuple[Place, ...]:
    """The costliest of the lines that convert and of those that make the batch."""
    scale = _step_per_traced_ms(trace)
    hand = handmade_input(trace)
    cost = {line.place: line.ms * scale for line in (*lines.before, *(hand.lines if hand is not None else ()))}
    for place, ms in fed.items():
        cost[place] = max(cost.get(place, 0.0), ms)
    ordered = [p for p, _ in sorted(cost.items(), key=lambda i: -i[1])]
    return tuple(ordered[:3]) or ((trace.steps.place,) if trace.steps.place else ())
