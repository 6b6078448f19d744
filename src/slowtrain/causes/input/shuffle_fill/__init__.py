"""Each epoch begins with the filling of a shuffle buffer."""

from __future__ import annotations

from collections.abc import Sequence

from slowtrain.causes import Cause
from slowtrain.model import Category, Evidence, Signal
from slowtrain.number_text import format_count, format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals import shuffle_fill
from slowtrain.whatif import Drop, Remedy, Skip


class ShuffleFill(Cause[shuffle_fill.ShuffleFill]):
    """At the start of every epoch the steps wait until the shuffle buffer is full."""

    title = "Every epoch waits for the shuffle buffer"
    worth_if = "an epoch is short beside filling the buffer"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    recorded = frozenset({Signal.PHASES})  # epochs begin where no step is
    words = (".shuffle",)

    def find(self, trace: Trace) -> shuffle_fill.ShuffleFill | None:
        return shuffle_fill.find_shuffle_fill(trace)

    def evidence(self, trace: Trace, finding: shuffle_fill.ShuffleFill) -> Evidence:
        each_ms = finding.each_ms
        return Evidence(
            f"{format_count(finding.epochs, 'epoch')} began with a wait of {format_number(each_ms)} ms for the shuffle "
            f"buffer, {format_number(each_ms / max(trace.step_ms, 1e-9))} times a mean step",
            {"fill_ms": each_ms, "epochs": float(finding.epochs), "overlapped_ms": finding.overlapped_ms},
            finding.node.places,
        )

    def scope_in(self, trace: Trace, finding: shuffle_fill.ShuffleFill) -> str:
        """The run if the wait lies between the steps."""
        return "run" if finding.step_ms <= 0 else "step"

    def remedies(self, trace: Trace, finding: shuffle_fill.ShuffleFill) -> Sequence[Remedy]:
        spread = (0.7, 1.05)
        inside = max(finding.step_ms - finding.overlapped_ms, 0.0)
        overlapped = finding.overlapped_ms * len(trace.steps) if finding.step_ms <= 0 else 0.0
        outside = finding.outside_ms - overlapped
        remedies: list[Remedy] = [Drop({Category.INPUT: inside}, 1.0, spread)] if inside > 0 else []
        return [*remedies, Skip(outside, spread)] if outside > 0 else remedies
