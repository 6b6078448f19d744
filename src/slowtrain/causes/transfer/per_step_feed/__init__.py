"""Batches are made and converted by hand in each step."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from msgspec import Struct

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations.recorded_sources import (
    MIN_LINE_VISITS,
    divide_loop_lines,
    handmade_input,
    input_follows_model,
    only_converts,
    recorded_source,
)
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift import step_growth
from slowtrain.trace.signals.host import host_work
from slowtrain.trace.signals.input_feed import handover_ms_by_category
from slowtrain.whatif import Drop, Remedy

# What asking an in-memory data set for its next batch costs in an eager loop (TensorFlow 2.21, batches prefetched):
# the median of the cured scripts in clinic/ that iterate one, 0.3 to 0.7. The cure pays it instead.
NEXT_BATCH_MS = 0.5
CONVERSIONS = ("tensorflow.constant", "tensorflow.convert_to_tensor")
LIST_NODES = (ast.List, ast.ListComp)
ARRAY_CONVERSION_MS = 0.03  # of a batch that is an array by then: tf.constant of 150 kB, on one core
MIN_TOLD_SHARE = 0.02  # of a step: smaller parts of the cost are left out of the sentence
ARRAY_BYTES_PER_MS = 7e6  # that a compiled function copies of an array: 30.7 MB in 4.4 ms (TensorFlow 2.21, one core)
MAX_WAITING_SHARE = 0.5  # of the time on the batch: a loop that waits longer for a file or a server is a cause of input
MIN_OWN_SHARE = 0.5  # of a line's time that is the script's own; with less the line is a call of a compiled function
MIN_HOST_SHARE = 0.5  # of the wait for data on its way to a device: the rest may be the link


class HandFeed(Struct, frozen=True):
    """Ms of a step: ``feed_ms`` for conversions, ``python_ms`` to make the batch, ``in_call_ms`` for arrays in a call.

    ``conversions`` is their number a step. In a profile it is the number of copies, and there are no places.
    """

    feed_ms: float
    python_ms: float
    in_call_ms: float
    conversions: float
    where: tuple[Place, ...] = ()

    def loop_evidence(self, trace: Trace) -> Evidence:
        feed, python, in_call = self.feed_ms, self.python_ms, self.in_call_ms
        least = MIN_TOLD_SHARE * trace.step_ms
        converted = f"{format_number(feed)} ms of each step convert data to tensors"
        says = converted if feed else "Python gives each step its batch"
        says += f", {format_number(python)} ms of Python make it" if python > least else ""
        says += f", {format_number(in_call, 2)} ms copy arrays inside the call" if in_call > least else ""
        return Evidence(
            f"{says}, of {format_number(trace.step_ms)} ms",
            {"feed_ms": feed, "python_ms": python, "in_call_ms": in_call, "conversions_per_step": self.conversions},
            self.where,
        )

    def profile_evidence(self, trace: Trace) -> Evidence:
        copies = trace.device.copies.get("h2d") if trace.device is not None else None
        size = ""
        if copies is not None and copies.bytes:
            size = f" ({format_number(copies.count)} copies, {format_number(copies.bytes / 1e6)} MB)"
        return Evidence(
            f"the device waits {format_number(self.feed_ms)} of each step's {format_number(trace.step_ms)} ms while "
            f"its data is converted and copied{size}",
            {"feed_ms": self.feed_ms, "python_ms": self.python_ms, "conversions_per_step": self.conversions},
        )


class _OwnLineMs(Struct, frozen=True):
    """The script's own ms in lines that may make the batch, and in others."""

    making: float
    others: float


