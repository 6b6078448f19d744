"""Batches are made and converted by hand in each step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.causes.transfer.per_step_feed import fix
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations.recorded_sources import (
    MIN_LINE_VISITS,
    divide_loop_lines,
    handmade_input,
    input_follows_model,
    only_converts,
    recorded_source,
)
from slowtrain.source.cures import measured
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift import step_growth
from slowtrain.trace.signals.host import user_loop
from slowtrain.trace.signals.input.device_handover import handover_ms_by_category
from slowtrain.whatif import Drop, Remedy

# What asking an in-memory data set for its next batch costs in an eager loop (TensorFlow 2.21, batches prefetched):
# the median of the cured scripts in clinic/ that iterate one, 0.3 to 0.7. The cure pays it instead.
NEXT_MS = 0.5
ARRAY_BYTES_PER_MS = 7e6  # that a compiled function copies of an array: 30.7 MB in 4.4 ms (TensorFlow 2.21, one core)
ARRAY_MS = 0.03  # to convert a batch that is an array by then: tf.constant of 150 kB, on one core
WAITING = 0.5  # of the time on the batch: a loop that mostly waits for a file or a server is input/ (see there)
CALLING = 0.5  # of a line's time is the script's own, or the line is a call of a compiled function
BY_HAND = 0.5  # of the wait for data on its way to a device: the host at it, not the link


class PerStepFeed(Cause[Evidence]):
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
        told = _copied(trace) is not None or hidden < MIN_SYMPTOM_SHARE
        return frozenset({Signal.STEPS, Signal.DEVICE} | (set() if told or not on_device else {Signal.FEEDS}))

    def find(self, trace: Trace) -> Evidence | None:
        if trace.fact("profile"):
            return _copied(trace)
        if input_follows_model(trace):
            return None
        feeds = user_loop.ms_by_line(trace, "feed")
        handed = user_loop.batch_comes_from_python(trace)
        if trace.eager or trace.steps.source.endswith("()"):
            feeds = {p: ms for p, ms in feeds.items() if handed}
        lines = divide_loop_lines(trace)
        # A tensor made behind the training call is for logging, not for training.
        fed = {p: ms for p, ms in feeds.items() if not user_loop.is_after_step(trace, p)}
        made = 0.0
        if handed and trace.steps.training and not trace.steps.source.endswith("()"):
            made_of, others = _making_ms(trace, lines)
            # On JAX Python may as well wait for a device that is behind, which lines alone would tell.
            part = made_of / (made_of + others) if made_of + others else 0.0 if trace.on_jax or lines.before else 1.0
            hand = handmade_input(trace)
            waiting = hand.waiting if hand is not None and hand.waiting > WAITING else 0.0
            # Elements that Python goes through one by one are no conversion of a batch: see input/.
            through = hand is not None and sum(line.visits for line in hand.lines) >= MIN_LINE_VISITS
            own = trace.mean(Category.PYTHON) - step_growth.category_growth_ms(
                trace, Category.PYTHON
            )  # that is drift/growing-step
            made = 0.0 if through else max(own, 0.0) * part * (1 - waiting)
            if hand is not None and not hand.interpreted and only_converts(trace, hand):
                made = max(made, hand.ms * (1 - waiting))
        feed = sum(fed.values())
        given = _in_call_ms(trace) if handed else 0.0
        total = min(feed, sum(handover_ms_by_category(trace).values())) + made + given
        if not fed and not (handed and (made or given)):
            return None
        if not handed and feed < 0.5 * total:
            return None
        cost = (
            f"{format_number(feed)} ms of each step convert data to tensors"
            if fed
            else "each step is handed its batch by Python"
        )
        also = f", {format_number(made)} ms of Python make it" if made > 0.02 * trace.step_ms else ""
        also += f", {format_number(given, 2)} ms copy arrays inside the call" if given > 0.02 * trace.step_ms else ""
        return Evidence(
            f"{cost}{also}, of {format_number(trace.step_ms)} ms",
            {
                "feed_ms": feed,
                "python_ms": made,
                "in_call_ms": given,
                "conversions_per_step": user_loop.spans_per_step(trace, "feed"),
            },
            _where(fed, lines, trace),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        feed, python = evidence.numbers["feed_ms"], evidence.numbers["python_ms"]
        given = evidence.numbers.get("in_call_ms", 0.0)
        asked = 0.0 if _in_session(trace) else NEXT_MS
        if _of_lists(trace, evidence):  # rows of an array, made of the lists before the loop, cost next to nothing
            asked = min(asked, ARRAY_MS * evidence.numbers["conversions_per_step"])
        given = max(given - max(asked - feed - python, 0.0), 0.0)
        feed, python = max(feed - asked, 0.0), max(python - max(asked - feed, 0.0), 0.0)
        spared = {Category.PYTHON: python, Category.DISPATCH: given}
        for category, ms in handover_ms_by_category(trace).items():
            spared[category] = spared.get(category, 0.0) + min(feed, ms)
            feed = max(feed - ms, 0.0)
        return [Drop(spared, spread=(0.6, 1.1))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if trace.on_jax:
            ahead = "jax.device_put the next batch before the step that is waited for, or keep the data on the device"
            yield Prescription("edit", Effect.EXACT, ahead)
            return
        says = "feed from a tf.data.Dataset that ends in .prefetch(tf.data.AUTOTUNE), or convert once before the loop"
        found = measured.by_hand_once(trace, evidence.where)
        listed = () if found else measured.every(trace, evidence.where, fix.as_array_once)
        listed = listed or (() if found else measured.every(trace, evidence.where, fix.as_array_first))
        if listed:
            array = "make an array of the list first: TensorFlow goes through lists element by element"
            yield Prescription("edit", Effect.EXACT, array, edits=listed)
        yield Prescription("edit", Effect.EXACT, says, edits=found)


def _in_call_ms(trace: Trace) -> float:
    """What a compiled step spends on copying the NumPy arrays that it is given, by their size; no more than its call.

    The call turns them into tensors itself, which nothing times apart.
    """
    traced = [e for e in trace.events_of("trace") if e.data.get("training")]
    if not traced or not trace.steps.source.startswith("function"):
        return 0.0
    leaves = (traced[-1].data.get("signature") or {}).values()
    arrays = (leaf for leaf in leaves if leaf.get("kind") == "array")
    size = sum(prod(int(d or 0) for d in leaf.get("shape") or ()) * _bytes(leaf) for leaf in arrays)
    return min(size / ARRAY_BYTES_PER_MS, trace.mean(Category.DISPATCH))


def _bytes(leaf: Mapping[str, Any]) -> int:
    """Of one number, by the digits that types end in: ``float32``, ``uint8``; of others one."""
    bits = re.search(r"\d{1,3}$", str(leaf.get("dtype")))
    return max(int(bits[0]) // 8, 1) if bits else 1


def _copied(trace: Trace) -> Evidence | None:
    """In a profile: the thread that launches the device's work converts and copies first, and asks no iterator."""
    device = trace.device
    copies = device.copies.get("h2d") if device is not None else None
    waited = sum(handover_ms_by_category(trace).values())
    if device is None or waited < MIN_SYMPTOM_SHARE * trace.step_ms:
        return None
    if device.idle.get("h2d", 0.0) + device.idle.get("convert", 0.0) < BY_HAND * waited:
        return None
    if trace.fact("fed_by_keras"):
        return None  # not by hand
    if trace.share(Category.INPUT) >= MIN_SYMPTOM_SHARE or trace.pipelines:
        return None
    count = copies.count if copies is not None else 0.0
    size = (
        f" ({format_number(count)} copies, {format_number(copies.bytes / 1e6)} MB)"
        if copies is not None and copies.bytes
        else ""
    )
    return Evidence(
        f"the device waits {format_number(waited)} of each step's {format_number(trace.step_ms)} ms while its data "
        "is converted and "
        f"copied{size}",
        {"feed_ms": waited, "python_ms": 0.0, "conversions_per_step": count},
    )


