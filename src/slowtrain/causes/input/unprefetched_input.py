"""Batches are made in the step's own thread, though they would fit behind the step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.trace.feeding import WAITED, fed
from slowtrain.trace.pipeline import Pipeline
from slowtrain.whatif import Remedy, Supply


class UnprefetchedInput(Cause):
    """The device waits while the next batch is made, though it could be made during the step before.

    ## What it means
    The last nodes of the input pipeline run in the thread that asks for the batch, so that their
    work adds to every step instead of hiding behind it.

    ## How it is recognised
    Work in the nodes after the last one that works ahead (`prefetch`, or a parallel `map`), and a
    wait for each batch to match. A pipeline that ends in `prefetch` and is waited for all the
    same is too slow, which is another cause. TensorFlow itself adds a `prefetch` at the end of
    many pipelines when autotuning is on: what counts is the pipeline that ran, not the one that
    was written.

    ## What to do
    End the pipeline with `.prefetch(tf.data.AUTOTUNE)`.

    ## When it is not worth it
    When making a batch takes longer than the rest of the step, prefetching hides only as much as
    the rest of the step is long: then make the batch cheaper first. On a CPU without idle cores
    there is nothing to hide behind.
    """

    title = "Input is not prefetched"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})

    def examine(self, trace: Trace) -> Evidence | None:
        pipe, wait = fed(trace), trace.mean(Category.INPUT)
        if pipe is None or not any(w.place for w in pipe.written):
            return None
        exposed = pipe.exposed_ms
        if exposed < 0.3 * wait or exposed < WAITED * trace.step_ms:
            return None
        return Evidence(
            f"each step of {trace.step_ms:.3g} ms waits {wait:.2g} ms for its batch, of which {min(exposed, wait):.2g} ms "
            "are work in the step's own thread",
            {"wait_ms": wait, "exposed_ms": exposed, "rest_ms": trace.step_ms - wait},
            _last(pipe),
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return [Supply(beside=True, spread=(0.7, 1.1))]

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        yield Prescription("edit", Effect.EXACT, "end the pipeline with .prefetch(tf.data.AUTOTUNE)")

    fires = (
        """
        step    1111111111
        input   iiii......
        device  ....kkkkkk
        @pipeline Slices ms=0.1 > Map ms=3.7 line=12 > Batch ms=0.2 line=12
        """,
        """
        step    1111111111
        input   iii.......
        device  ...kkkkkkk
        @pipeline Slices ms=0.1 line=11 > ParallelMapV2 ms=3 parallelism=2 line=12 > Batch ms=3 line=13
        """,
    )
    quiet = (
        """
        step    1111111111
        device  kkkkkkkkkk
        @pipeline Slices ms=0.1 > Map ms=3.7 line=12 > Batch ms=0.2 line=12 > Prefetch buffer=2
        """,
        """
        step    1111111111
        input   iiii......
        device  ....kkkkkk
        @pipeline Slices ms=0.1 > Map ms=9.7 line=12 > Batch ms=0.2 line=12 > Prefetch buffer=2
        """,
    )


def _last(pipe: Pipeline) -> tuple[Place, ...]:
    """The user's lines from the end of the pipeline on: where the prefetch goes first."""
    return tuple(dict.fromkeys(w.place for w in reversed(pipe.written) if w.place))[:3]