class PerStepFeed(Cause[HandFeed]):
    """Each step makes its batch in Python and turns it into tensors by hand, while nothing computes."""

    title = "Batches are made and converted by hand in each step"
    needs = frozenset({Signal.STEPS, Signal.FEEDS})
    words = ("GradientTape", "train_on_batch", "Session")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        if not trace.fact("profile"):
            return self.needs
        # Python between calls may be what makes the batch.
        hidden = sum(map(trace.share, (Category.CONVERT, Category.FEED, Category.PYTHON, Category.UNATTRIBUTED)))
        on_device = Signal.DEVICE in trace.signals
        known = trace.compute_once(_profiled_feed) is not None or hidden < MIN_SYMPTOM_SHARE
        return frozenset({Signal.STEPS, Signal.DEVICE} | (set() if known or not on_device else {Signal.FEEDS}))

    def find(self, trace: Trace) -> HandFeed | None:
        if trace.fact("profile"):
            return trace.compute_once(_profiled_feed)
        return None if input_follows_model(trace) else _loop_feed(trace)

    def evidence(self, trace: Trace, finding: HandFeed) -> Evidence:
        return finding.profile_evidence(trace) if trace.fact("profile") else finding.loop_evidence(trace)

    def remedies(self, trace: Trace, finding: HandFeed) -> Sequence[Remedy]:
        # The cure costs something itself. That is taken from the conversions first, then from the script's Python, then
        # from the copies inside the call.
        feed, python = finding.feed_ms, finding.python_ms
        cure_ms = _cure_ms(trace, finding)
        spared = {
            Category.PYTHON: max(python - max(cure_ms - feed, 0.0), 0.0),
            Category.DISPATCH: max(finding.in_call_ms - max(cure_ms - feed - python, 0.0), 0.0),
        }
        left = max(feed - cure_ms, 0.0)
        for category, ms in handover_ms_by_category(trace).items():
            spared[category] = spared.get(category, 0.0) + min(left, ms)
            left = max(left - ms, 0.0)
        return [Drop(spared, spread=(0.6, 1.1))]


def _cure_ms(trace: Trace, finding: HandFeed) -> float:
    """What a step pays for its batch after the cure."""
    if _feeds_session(trace):
        return 0.0
    if _converts_list(trace, finding):  # rows of an array that is made before the loop cost next to nothing
        return min(NEXT_BATCH_MS, ARRAY_CONVERSION_MS * finding.conversions)
    return NEXT_BATCH_MS


def _feeds_session(trace: Trace) -> bool:
    """Whether all conversions are of a session of TensorFlow 1, which takes arrays as they are."""
    return {trace.names[int(n)].text for n in set(trace.lane("feed").name.tolist())} == {"Session.run"}


def _converts_list(trace: Trace, finding: HandFeed) -> bool:
    """Whether the text makes a list of the batch's rows, which is then converted number by number."""
    place = finding.where[0] if finding.where else None
    source = recorded_source(trace, place.file) if place is not None else None
    return place is not None and source is not None and converts_new_list(source, place.line)


def converts_new_list(source: Source, line: int) -> bool:
    """Whether ``line`` makes a list and converts it: ``tf.constant([rows[i] for i in chosen])``."""
    calls = [call for call in calls_at_line(source, line) if is_conversion(source, call)]
    return any(isinstance(node_lookup.argument_value(call, "value", 0), LIST_NODES) for call in calls)


def is_conversion(source: Source, call: ast.Call) -> bool:
    return scope_names.resolved_name(source, call.func) in CONVERSIONS


def calls_at_line(source: Source, line: int) -> list[ast.Call]:
    return [n for n in call_index.nodes_of_kind(source, ast.Call) if isinstance(n, ast.Call) and n.lineno == line]


def _loop_feed(trace: Trace) -> HandFeed | None:
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


def _profiled_feed(trace: Trace) -> HandFeed | None:
    """None if the host asks an iterator for its batches, or the device hardly waits for the host."""
    device = trace.device
    copies = device.copies.get("h2d") if device is not None else None
    waited = sum(handover_ms_by_category(trace).values())
    if device is None or waited < MIN_SYMPTOM_SHARE * trace.step_ms:
        return None
    if device.idle.get("h2d", 0.0) + device.idle.get("convert", 0.0) < MIN_HOST_SHARE * waited:
        return None
    if trace.fact("fed_by_keras"):
        return None  # not by hand
    if trace.share(Category.INPUT) >= MIN_SYMPTOM_SHARE or trace.pipelines:
        return None
    return HandFeed(waited, 0.0, 0.0, copies.count if copies is not None else 0.0)