def _making_ms(trace: Trace, lines: user_loop.LoopLines) -> tuple[float, float]:
    """The script's own ms in lines that may make the batch, and in others: behind the call, or around other calls.

    A line that mostly calls a compiled function converts nothing.
    """
    calls, scale = user_loop.ms_by_line(trace, "function"), _scale(trace)
    own = [(max(line.ms - calls.get(line.place, 0.0) / scale, 0.0), line) for line in lines.before]
    calling = sum(ms for ms, line in own if ms < CALLING * line.ms)
    return sum(ms for ms, _ in own) - calling, calling + sum(line.ms for line in lines.after)


def _scale(trace: Trace) -> float:
    """From the times of lines, which tracing them makes longer, to those of a step."""
    return trace.step_ms / (sum(line.ms for line in trace.loop_lines) or trace.step_ms or 1.0)


def _in_session(trace: Trace) -> bool:
    """Whether what converts is a session of TensorFlow 1, to which arrays are handed as they are."""
    return {trace.names[int(n)].text for n in set(trace.lane("feed").name.tolist())} == {"Session.run"}


def _of_lists(trace: Trace, evidence: Evidence) -> bool:
    """Whether the text makes a list of the batch's rows and converts it, number by number."""
    place = evidence.where[0] if evidence.where else None
    text = recorded_source(trace, place.file) if place is not None else None
    return place is not None and text is not None and fix.made_there(text, place.line)


def _where(fed: dict[Place, float], lines: user_loop.LoopLines, trace: Trace) -> tuple[Place, ...]:
    """The costliest of the lines that convert and of those that make."""
    scale = _scale(trace)
    hand = handmade_input(trace)
    cost = {line.place: line.ms * scale for line in (*lines.before, *(hand.lines if hand is not None else ()))}
    for place, ms in fed.items():
        cost[place] = max(cost.get(place, 0.0), ms)
    ordered = [p for p, _ in sorted(cost.items(), key=lambda i: -i[1])]
    return tuple(ordered[:3]) or ((trace.steps.place,) if trace.steps.place else ())
