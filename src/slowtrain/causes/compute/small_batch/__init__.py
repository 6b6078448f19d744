"""The batch is too small to pay for its step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from slowtrain.causes import Cause
from slowtrain.columns.array_statistics import median_value, quantile
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.own_python_lines import python_lines
from slowtrain.script.locations.recorded_sources import handmade_input, recorded_source
from slowtrain.source.cures import measured
from slowtrain.source.cures.compute import batches
from slowtrain.source.cures.host import kerascalls
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import batch_curve, op_work
from slowtrain.values import dataclass
from slowtrain.whatif import Remedy, Stretch

# A float32 weight read from memory serves one multiply-add per row. Memory gives a core of a current server some 3
# weights a nanosecond, and it does some 50 multiply-adds: up to about sixteen rows a matrix product takes
# as long as for one. A script at sixteen or more has made its choice; below, rows ride along for nothing.
BALANCE = 16
GOAL = 64  # no larger than this: what people use when they have no reason of their own
WINDOWS = 32  # side by side, that one long sequence is cut into
START_MS = 0.01  # the most that an op's start takes, of its own time: kernels that do nothing take 1 to 5 µs
FIXED = 0.6  # of a step does not follow the batch; less, and the step is computing
LONG = 500  # turns of a recurrence over which a single sequence is better cut into windows
PER_SAMPLE = 0.5  # turns of a line for each sample: it goes through the batch
GAIN = 1.2  # times the samples a second, measured, for which a change of training is worth a word
UNROLLED = 100  # ops alike side by side in the graph
RECURRENT = ("LSTM", "GRU", "SimpleRNN", "Bidirectional", "RNN")


class SmallBatch(Cause[Evidence]):
    """A step costs nearly the same whatever the batch, and the batch is tiny."""

    title = "The batch is too small to pay for its step"
    batch_probes = True
    needs = frozenset({Signal.STEPS})
    recorded = frozenset({Signal.CALLS, Signal.MODEL})
    words = ("batch_size", "batch", "GradientTape", "train_on_batch")
    beside = (".fit", "fit_generator", "train_on_batch", "GradientTape", "minimize")

    def find(self, trace: Trace) -> Evidence | None:
        steps = trace.steps
        size = float(median_value(steps.size[steps.steady])) if steps.steady.any() else 0.0
        known = batch_curve.read_curve(trace)
        if known is not None and steps.training and size > 0:
            return _by_curve(trace, known, size)
        if not steps.training or steps.source.endswith("()") or trace.eager or not 0 < size < _tried(trace):
            return None
        if any(sum((g.get("repeated") or {}).values()) >= UNROLLED for g in op_work.training_graphs(trace)):
            return None  # the step is dear for its loop of small ops: that is what to cure
        if trace.share(Category.COMPILE) > 1 - FIXED and len(steps) >= batch_curve.MIN_STEPS_PER_EPOCH:
            return None  # nor does tracing again follow from the batch's size
        goal = _goal(trace, size)
        if goal is None:
            return _one_sequence(trace, size)
        fit = _measured(trace) or _fit(trace, size)
        if fit is None or fit.fixed_ms < FIXED * trace.step_ms:
            return None
        return Evidence(
            f"{format_number(fit.fixed_ms)} ms of each {format_number(trace.step_ms)} ms step do not depend on its "
            f"batch of {size:.0f} "
            f"({fit.source}); a batch of {goal:.0f} would take about {format_number(fit.at(goal))} ms",
            {
                "batch": size,
                "fixed_ms": fit.fixed_ms,
                "ms_per_sample": fit.per_sample_ms,
                "goal": goal,
                "goal_ms": fit.at(goal),
            },
            _where(trace),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        now = evidence.numbers
        return [Stretch(now["batch"] / now["goal"], now["goal_ms"], spread=(0.9, 1.03))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if "turns" in evidence.numbers:
            yield Prescription(
                "edit", Effect.CHANGES_TRAINING, "cut the sequence into windows and train on a batch of them"
            )
            return
        goal = evidence.numbers["goal"]
        changed = _raised(trace, evidence)
        more = " or more" if "fixed_ms" in evidence.numbers else ""  # else it is where more would gain little
        says = f"use a batch of {goal:.0f}{more}, with a learning rate to match"
        yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=changed)
        if trace.steps.source == "fit" and not trace.on_jax:
            places = [e.place for e in trace.events_of("compile") if e.place is not None]
            several = measured.first(trace, places, kerascalls.several_steps)
            says = f"compile(steps_per_execution={kerascalls.STEPS}): the same updates with fewer calls"
            yield Prescription("setting", Effect.EXACT, says, edits=several)


@dataclass(frozen=True)
class _Fit:
    """``fixed_ms + per_sample_ms * batch`` and ``matrix_ms``, which grows from ``BALANCE`` samples on only."""

    fixed_ms: float
    per_sample_ms: float
    matrix_ms: float
    source: str

    def at(self, batch: float) -> float:
        return self.fixed_ms + self.per_sample_ms * batch + self.matrix_ms * max(batch / BALANCE - 1, 0.0)


def _by_curve(trace: Trace, known: batch_curve.StepTimeCurve, size: float) -> Evidence | None:
    """What was measured at other sizes, up to the knee, to what fits and to what the data has."""
    most = [m for m in (known.knee, known.limit_batch, batch_curve.largest_data_batch(trace, size)) if m is not None]
    goal = float(max((b for b in known.ms if all(b <= m for m in most)), default=0))
    gain = (goal / known.ms_at(goal)) / (size / known.ms_at(size)) if goal >= 2 * size else 1.0
    if gain < GAIN:
        return None
    goal_ms = trace.step_ms * known.ms_at(goal) / known.ms_at(size)
    return Evidence(
        f"measured at other batch sizes: {goal:,.0f} samples a step give "
        f"{format_number(gain, 2)} times the samples a second of "
        f"{size:,.0f}; beyond, the gain is small or nothing was measured",
        {"batch": size, "goal": goal, "goal_ms": goal_ms},
        _where(trace),
    )


def _goal(trace: Trace, size: float) -> float | None:
    """The batch to go to; None where the data has too few samples for any worth the name."""
    goal = min(
        GOAL,
        (op_work.fit_rows(trace) or op_work.longest_epoch_rows(trace, size) or 0) / batch_curve.MIN_STEPS_PER_EPOCH,
    )
    return float(2 ** int(np.log2(goal))) if goal >= 2 * size else None


def _tried(trace: Trace) -> int:
    """Below it a batch is small. On a device rows ride along far beyond what a processor's caches hold."""
    return BALANCE if batch_curve.batch_dependent_ms(trace) is None else GOAL


