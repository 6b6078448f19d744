"""Values are read back in every step."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import MIN_SYMPTOM_SHARE, STEP_WORDS, Cause
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.locations.recorded_sources import model_answer_places
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import host_work
from slowtrain.trace.signals.host.source_lines import writes_checkpoint, writes_log
from slowtrain.whatif import Drop, Remedy

MIN_READBACKS = 0.5  # a step: fewer are an epoch's
MIN_READBACK_SHARE = 0.5  # of the copies to the host: the others belong to ops on the host
READBACK_GAIN_SHARE = 0.98  # of the wait


class LoopReadback(Struct, frozen=True):
    """``count`` values are read back in a step. All lines that do it take ``lines_ms``.

    ``wait_ms`` is the wait for values that counts as readback; ``beside_device_ms`` is waited while the device works.
    """

    count: float
    wait_ms: float
    lines_ms: float
    beside_device_ms: float
    where: tuple[Place, ...]

    def evidence(self, trace: Trace) -> Evidence:
        return Evidence(
            f"{format_number(self.count)} values are read back in each step; "
            f"the lines that do it take {format_number(self.lines_ms)} of {format_number(trace.step_ms)} ms",
            {
                "readbacks_per_step": self.count,
                "readback_ms": self.wait_ms,
                "lines_ms": self.lines_ms,
                "beside_device_ms": self.beside_device_ms,
            },
            self.where,
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        waited = self.wait_ms
        drops = {Category.READBACK: waited}
        left = max(self.lines_ms - waited, 0.0)
        if trace.device is not None:
            # A wait while the device works is gained as far as the host works meanwhile.
            host = trace.step_ms - trace.mean(Category.DEVICE) - waited
            drops[Category.DEVICE] = min(self.beside_device_ms, trace.mean(Category.DEVICE), max(host, 0.0))
            left = max(left - self.beside_device_ms, 0.0)
        elif trace.on_accelerator:  # without a timeline the device's work counts as readback
            drops[Category.READBACK] = waited = min(waited, max(trace.step_ms - waited, 0.0))
        for category in (Category.PYTHON, Category.CONVERT, Category.FEED):
            drops[category] = min(left, trace.mean(category))
            left -= drops[category]
        # Every hundredth step still reads, or each step reads one of many values, whichever is less.
        kept = min(0.01, waited / max(self.count, 1.0) / max(self.lines_ms, 1e-9))
        return [Drop({c: (1 - kept) * ms for c, ms in drops.items()}, spread=(0.65, 1.1))]


class ProfiledReadback(Struct, frozen=True):
    """``count`` values are read back in a step, and the device idles for ``wait_ms``. A profile has no places."""

    count: float
    wait_ms: float
    where: tuple[Place, ...] = ()

    def evidence(self, trace: Trace) -> Evidence:
        return Evidence(
            f"{format_number(self.count)} values are read back in each step; "
            f"the device idles for {format_number(self.wait_ms)} of {format_number(trace.step_ms)} ms meanwhile",
            {"readbacks_per_step": self.count, "readback_ms": self.wait_ms, "lines_ms": self.wait_ms},
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        # Without the wait, the host's work runs beside the device's work and not behind it. On an H100 two steps gained
        # 1.84 and 5.6 times, more than this predicts, because launching gets faster too.
        host_work = (Category.DISPATCH, Category.PYTHON, Category.CONVERT, Category.FEED, Category.CALLBACK)
        overlap = min(trace.mean(Category.DEVICE), sum(map(trace.mean, host_work)))
        drops = {Category.READBACK: READBACK_GAIN_SHARE * self.wait_ms, Category.DEVICE: overlap}
        return [Drop(drops, 0.0, (0.6, 1.4))]


class PerStepReadback(Cause[LoopReadback | ProfiledReadback]):
    """Every step reads values back to Python: losses, norms, predictions, for a line of log."""

    title = "Values are read back in every step"
    usual_ms_per_step = 0.1  # some reads of 20 µs
    needs = frozenset({Signal.STEPS, Signal.READBACKS})
    words = STEP_WORDS

    def wants(self, trace: Trace) -> frozenset[Signal]:
        if not trace.fact("profile"):
            return self.needs
        on_device = Signal.DEVICE in trace.signals
        hidden = trace.share(Category.READBACK) + trace.share(Category.UNATTRIBUTED)
        known = trace.compute_once(_profiled_readback) is not None or hidden < MIN_SYMPTOM_SHARE
        return frozenset({Signal.STEPS, Signal.DEVICE} | (set() if known or not on_device else {Signal.READBACKS}))

    def find(self, trace: Trace) -> LoopReadback | ProfiledReadback | None:
        return trace.compute_once(_profiled_readback) if trace.fact("profile") else _loop_readback(trace)


def _loop_readback(trace: Trace) -> LoopReadback | None:
    read = _readbacks_of_user(trace)
    count = host_work.spans_per_step(trace, "readback", read)
    if not read or count < MIN_READBACKS or trace.steps.source.endswith("()"):
        return None
    lines = host_work.divide_loop(trace)
    loop_lines = (*lines.before, *lines.after)
    # A line after the training call that reads back goes as a whole, with the loop around it.
    whole = [line for line in host_work.with_loop_heads(loop_lines, set(read)) if line.ms > 0]
    steps = set(host_work.ms_by_line(trace, "function")) - set(read)
    if any(line.place in steps for line in whole):  # the loop acts and observes, as in an environment: it is no log
        whole = [line for line in whole if line.place in read]
    total = sum(line.ms for line in loop_lines)
    formatting = lines.outside_ms * sum(line.ms for line in whole) / total if total else 0.0
    asking = sum(read.values())
    waited = min(asking, trace.mean(Category.READBACK))
    lines_ms = max(formatting, asking if trace.device is not None else waited)
    where = tuple(dict.fromkeys([line.place for line in whole] + list(read)))
    return LoopReadback(count, waited, lines_ms, asking - waited, where[:3])


def _readbacks_of_user(trace: Trace) -> dict[Place, float]:
    """Ms of readbacks by line, without checkpoints, histograms and what the step's own input needs.

    A checkpoint reads every variable and a histogram all numbers: that is saving or logging. The model's answer that
    the next input is made of, such as an action in an environment, cannot be read later.
    """
    needed = model_answer_places(trace)
    return {
        place: ms
        for place, ms in host_work.ms_by_line(trace, "readback").items()
        if place not in needed and not writes_checkpoint(trace, place) and not writes_log(trace, place)
    }


def _profiled_readback(trace: Trace) -> ProfiledReadback | None:
    device = trace.device
    copies = device.copies.get("d2h") if device is not None else None
    waited = trace.mean(Category.READBACK)
    if device is None or copies is None or waited < MIN_SYMPTOM_SHARE * trace.step_ms:
        return None
    if trace.fact("host_callbacks", default=0.0) >= MIN_READBACKS:
        return None  # these copies are arguments of what the compiled step computes on the host
    # Tensors on their way to an op on the host come back. And a wait for the device alone reads nothing back.
    crossing = sum(count for text, (_, count) in device.by_op.items() if re.search(framework_names.GRAPH_EDGE, text))
    count = copies.count - crossing / 2
    if count < max(MIN_READBACKS, MIN_READBACK_SHARE * copies.count):
        return None
    return ProfiledReadback(count, waited)
