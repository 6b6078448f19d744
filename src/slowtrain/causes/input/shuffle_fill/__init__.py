"""Each epoch begins with filling a shuffle buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.source.cures import measured
from slowtrain.source.cures.input import datasets
from slowtrain.trace import Trace
from slowtrain.trace.signals.input.shuffle_fill import find_shuffle_fill
from slowtrain.whatif import Drop, Remedy, Skip


class ShuffleFill(Cause[Evidence]):
    """At the start of every epoch the steps wait until the shuffle buffer is full."""

    title = "Every epoch waits for the shuffle buffer"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    recorded = frozenset({Signal.PHASES})  # epochs begin where no step is
    words = (".shuffle",)

    def find(self, trace: Trace) -> Evidence | None:
        found = find_shuffle_fill(trace)
        if found is None:
            return None
        return Evidence(
            f"{found.epochs} epoch{'s' * (found.epochs > 1)} began with a wait of {format_number(found.each_ms)} ms "
            f"for the shuffle buffer, {format_number(found.each_ms / max(trace.step_ms, 1e-9))} times a mean step",
            {"fill_ms": found.each_ms, "epochs": float(found.epochs), "overlapped_ms": found.overlapped_ms},
            found.place,
        )

    def scope_in(self, trace: Trace, evidence: Evidence) -> str:
        """Of the run where the wait lies between the steps."""
        found = find_shuffle_fill(trace)
        return "run" if found is not None and found.step_ms <= 0 else "step"

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = find_shuffle_fill(trace)
        if found is None:
            return []
        spread = (0.7, 1.05)
        inside = max(found.step_ms - found.overlapped_ms, 0.0)
        outside = found.outside_ms - (found.overlapped_ms * len(trace.steps) if found.step_ms <= 0 else 0.0)
        remedies: list[Remedy] = [Drop({Category.INPUT: inside}, 1.0, spread)] if inside > 0 else []
        return [*remedies, Skip(outside, spread)] if outside > 0 else remedies

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        found = measured.first(trace, evidence.where, datasets.shuffled_first)
        yield Prescription("edit", Effect.EQUIVALENT, "shuffle names or records before the expensive map", edits=found)
        yield Prescription("edit", Effect.CHANGES_TRAINING, "make the buffer smaller: less thorough shuffling")
