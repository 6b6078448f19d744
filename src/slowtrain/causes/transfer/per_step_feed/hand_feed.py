"""The finding of transfer/per-step-feed: what making and converting batches by hand costs a step."""

from __future__ import annotations

from dataclasses import dataclass

from slowtrain.model import Evidence, Place
from slowtrain.number_text import format_number
from slowtrain.trace import Trace

MIN_TOLD_SHARE = 0.02  # of a step: smaller parts of the cost are left out of the sentence


@dataclass(frozen=True)
class HandFeed:
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
            {
                "feed_ms": feed,
                "python_ms": python,
                "in_call_ms": in_call,
                "conversions_per_step": self.conversions,
            },
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
