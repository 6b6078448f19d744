"""Most of a step does not depend on its batch: the start of ops, the update of the weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from slowtrain.causes.compute.small_batch.larger_batch_cure import batch_places, larger_batch_cures, stretch_steps
from slowtrain.columns.arrays import median_value, quantile
from slowtrain.model import Category, Evidence, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.locations.own_python_lines import python_lines
from slowtrain.script.locations.recorded_sources import handmade_input
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import batch_curve, op_work
from slowtrain.whatif import Remedy

# A float32 weight read from memory is used for one multiply-add per row. A core of a current server reads about 3
# weights per nanosecond and does about 50 multiply-adds. So up to about sixteen rows a matrix product takes as long as
# for one. A batch of sixteen or more is taken as a choice.
BALANCED_BATCH = 16
MAX_SMALL_BATCH_ON_DEVICE = 64  # more rows are free on a device than on a processor with its caches
MIN_FIXED_SHARE = 0.6  # of the step does not depend on the batch; with less, the step computes
MAX_OP_START_MS = 0.01  # kernels that do nothing take 1 to 5 µs
MIN_VISITS_PER_SAMPLE = 0.5  # of a line that loops over the samples of the batch
MIN_STEPS_PER_SIZE = 5  # to compare steps of different sizes


@dataclass(frozen=True)
class StepCost:
    """``fixed_ms + per_sample_ms * batch``, and ``matrix_ms``, which grows only beyond ``BALANCED_BATCH`` samples."""

    fixed_ms: float
    per_sample_ms: float
    matrix_ms: float
    source: str

    def ms_at(self, batch: float) -> float:
        return self.fixed_ms + self.per_sample_ms * batch + self.matrix_ms * max(batch / BALANCED_BATCH - 1, 0.0)


@dataclass(frozen=True)
class FixedStepCost:
    """Steps of ``step_ms`` with a batch of ``size``, which a batch of ``goal`` would shorten per sample."""

    size: float
    goal: float
    step_ms: float
    cost: StepCost
    where: tuple[Place, ...]

    @property
    def goal_ms(self) -> float:
        return self.cost.ms_at(self.goal)

    def evidence(self) -> Evidence:
        return Evidence(
            f"{format_number(self.cost.fixed_ms)} ms of each {format_number(self.step_ms)} ms step do not depend on "
            f"its batch of {self.size:.0f} ({self.cost.source}); a batch of {self.goal:.0f} would take about "
            f"{format_number(self.goal_ms)} ms",
            {
                "batch": self.size,
                "fixed_ms": self.cost.fixed_ms,
                "ms_per_sample": self.cost.per_sample_ms,
                "goal": self.goal,
                "goal_ms": self.goal_ms,
            },
            self.where,
        )

    def remedies(self) -> Sequence[Remedy]:
        return [stretch_steps(self.size, self.goal, self.goal_ms)]

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        return larger_batch_cures(trace, self.where, self.size, self.goal, more=True)


def find_fixed_step_cost(trace: Trace, size: float, goal: float) -> FixedStepCost | None:
    cost = _cost_by_step_sizes(trace) or _cost_by_parts(trace, size)
    if cost.fixed_ms < MIN_FIXED_SHARE * trace.step_ms:
        return None
    return FixedStepCost(size, goal, trace.step_ms, cost, batch_places(trace))


def max_small_batch(trace: Trace) -> int:
    """A batch below this size is small."""
    return BALANCED_BATCH if batch_curve.batch_dependent_ms(trace) is None else MAX_SMALL_BATCH_ON_DEVICE


def _cost_by_step_sizes(trace: Trace) -> StepCost | None:
    """From steps of different sizes in this run, if there are enough of each."""
    steps = trace.steps
    sizes, ms = steps.size[steps.steady].astype(float), steps.steady_ms
    different, counts = np.unique(sizes, return_counts=True)
    if (counts >= MIN_STEPS_PER_SIZE).sum() < 2 or different.max() < 2 * different.min():
        return None
    slope = np.polyfit(sizes, np.minimum(ms, 10 * median_value(ms)), 1)[0]
    per_sample = max(float(slope), 0.0)
    fixed = max(trace.step_ms - per_sample * float(median_value(sizes)), 0.0)
    return StepCost(fixed, per_sample, 0.0, f"steps of {different.min():.0f} to {different.max():.0f} samples")


def _cost_by_parts(trace: Trace, size: float) -> StepCost:
    """From the parts of the step: ops over samples depend on the batch, the rest does not."""
    device = trace.mean(Category.DEVICE)
    dependent, matrix = device, 0.0
    if trace.kernels is not None and trace.kernels.by_name:
        ops = op_work.window_ops(trace.kernels)
        total = sum(o.ms for o in ops) or 1.0
        floor = min(float(quantile([o.ms / o.count for o in ops if o.count], 0.25)), MAX_OP_START_MS)
        own = [o for o in ops if not o.update]
        products = [o for o in own if o.matmul]
        # The shortest ops take as long as an op of any size takes to start.
        work_ms = {o.name: max(o.ms - floor * o.count, 0.0) for o in own}
        matrix = device * sum(work_ms[o.name] for o in products) / total
        dependent = device * sum(work_ms[o.name] for o in own if not o.matmul) / total
    elif trace.kernels is None and trace.mean(Category.UNATTRIBUTED) > 0.5 * trace.step_ms:
        dependent = 0.0  # no window: assumed for a few samples per step and a model of unknown size
    input_ms = _per_sample_input_ms(trace, size)
    arithmetic = _arithmetic_ms(trace, size)
    if arithmetic is not None and arithmetic * size < dependent + matrix:
        # With a few samples, ops mostly read weights, wake threads and change layouts.
        return StepCost(
            max(trace.step_ms - (arithmetic * size + input_ms), 0.0),
            arithmetic + input_ms / size,
            0.0,
            "the model's arithmetic is the rest",
        )
    known_ms = batch_curve.batch_dependent_ms(trace)
    dependent, matrix = (dependent + input_ms, matrix) if known_ms is None else (known_ms, 0.0)
    fixed = max(trace.step_ms - dependent, 0.0)
    return StepCost(fixed, dependent / size, matrix, "the rest are ops that depend on the batch")


def _arithmetic_ms(trace: Trace, size: float) -> float | None:
    """Time of one sample's multiply-adds on the processor, forward and backward; None if they are not known."""
    weights = op_work.largest_model_weights(trace)
    counts = [float(g.get("multiply_adds") or 0) for g in op_work.training_graphs(trace)]
    if counts and all(counts) and not trace.on_accelerator and not weights:
        return op_work.product_ms(trace, sum(counts)) / size
    shapes = [(e.data.get("data") or {}).get("shape") for e in trace.events_of("loop") if e.name == "fit"]
    shape = next((s for s in shapes if s), None)
    convolved = max((float(g.get("convolved") or 0) for g in op_work.training_graphs(trace)), default=0.0)
    if trace.on_accelerator or not weights or not (shape or convolved):
        return None
    inner = [int(d) for d in (shape or ())[1:] if d]
    embedded = any(w.get("class") == "Embedding" for w in weights)
    positions = prod(inner) if embedded else prod(inner[:-1])
    image = len(inner) >= 3 or not shape
    kernels = [w["shape"] for w in weights if len(w.get("shape") or ()) >= 2 and w.get("class") != "Embedding"]
    first_channels = next((int(k[-1]) for k in kernels if len(k) >= 4), 1)
    count = convolved
    for kernel in kernels:
        if len(kernel) < 4:
            uses = 1.0 if image else max(positions, 1.0)  # after images, dense layers process one vector
        elif convolved:
            continue  # counted by the graph, with strides
        else:
            # If channels double, images are half as large on each side.
            uses = positions * min((first_channels / int(kernel[-1])) ** 2, 1.0)
        count += prod(int(d) for d in kernel) * uses
    return op_work.product_ms(trace, count)


def _per_sample_input_ms(trace: Trace, size: float) -> float:
    """Input that the user's own pipeline or loop makes depends on the batch.

    So does any Python in the step that loops over the samples.
    """
    lines = python_lines(trace)
    total_ms = sum(line.ms for line in lines)  # line tracing makes steps longer, so shares count
    loop_ms = sum(line.ms for line in lines if line.visits >= max(MIN_VISITS_PER_SAMPLE * size, 2))
    python = trace.mean(Category.PYTHON) * loop_ms / total_ms if total_ms else 0.0
    if trace.pipeline is not None and any(w.place for w in trace.pipeline.written):
        return trace.mean(Category.INPUT) + python
    return max(python, own.ms if (own := handmade_input(trace)) is not None else 0.0)
