"""Batches are made in the step's own thread, though they would fit behind the step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Pipeline
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations.recorded_sources import handmade_input
from slowtrain.source.cures import measured
from slowtrain.source.cures.input import ahead, datasets
from slowtrain.trace import Trace
from slowtrain.trace.signals.input.input_feed import MIN_WAIT_SHARE
from slowtrain.whatif import Drop, Remedy, Supply


class UnprefetchedInput(Cause[Evidence]):
    """The device waits while the next batch is made, though it could be made during the step before."""

    title = "Input is not prefetched"
    needs = frozenset({Signal.STEPS, Signal.INPUT})
    recorded = frozenset({Signal.PIPELINE})
    symptoms = frozenset({Category.INPUT, Category.PYTHON})
    words = (".fit", "GradientTape", "train_on_batch")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        """Of a profile without a data set also what the loop's own lines do."""
        wanted = super().wants(trace)
        by_hand = Signal.PIPELINE in wanted and trace.fact("profile") and not trace.pipelines
        return wanted | {Signal.LINES} if by_hand else wanted

    def find(self, trace: Trace) -> Evidence | None:
        found = _exposed(trace)
        if found is None:
            return None
        exposed, where = found
        return Evidence(
            f"each step of {format_number(trace.step_ms)} ms first makes its batch in its own thread, "
            f"{format_number(exposed, 2)} ms, "
            "before anything else can begin",
            {"exposed_ms": exposed, "rest_ms": trace.step_ms - exposed},
            where,
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        hand = handmade_input(trace)
        if hand is None:
            return [Supply(beside=True, spread=(0.7, 1.1))]
        # What waits needs no core beside the step: as much is hidden as the rest of the step is long.
        hidden = min(hand.ms, trace.step_ms - hand.ms)
        return [Drop({Category.PYTHON: hidden}, 1 - hand.waiting, (0.8, 1.1))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        # The first of these lines is the pipeline's last operation; further up, prefetch would hide less.
        if handmade_input(trace) is not None:
            made = measured.first(trace, evidence.where, ahead.made_ahead)
            says = "make the next batch in a background thread while the step runs"
            yield Prescription("edit", Effect.EXACT, says, edits=made)
            return
        found = measured.first(trace, evidence.where[:1], datasets.prefetched)
        says = "end the pipeline with .prefetch(tf.data.AUTOTUNE)"
        yield Prescription("edit", Effect.EXACT, says, edits=found, treatment="prefetch")


def _exposed(trace: Trace) -> tuple[float, tuple[Place, ...]] | None:
    """Ms a step of making batches that nothing runs beside, and the user's lines."""
    pipe, wait = trace.pipeline, trace.mean(Category.INPUT)
    if pipe is None or not any(w.place or "profiled" in w.detail for w in pipe.written):
        hand = handmade_input(trace)
        fits = hand is not None and MIN_WAIT_SHARE * trace.step_ms <= hand.ms <= trace.step_ms - hand.ms
        return (hand.ms, hand.where) if hand is not None and fits and hand.waiting > 0.5 else None
    if wait < MIN_WAIT_SHARE * trace.step_ms:
        return None
    # Without counters the pipeline as written has to do: then nothing was measured of what TensorFlow adds.
    exposed = pipe.exposed_ms if pipe.nodes and pipe.counted else 0.0 if _works_ahead(pipe) else wait
    if exposed < 0.3 * wait or exposed < MIN_WAIT_SHARE * trace.step_ms:
        return None
    return min(exposed, wait), _last(pipe)


def _works_ahead(pipe: Pipeline) -> bool:
    """Whether the pipeline as written works ahead of its consumer anywhere."""
    ahead = ("Prefetch", "ParallelMap", "ParallelInterleave", "ParallelBatch")
    return any(w.op.startswith(ahead) for w in pipe.written)


def _last(pipe: Pipeline) -> tuple[Place, ...]:
    """The user's lines from the end of the pipeline on: where the prefetch goes first."""
    return tuple(dict.fromkeys(w.place for w in reversed(pipe.written) if w.place))[:3]
