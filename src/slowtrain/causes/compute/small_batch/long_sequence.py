"""One long sequence through a recurrent layer: each iteration processes one row or two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slowtrain.causes.compute.small_batch.larger_batch_cure import WINDOWS_CURE, batch_places, stretch_steps
from slowtrain.model import Category, Effect, Evidence, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work
from slowtrain.whatif import Remedy

MIN_ITERATIONS = 500  # of the recurrence: a shorter sequence is not worth cutting into windows
WINDOWS = 32  # side by side in a batch, into which the sequence is cut
WINDOWS_OVERHEAD_SHARE = 0.02  # of the step, beside the iterations of one window
RECURRENT = ("LSTM", "GRU", "SimpleRNN", "Bidirectional", "RNN")


@dataclass(frozen=True)
class LongSequence:
    """``iterations`` of a recurrent layer, one after the other, take ``ms`` per step."""

    size: float
    iterations: int
    ms: float
    compile_ms: float
    where: tuple[Place, ...]

    @property
    def goal_ms(self) -> float:
        """With windows side by side in a batch there are fewer iterations, each for more rows."""
        return self.ms * (1 / WINDOWS + WINDOWS_OVERHEAD_SHARE) + self.compile_ms

    def evidence(self) -> Evidence:
        return Evidence(
            f"a recurrent layer has {self.iterations:,} iterations, one after the other, each for {self.size:.0f} row: "
            f"{format_number(1e3 * self.ms / self.iterations)} µs per iteration",
            {"batch": 1.0, "goal": 1.0, "goal_ms": self.goal_ms, "turns": float(self.iterations)},
            self.where,
        )

    def remedies(self) -> Sequence[Remedy]:
        return [stretch_steps(1.0, 1.0, self.goal_ms)]

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        yield Prescription("edit", Effect.CHANGES_TRAINING, WINDOWS_CURE)


def find_long_sequence(trace: Trace, size: float) -> LongSequence | None:
    shapes = [(e.data.get("data") or {}).get("shape") for e in trace.events_of("loop") if e.name == "fit"]
    iterations = max((int(s[1]) for s in shapes if s and len(s) == 3 and s[1]), default=0)
    recurrent = any(w.get("class") in RECURRENT for w in op_work.largest_model_weights(trace))
    if iterations < MIN_ITERATIONS or not recurrent:
        return None
    compile_ms = trace.mean(Category.COMPILE)
    return LongSequence(size, iterations, trace.step_ms - compile_ms, compile_ms, batch_places(trace))