def _measured(trace: Trace) -> _Fit | None:
    """From steps of different size in this run, where there are enough of each."""
    steps = trace.steps
    sizes, ms = steps.size[steps.steady].astype(float), steps.steady_ms
    different, counts = np.unique(sizes, return_counts=True)
    if (counts >= 5).sum() < 2 or different.max() < 2 * different.min():
        return None
    slope = np.polyfit(sizes, np.minimum(ms, 10 * median_value(ms)), 1)[0]
    per_sample = max(float(slope), 0.0)
    fixed = max(trace.step_ms - per_sample * float(median_value(sizes)), 0.0)
    return _Fit(fixed, per_sample, 0.0, f"steps of {different.min():.0f} to {different.max():.0f} samples")


def _fit(trace: Trace, size: float) -> _Fit | None:
    """From what the step consists of: ops over samples follow the batch, the rest does not."""
    device = trace.mean(Category.DEVICE)
    following, matrix = device, 0.0
    if trace.kernels is not None and trace.kernels.by_name:
        ops = op_work.window_ops(trace.kernels)
        total = sum(o.ms for o in ops) or 1.0
        floor = min(float(quantile([o.ms / o.count for o in ops if o.count], 0.25)), START_MS)
        own = [o for o in ops if not o.update]
        products = [o for o in own if o.matmul]
        # What the least of the ops takes is its start, whatever its size.
        over = {o.name: max(o.ms - floor * o.count, 0.0) for o in own}
        matrix = device * sum(over[o.name] for o in products) / total
        following = device * sum(over[o.name] for o in own if not o.matmul) / total
    elif trace.kernels is None and trace.mean(Category.UNATTRIBUTED) > 0.5 * trace.step_ms:
        following = 0.0  # no window: at a few samples a step, and a model's size unknown, the range must bear it
    made = _per_sample_input_ms(trace, size)
    arithmetic = _arithmetic_ms(trace, size)
    if arithmetic is not None and arithmetic * size < following + matrix:
        # Of a few samples, most of what an op takes is its start: weights read, threads woken, layouts changed.
        return _Fit(
            max(trace.step_ms - (arithmetic * size + made), 0.0),
            arithmetic + made / size,
            0.0,
            "the model's arithmetic is the rest",
        )
    seen = batch_curve.batch_dependent_ms(trace)
    following, matrix = (following + made, matrix) if seen is None else (seen, 0.0)
    fixed = max(trace.step_ms - following, 0.0)
    return _Fit(fixed, following / size, matrix, "ops that follow the batch were told apart")


