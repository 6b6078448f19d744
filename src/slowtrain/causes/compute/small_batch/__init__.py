"""The batch is too small for the fixed cost of a step.

Each module holds one kind of finding, with a finder for it. A finding has ``evidence()``, ``remedies()`` and
``cures()``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.compute.small_batch.fixed_step_cost import (
    MIN_FIXED_SHARE,
    FixedStepCost,
    find_fixed_step_cost,
    max_small_batch,
)
from slowtrain.causes.compute.small_batch.larger_batch_cure import goal_batch
from slowtrain.causes.compute.small_batch.long_sequence import LongSequence, find_long_sequence
from slowtrain.causes.compute.small_batch.measured_sizes import FasterBatchSize, find_faster_batch_size
from slowtrain.columns.arrays import median_value
from slowtrain.model import Category, Evidence, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import batch_curve, op_work
from slowtrain.whatif import Remedy

MAX_SIMILAR_OPS = 100  # side by side in the graph: with more, the step is slow for its loop of small ops

SmallBatchFinding = FasterBatchSize | FixedStepCost | LongSequence


class SmallBatch(Cause[SmallBatchFinding]):
    """The batch is very small, and a step costs nearly the same at any batch size."""

    title = "The batch is too small for the fixed cost of a step"
    batch_probes = True
    needs = frozenset({Signal.STEPS})
    recorded = frozenset({Signal.CALLS, Signal.MODEL})
    words = ("batch_size", "batch", "GradientTape", "train_on_batch")
    beside = (".fit", "fit_generator", "train_on_batch", "GradientTape", "minimize")

    def find(self, trace: Trace) -> SmallBatchFinding | None:
        steps = trace.steps
        size = float(median_value(steps.size[steps.steady])) if steps.steady.any() else 0.0
        curve = batch_curve.read_curve(trace)
        if curve is not None and steps.training and size > 0:
            return find_faster_batch_size(trace, curve, size)
        if not steps.training or steps.source.endswith("()") or trace.eager or not 0 < size < max_small_batch(trace):
            return None
        if _is_slow_for_other_reasons(trace):
            return None
        goal = goal_batch(trace, size)
        return find_long_sequence(trace, size) if goal is None else find_fixed_step_cost(trace, size, goal)

    def evidence(self, trace: Trace, finding: SmallBatchFinding) -> Evidence:
        return finding.evidence()

    def remedies(self, trace: Trace, finding: SmallBatchFinding) -> Sequence[Remedy]:
        return finding.remedies()

    def cures(self, trace: Trace, finding: SmallBatchFinding) -> Iterable[Prescription]:
        return finding.cures(trace)


def _is_slow_for_other_reasons(trace: Trace) -> bool:
    """Whether an unrolled loop or retracing makes the step slow. Neither follows from the batch size."""
    if any(sum((g.get("repeated") or {}).values()) >= MAX_SIMILAR_OPS for g in op_work.training_graphs(trace)):
        return True
    retraced = trace.share(Category.COMPILE) > 1 - MIN_FIXED_SHARE
    return retraced and len(trace.steps) >= batch_curve.MIN_STEPS_PER_EPOCH
