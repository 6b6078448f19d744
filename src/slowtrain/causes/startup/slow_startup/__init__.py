"""Starting and compiling take a large part of the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slowtrain.causes import Cause
from slowtrain.causes.startup.slow_startup import graph_loops, unrolled_graph, xla_price
from slowtrain.causes.startup.slow_startup.xla_price import XlaStart
from slowtrain.model import Effect, Evidence, Phase, Place, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import start_parts
from slowtrain.trace.signals.host.start_parts import AvoidableKind, AvoidableStart
from slowtrain.whatif import Remedy, Skip

MIN_AVOIDABLE_MS = 1000.0  # an ordinary model traces and starts in about that
LOOP_IN_GRAPH = "let the graph loop itself: for _ in tf.range(n)"


@dataclass(frozen=True)
class StartFinding:
    """The avoidable part of the start that surely saves most."""

    worst: AvoidableStart
    steps_ms: float  # all steps of the run but those that traced
    xla: XlaStart | None
    last_batch: AvoidableStart | None


class SlowStartup(Cause[StartFinding]):
    """Starting and compiling the model take a large part of a short run."""

    title = "Starting and compiling take a large part of the run"
    verdict_word = VerdictKind.STARTUP
    needs = frozenset({Signal.PHASES, Signal.TRACES})
    scope = "run"
    words = ("unroll", "GradientTape")
    beside = (".fit", "train_on_batch", "GradientTape")

    def find(self, trace: Trace) -> StartFinding | None:
        steps_ms, xla = _steps_ms(trace), xla_price.xla_start(trace)
        parts = (
            xla.start if xla is not None else None,
            unrolled_graph.unrolled_start(trace),
            start_parts.repeated_model_building(trace),
        )
        longer = [part for part in parts if part is not None and part.ms >= steps_ms]
        found = [part for part in (*longer, start_parts.repeated_shape_traces(trace)) if part is not None]
        found = [part for part in found if part.avoidable_ms >= MIN_AVOIDABLE_MS and part.least_ms > 0]
        last_batch = xla_price.last_batch_start(trace)
        found += [last_batch] if last_batch is not None else []
        worst = max(found, key=lambda part: part.least_ms, default=None)
        return StartFinding(worst, steps_ms, xla, last_batch) if worst is not None else None

    def evidence(self, trace: Trace, finding: StartFinding) -> Evidence:
        worst, steps_ms = finding.worst, finding.steps_ms
        says = (
            f"{worst.says} took {format_number(worst.ms / 1e3)} s {worst.when}, "
            f"all other steps of the run {format_number(steps_ms / 1e3, 2)} s"
        )
        start = start_parts.start_sentence(trace)
        says = "; ".join(part for part in (says, worst.also, start) if part)
        numbers = {"startup_ms": worst.ms, "avoidable_ms": worst.avoidable_ms, "steps_ms": steps_ms}
        return Evidence(says, {**numbers, **worst.numbers, **start_parts.start_numbers(trace)}, worst.places)

    def hangs_on_run_length_in(self, trace: Trace, finding: StartFinding) -> bool:
        """Whether Keras chose XLA, or a smaller last batch is compiled: in a longer run that pays."""
        if finding.worst.kind is AvoidableKind.XLA:
            return finding.xla is not None and finding.xla.is_default
        return finding.worst.kind is AvoidableKind.LAST_BATCH

    def remedies(self, trace: Trace, finding: StartFinding) -> Sequence[Remedy]:
        return [Skip(finding.worst.avoidable_ms, spread=finding.worst.spread)]

    def cures(self, trace: Trace, finding: StartFinding) -> Iterable[Prescription]:
        kind, places, last_batch = finding.worst.kind, finding.worst.places, finding.last_batch
        if kind is AvoidableKind.XLA and finding.xla is not None:
            yield from xla_price.leave_out_cures(trace, finding.xla.price, places)
            if last_batch is not None:
                yield from xla_price.one_batch_size_cures(trace, last_batch, last_batch.places)
        elif kind is AvoidableKind.LAST_BATCH and last_batch is not None:
            yield from xla_price.one_batch_size_cures(trace, last_batch, places)
        elif kind in (AvoidableKind.LAYER, AvoidableKind.STEPS):
            yield _loop_cure(trace, places, are_steps=kind is AvoidableKind.STEPS)
        elif kind is AvoidableKind.SHAPES:
            yield Prescription("advice", Effect.EQUIVALENT, "trace it once, with None for the sizes that change")
        else:
            once = "build the model once; to keep its states, keep get_weights()"
            yield Prescription("edit", Effect.EXACT, once)


def _loop_cure(trace: Trace, places: Sequence[Place], *, are_steps: bool) -> Prescription:
    """Puts one iteration into the graph in place of all. ``are_steps``: each iteration is a whole training step."""
    looped = recorded_edits.first_applicable(trace, places, graph_loops.loop_in_graph)
    if looped or are_steps:
        return Prescription("edit", Effect.EQUIVALENT, LOOP_IN_GRAPH, edits=looped)
    says = "leave out unroll=True, or write the repetition as an RNN layer or tf.scan"
    return Prescription(
        "edit",
        Effect.EQUIVALENT,
        says,
        edits=recorded_edits.first_applicable(trace, places, keras_calls.disable_unroll),
    )


def _steps_ms(trace: Trace) -> float:
    """The time of all steps but those that traced."""
    traced = sum(min(e.ms, trace.run_ms) for e in trace.events_of("trace"))
    named = {str(p): trace.run.ms(str(p)) for p in (Phase.STEPS, Phase.WARMUP)}
    windowed = float(trace.steps.ms[trace.steps.windowed].sum()) if len(trace.steps) else 0.0
    windowed = max(windowed - trace.run.ms(str(Phase.STOPPED)), 0.0)
    return max(sum(named.values()) + windowed - (traced if named[str(Phase.WARMUP)] >= traced else 0.0), 0.0)