def _arithmetic_ms(trace: Trace, size: float) -> float | None:
    """Time of one sample's multiply-adds on the processor, forward and back; None where nothing told."""
    weights = op_work.largest_model_weights(trace)
    told = [float(g.get("multiply_adds") or 0) for g in op_work.training_graphs(trace)]
    if told and all(told) and not trace.on_accelerator and not weights:
        return op_work.product_ms(trace, sum(told)) / size
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
    first = next((int(k[-1]) for k in kernels if len(k) >= 4), 1)
    count = convolved
    for kernel in kernels:
        if len(kernel) < 4:
            seen = 1.0 if image else max(positions, 1.0)  # behind images dense layers see one vector
        elif convolved:
            continue  # the graph told, with strides
        else:
            # Where channels double, images are half as large on each side.
            seen = positions * min((first / int(kernel[-1])) ** 2, 1.0)
        count += prod(int(d) for d in kernel) * seen
    return op_work.product_ms(trace, count)


def _per_sample_input_ms(trace: Trace, size: float) -> float:
    """Making input follows the batch where the user's own pipeline, or the user's own loop, makes it.

    So does Python in the step that takes a turn for each sample, whatever it is for.
    """
    lines = python_lines(trace)
    all_ms = sum(line.ms for line in lines)  # tracing lines makes steps longer: their share counts
    turns = sum(line.ms for line in lines if line.visits >= max(PER_SAMPLE * size, 2))
    python = trace.mean(Category.PYTHON) * turns / all_ms if all_ms else 0.0
    if trace.pipeline is not None and any(w.place for w in trace.pipeline.written):
        return trace.mean(Category.INPUT) + python
    return max(python, own.ms if (own := handmade_input(trace)) is not None else 0.0)


def _one_sequence(trace: Trace, size: float) -> Evidence | None:
    """One long sequence through a recurrent layer: as many turns, one after the other, each for a row or two."""
    shapes = [(e.data.get("data") or {}).get("shape") for e in trace.events_of("loop") if e.name == "fit"]
    turns = max((int(s[1]) for s in shapes if s and len(s) == 3 and s[1]), default=0)
    recurrent = any(w.get("class") in RECURRENT for w in op_work.largest_model_weights(trace))
    if turns < LONG or not recurrent:
        return None
    ms = trace.step_ms - trace.mean(Category.COMPILE)
    # Windows side by side in a batch: as many times fewer turns, each for so many more rows.
    later = ms * (1 / WINDOWS + 0.02)
    return Evidence(
        f"{turns:,} turns of a recurrent layer, one after the other, each for {size:.0f} row: "
        f"{format_number(1e3 * ms / turns)} µs a turn",
        {"batch": 1.0, "goal": 1.0, "goal_ms": later + trace.mean(Category.COMPILE), "turns": float(turns)},
        _where(trace),
    )


def _where(trace: Trace) -> tuple[Place, ...]:
    fits = sorted((e for e in trace.events_of("loop") if e.name == "fit" and e.place), key=lambda e: -e.ms)
    written = [w.place for p in trace.pipelines for w in p.written if w.family == "Batch" and w.place]
    found = [*written, *(e.place for e in fits), trace.steps.place]
    places = [p for p in found if p is not None]
    return source_locations.merge_places(
        (p for place in places for p in source_locations.file_places(trace, place, source_locations.batch_size_line)),
        places,
    )[:3]


def _raised(trace: Trace, evidence: Evidence) -> tuple[Edit, ...]:
    """The batch raised at the first of the places that says how large it is."""
    size, goal = int(evidence.numbers["batch"]), int(evidence.numbers["goal"])
    for file in dict.fromkeys(p.file for p in evidence.where):
        text = recorded_source(trace, file)
        lines = [p.line for p in evidence.where if p.file == file]
        done = batches.larger(text, lines, size, goal) if text is not None else ()
        if done:
            return done
    return ()
