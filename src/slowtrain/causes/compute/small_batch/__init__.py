"""The batch is too small for the fixed cost of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from math import prod

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.columns.arrays import median_value, quantile
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_places
from slowtrain.script.locations.own_python_lines import python_lines
from slowtrain.script.locations.recorded_sources import handmade_input
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import batch_curve, op_work
from slowtrain.whatif import Remedy, Stretch

MAX_SIMILAR_OPS = 100  # side by side in the graph: with more, the step is slow for its loop of small ops
# A float32 weight read from memory is used for one multiply-add per row. A core of a current server reads about 3
# weights per nanosecond and does about 50 multiply-adds. So up to about sixteen rows a matrix product takes as long as
# for one. A batch of sixteen or more is taken as a choice.
BALANCED_BATCH = 16
MAX_SMALL_BATCH_ON_DEVICE = 64  # more rows are free on a device than on a processor with its caches
MIN_FIXED_SHARE = 0.6  # of the step does not depend on the batch; with less, the step computes
MAX_OP_START_MS = 0.01  # kernels that do nothing take 1 to 5 µs
MIN_VISITS_PER_SAMPLE = 0.5  # of a line that loops over the samples of the batch
MIN_STEPS_PER_SIZE = 5  # to compare steps of different sizes
MAX_GOAL_BATCH = 64  # a usual size; larger ones are proposed only if they were measured
MIN_ITERATIONS = 500  # of the recurrence: a shorter sequence is not worth cutting into windows
WINDOWS = 32  # side by side in a batch, into which the sequence is cut
WINDOWS_OVERHEAD_SHARE = 0.02  # of the step, beside the iterations of one window
RECURRENT = ("LSTM", "GRU", "SimpleRNN", "Bidirectional", "RNN")
MIN_GAIN = 1.2  # times the samples per second: a smaller gain does not justify a change of training


class StepCost(Struct, frozen=True):
    """``fixed_ms + per_sample_ms * batch``, and ``matrix_ms``, which grows only beyond ``BALANCED_BATCH`` samples."""

    fixed_ms: float
    per_sample_ms: float
    matrix_ms: float
    source: str

    def ms_at(self, batch: float) -> float:
        return self.fixed_ms + self.per_sample_ms * batch + self.matrix_ms * max(batch / BALANCED_BATCH - 1, 0.0)


class Basis(Enum):
    """How it is known that another batch is faster."""

    MEASURED = "steps of other batch sizes were measured (slowtrain batch)"
    FIXED_COST = "most of a step does not depend on its batch"
    SEQUENCE = "one long sequence through a recurrent layer, of which each iteration processes one row"


class LargerBatch(Struct, frozen=True):
    """A batch of ``goal`` in place of ``size``, whose steps would take ``goal_ms``. ``says``: why that is faster."""

    basis: Basis
    says: str
    size: float
    goal: float
    goal_ms: float
    numbers: Mapping[str, float]
    where: tuple[Place, ...]


class SmallBatch(Cause[LargerBatch]):
    """The batch is very small, and a step costs nearly the same at any batch size."""

    title = "The batch is too small for the fixed cost of a step"
    batch_probes = True
    needs = frozenset({Signal.STEPS})
    recorded = frozenset({Signal.CALLS, Signal.MODEL})
    words = ("batch_size", "batch", "GradientTape", "train_on_batch")
    context_words = (".fit", "fit_generator", "train_on_batch", "GradientTape", "minimize")

    def find(self, trace: Trace) -> LargerBatch | None:
        found = _larger_batch(trace)
        if found is None:
            return None
        return replace(found, where=source_places.merge_places(self.lines_to_change(trace, found), found.where)[:3])

    def evidence(self, trace: Trace, finding: LargerBatch) -> Evidence:
        return Evidence(finding.says, finding.numbers, finding.where)

    def remedies(self, trace: Trace, finding: LargerBatch) -> Sequence[Remedy]:
        return [Stretch(finding.size / finding.goal, finding.goal_ms, spread=(0.9, 1.03))]


def _larger_batch(trace: Trace) -> LargerBatch | None:
    steps = trace.steps
    size = float(median_value(steps.size[steps.steady])) if steps.steady.any() else 0.0
    curve = batch_curve.read_curve(trace)
    if curve is not None and steps.training and size > 0:
        return _measured_batch(trace, curve, size)
    if not steps.training or steps.source.endswith("()") or trace.eager or not 0 < size < _max_small_batch(trace):
        return None
    if _is_slow_for_other_reasons(trace):
        return None
    goal = _goal_batch(trace, size)
    return _long_sequence(trace, size) if goal is None else _fixed_step_cost(trace, size, goal)


def _is_slow_for_other_reasons(trace: Trace) -> bool:
    """Whether an unrolled loop or retracing makes the step slow. Neither follows from the batch size."""
    if any(sum((g.get("repeated") or {}).values()) >= MAX_SIMILAR_OPS for g in op_work.training_graphs(trace)):
        return True
    retraced = trace.share(Category.COMPILE) > 1 - MIN_FIXED_SHARE
    return retraced and len(trace.steps) >= batch_curve.MIN_STEPS_PER_EPOCH


def _fixed_step_cost(trace: Trace, size: float, goal: float) -> LargerBatch | None:
    cost = _cost_by_step_sizes(trace) or _cost_by_parts(trace, size)
    if cost.fixed_ms < MIN_FIXED_SHARE * trace.step_ms:
        return None
    goal_ms = cost.ms_at(goal)
    says = (
        f"{format_number(cost.fixed_ms)} ms of each {format_number(trace.step_ms)} ms step do not depend on its batch "
        f"of {size:.0f} ({cost.source}); a batch of {goal:.0f} would take about {format_number(goal_ms)} ms"
    )
    numbers = {"batch": size, "fixed_ms": cost.fixed_ms, "ms_per_sample": cost.per_sample_ms}
    numbers |= {"goal": goal, "goal_ms": goal_ms}
    return LargerBatch(Basis.FIXED_COST, says, size, goal, goal_ms, numbers, _batch_places(trace))


def _max_small_batch(trace: Trace) -> int:
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


def _goal_batch(trace: Trace, size: float) -> float | None:
    """The batch to use: a power of two. None if the data has too few samples for twice the batch."""
    rows = op_work.fit_rows(trace) or op_work.longest_epoch_rows(trace, size) or 0
    goal = min(MAX_GOAL_BATCH, rows / batch_curve.MIN_STEPS_PER_EPOCH)
    return float(2 ** int(np.log2(goal))) if goal >= 2 * size else None


def _batch_places(trace: Trace) -> tuple[Place, ...]:
    """Lines of ``batch()`` and ``fit()``."""
    fits = sorted((e for e in trace.events_of("loop") if e.name == "fit" and e.place), key=lambda e: -e.ms)
    batched = [w.place for p in trace.pipelines for w in p.written if w.family == "Batch" and w.place]
    return tuple(p for p in (*batched, *(e.place for e in fits), trace.steps.place) if p is not None)


def _long_sequence(trace: Trace, size: float) -> LargerBatch | None:
    shapes = [(e.data.get("data") or {}).get("shape") for e in trace.events_of("loop") if e.name == "fit"]
    iterations = max((int(s[1]) for s in shapes if s and len(s) == 3 and s[1]), default=0)
    recurrent = any(w.get("class") in RECURRENT for w in op_work.largest_model_weights(trace))
    if iterations < MIN_ITERATIONS or not recurrent:
        return None
    compile_ms = trace.mean(Category.COMPILE)
    ms = trace.step_ms - compile_ms
    says = (
        f"a recurrent layer has {iterations:,} iterations, one after the other, each for {size:.0f} row: "
        f"{format_number(1e3 * ms / iterations)} µs per iteration"
    )
    # With windows side by side in a batch there are fewer iterations, each for more rows.
    goal_ms = ms * (1 / WINDOWS + WINDOWS_OVERHEAD_SHARE) + compile_ms
    numbers = {"batch": 1.0, "goal": 1.0, "goal_ms": goal_ms, "turns": float(iterations)}
    return LargerBatch(Basis.SEQUENCE, says, 1.0, 1.0, goal_ms, numbers, _batch_places(trace))


def _measured_batch(trace: Trace, curve: batch_curve.StepTimeCurve, size: float) -> LargerBatch | None:
    """The largest measured batch up to the knee that fits the memory and the data."""
    limits = (curve.knee, curve.limit_batch, batch_curve.largest_data_batch(trace, size))
    known_limits = [limit for limit in limits if limit is not None]
    goal = float(max((b for b in curve.ms if all(b <= limit for limit in known_limits)), default=0))
    gain = (goal / curve.ms_at(goal)) / (size / curve.ms_at(size)) if goal >= 2 * size else 1.0
    if gain < MIN_GAIN:
        return None
    goal_ms = trace.step_ms * curve.ms_at(goal) / curve.ms_at(size)
    says = (
        f"measured at other batch sizes: {goal:,.0f} samples per step give {format_number(gain, 2)} times the samples "
        f"per second of {size:,.0f}; larger batches gain little or were not measured"
    )
    numbers = {"batch": size, "goal": goal, "goal_ms": goal_ms}
    return LargerBatch(Basis.MEASURED, says, size, goal, goal_ms, numbers, _batch_places(trace))
