"""Starting and compiling take a large part of the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.startup.slow_startup import compiling, graphloops, writtenout
from slowtrain.model import Effect, Evidence, Phase, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.source.cures import measured
from slowtrain.source.cures.host import kerascalls
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import avoidable_start, start_parts
from slowtrain.trace.signals.host.avoidable_start import AvoidableKind, AvoidableStart
from slowtrain.whatif import Remedy, Skip

LEAST_MS = 1000.0  # of what could be avoided: an ordinary model traces and starts in about that


class SlowStartup(Cause[Evidence]):
    """Starting and compiling the model take a large part of a short run."""

    title = "starting and compiling take a large part of the run"
    verdict_word = VerdictKind.STARTUP
    needs = frozenset({Signal.PHASES, Signal.TRACES})
    scope = "run"
    words = ("unroll", "GradientTape")
    beside = (".fit", "train_on_batch", "GradientTape")

    def find(self, trace: Trace) -> Evidence | None:
        worst, steps = _worst(trace), _steps_ms(trace)
        if worst is None:
            return None
        says = (
            f"{worst.says} took {format_number(worst.ms / 1e3)} s {worst.when}, "
            f"all other steps of the run {format_number(steps / 1e3, 2)} s"
        )
        start = start_parts.start_sentence(trace)
        says = "; ".join(part for part in (says, worst.also, start) if part)
        numbers = {"startup_ms": worst.ms, "avoidable_ms": worst.avoidable_ms, "steps_ms": steps}
        return Evidence(says, {**numbers, **worst.numbers, **start_parts.start_numbers(trace)}, worst.places)

    def hangs_on_run_length_in(self, trace: Trace, evidence: Evidence) -> bool:
        """Nobody asked for XLA, or for a smaller last batch: Keras' own choice pays in a longer run."""
        worst, event = _worst(trace), compiling.first_training(trace)
        if worst is None:
            return False
        own = worst.kind is AvoidableKind.XLA and event is not None and compiling.by_default(trace, event)
        return own or worst.kind is AvoidableKind.LAST_BATCH

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        worst = _worst(trace)
        return [Skip(evidence.numbers["avoidable_ms"], spread=worst.spread)] if worst is not None else []

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        worst = _worst(trace)
        if worst is None:
            return
        kind = worst.kind
        if kind is AvoidableKind.XLA:
            yield from compiling.left_out(trace, evidence)
            batches = compiling.for_last_batch(trace)
            yield from compiling.batches_of_one_size(trace, batches.places if batches else ())
        elif kind is AvoidableKind.LAST_BATCH:
            yield from compiling.batches_of_one_size(trace, evidence.where)
        elif kind in (AvoidableKind.LAYER, AvoidableKind.STEPS):
            yield from _rolled(trace, evidence, steps=kind is AvoidableKind.STEPS)
        elif kind is AvoidableKind.SHAPES:
            yield Prescription("advice", Effect.EQUIVALENT, "trace it once, with None for the sizes that change")
        else:
            once = "build the model once; to keep its states, keep get_weights()"
            yield Prescription("edit", Effect.EXACT, once)


def _worst(trace: Trace) -> AvoidableStart | None:
    """Of what could be avoided the part that surely saves most; None of little, and where the steps take longer."""
    steps = _steps_ms(trace)
    parts = (compiling.by_xla(trace), writtenout.unrolled(trace), avoidable_start.repeated_model_building(trace))
    longer = [part for part in parts if part is not None and part.ms >= steps]
    found = [part for part in (*longer, avoidable_start.repeated_shape_traces(trace)) if part is not None]
    found = [part for part in found if part.avoidable_ms >= LEAST_MS and part.least_ms > 0]
    last_batch = compiling.for_last_batch(trace)
    found += [last_batch] if last_batch is not None else []
    return max(found, key=lambda part: part.least_ms, default=None)


def _rolled(trace: Trace, evidence: Evidence, *, steps: bool) -> Iterable[Prescription]:
    """One turn in the graph in place of all of them. ``steps``: whole training steps are written out."""
    looped = measured.first(trace, evidence.where, graphloops.looped)
    if looped or steps:
        yield Prescription("edit", Effect.EQUIVALENT, "let the graph loop itself: for _ in tf.range(n)", edits=looped)
        return
    says = "leave out unroll=True, or write the repetition as an RNN layer or tf.scan"
    made = measured.first(trace, evidence.where, kerascalls.rolled)
    yield Prescription("edit", Effect.EQUIVALENT, says, edits=made)


def _steps_ms(trace: Trace) -> float:
    """All steps but those that traced."""
    traced = sum(min(e.ms, trace.run_ms) for e in trace.events_of("trace"))
    named = {str(p): trace.run.ms(str(p)) for p in (Phase.STEPS, Phase.WARMUP)}
    windowed = float(trace.steps.ms[trace.steps.windowed].sum()) if len(trace.steps) else 0.0
    windowed = max(windowed - trace.run.ms(str(Phase.STOPPED)), 0.0)
    return max(sum(named.values()) + windowed - (traced if named[str(Phase.WARMUP)] >= traced else 0.0), 0.0)
