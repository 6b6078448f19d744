"""Steps of other batch sizes were measured (``slowtrain batch``), and a larger batch is faster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slowtrain.causes.compute.small_batch.larger_batch_cure import batch_places, larger_batch_cures, stretch_steps
from slowtrain.model import Evidence, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import batch_curve
from slowtrain.whatif import Remedy

MIN_GAIN = 1.2  # times the samples per second: a smaller gain does not justify a change of training


@dataclass(frozen=True)
class FasterBatchSize:
    """A batch of ``goal`` gives ``gain`` times the samples per second of a batch of ``size``."""

    size: float
    goal: float
    goal_ms: float
    gain: float
    where: tuple[Place, ...]

    def evidence(self) -> Evidence:
        return Evidence(
            f"measured at other batch sizes: {self.goal:,.0f} samples per step give {format_number(self.gain, 2)} "
            f"times the samples per second of {self.size:,.0f}; larger batches gain little or were not measured",
            {"batch": self.size, "goal": self.goal, "goal_ms": self.goal_ms},
            self.where,
        )

    def remedies(self) -> Sequence[Remedy]:
        return [stretch_steps(self.size, self.goal, self.goal_ms)]

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        return larger_batch_cures(trace, self.where, self.size, self.goal, more=False)


def find_faster_batch_size(trace: Trace, curve: batch_curve.StepTimeCurve, size: float) -> FasterBatchSize | None:
    """The largest measured batch up to the knee that fits the memory and the data."""
    limits = (curve.knee, curve.limit_batch, batch_curve.largest_data_batch(trace, size))
    known_limits = [limit for limit in limits if limit is not None]
    goal = float(max((b for b in curve.ms if all(b <= limit for limit in known_limits)), default=0))
    gain = (goal / curve.ms_at(goal)) / (size / curve.ms_at(size)) if goal >= 2 * size else 1.0
    if gain < MIN_GAIN:
        return None
    goal_ms = trace.step_ms * curve.ms_at(goal) / curve.ms_at(size)
    return FasterBatchSize(size, goal, goal_ms, gain, batch_places(trace))
