"""Batches are made in the step's own thread, though they could be made during the step."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Pipeline
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations.recorded_sources import HandmadeInput, handmade_input
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import MIN_WAIT_SHARE
from slowtrain.whatif import Drop, Remedy, Supply

MIN_EXPOSED_SHARE = 0.3  # of the wait for a batch
MIN_HAND_WAITING_SHARE = (
    0.5  # of the time on a batch that lines of the loop make: less is computing, which needs a core
)
AHEAD_OPS = ("Prefetch", "ParallelMap", "ParallelInterleave", "ParallelBatch")


class ExposedInput(Struct, frozen=True):
    """``ms`` a step in which batches are made and nothing else runs. ``hand``: lines of the loop make them."""

    ms: float
    where: tuple[Place, ...]
    hand: HandmadeInput | None = None


class UnprefetchedInput(Cause[ExposedInput]):
    """The device waits while the next batch is made, though it could be made during the step before."""

    title = "Input is not prefetched"
    worth_if = "making a batch takes 5 % of a step or more"
    needs = frozenset({Signal.STEPS, Signal.INPUT})
    recorded = frozenset({Signal.PIPELINE})
    symptoms = frozenset({Category.INPUT, Category.PYTHON})
    words = (".fit", "GradientTape", "train_on_batch")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        """For a profile without a data set also the lines of the loop."""
        wanted = super().wants(trace)
        by_hand = Signal.PIPELINE in wanted and trace.fact("profile") and not trace.pipelines
        return wanted | {Signal.LINES} if by_hand else wanted

    def find(self, trace: Trace) -> ExposedInput | None:
        pipe = trace.pipeline
        if pipe is None or not any(w.place or "profiled" in w.detail for w in pipe.written):
            return _find_exposed_lines(trace)
        return _find_exposed_stages(trace, pipe)

    def evidence(self, trace: Trace, finding: ExposedInput) -> Evidence:
        return Evidence(
            f"each step of {format_number(trace.step_ms)} ms first makes its batch in its own thread, "
            f"{format_number(finding.ms, 2)} ms, before anything else can begin",
            {"exposed_ms": finding.ms, "rest_ms": trace.step_ms - finding.ms},
            finding.where,
        )

    def remedies(self, trace: Trace, finding: ExposedInput) -> Sequence[Remedy]:
        hand = finding.hand
        if hand is None:
            return [Supply(overlapped=True, spread=(0.7, 1.1))]
        # A wait needs no core beside the step: it is hidden up to the length of the rest of the step.
        hidden = min(hand.ms, trace.step_ms - hand.ms)
        return [Drop({Category.PYTHON: hidden}, 1 - hand.waiting, (0.8, 1.1))]


def _find_exposed_lines(trace: Trace) -> ExposedInput | None:
    """Lines of the loop that make its batches, and mostly wait."""
    hand = handmade_input(trace)
    if hand is None or hand.waiting <= MIN_HAND_WAITING_SHARE:
        return None
    fits = MIN_WAIT_SHARE * trace.step_ms <= hand.ms <= trace.step_ms - hand.ms
    return ExposedInput(hand.ms, hand.where, hand) if fits else None


def _find_exposed_stages(trace: Trace, pipe: Pipeline) -> ExposedInput | None:
    """Stages behind the last one that works ahead."""
    wait = trace.mean(Category.INPUT)
    if wait < MIN_WAIT_SHARE * trace.step_ms:
        return None
    # Without counters only the pipeline as written is known, and not what TensorFlow adds.
    exposed = pipe.exposed_ms if pipe.nodes and pipe.counted else 0.0 if _works_ahead(pipe) else wait
    if exposed < MIN_EXPOSED_SHARE * wait or exposed < MIN_WAIT_SHARE * trace.step_ms:
        return None
    return ExposedInput(min(exposed, wait), _last_places(pipe), handmade_input(trace))


def _works_ahead(pipe: Pipeline) -> bool:
    """Whether any stage of the pipeline as written works ahead of its consumer."""
    return any(w.op.startswith(AHEAD_OPS) for w in pipe.written)


def _last_places(pipe: Pipeline) -> tuple[Place, ...]:
    """The user's lines from the end of the pipeline on: the first is where the prefetch belongs."""
    return tuple(dict.fromkeys(w.place for w in reversed(pipe.written) if w.place))[:3]
