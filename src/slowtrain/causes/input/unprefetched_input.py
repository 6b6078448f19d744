from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy, Supply


class UnprefetchedInput(Cause):
    """The device waits while the next batch is made, though it could be made during the step before.

    ## What it means
    The last nodes of the pipeline run in the thread that asks for the batch, so their work adds
    to every step instead of hiding behind it.

    ## How it is recognised
    Work in the nodes after the last asynchronous one (`prefetch`, a parallel `map`), and a wait
    for each batch that is about as long. A pipeline that ends in `prefetch` and is waited for
    nevertheless is too slow, which is another cause.

    ## What to do
    End the pipeline with `.prefetch(tf.data.AUTOTUNE)`.

    ## When it is not worth it
    When making a batch takes longer than the rest of the step, prefetching only hides as much as
    the rest of the step is long; and on a CPU without idle cores there is nothing to hide behind.
    """

    title = "Input is not prefetched"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})

    def examine(self, trace: Trace) -> Evidence | None:
        pipe, wait = trace.pipeline, trace.mean(Category.INPUT)
        if pipe is None or not pipe.nodes or wait <= 0:
            return None
        exposed = pipe.exposed_ms
        if exposed < 0.5 * pipe.ms or exposed < 0.3 * wait:
            return None
        last = next((n.written.place for n in reversed(pipe.nodes) if n.written and n.written.place), None)
        return Evidence(
            f"each step waits {wait:.2g} ms for its batch, which is made in the step's own thread ({exposed:.2g} ms a batch)",
            {"wait_ms": wait, "exposed_ms": exposed, "rest_ms": trace.step_ms - wait},
            (last,) if last else (),
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return [Supply(beside=True)]

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        yield Prescription("edit", Effect.EXACT, "end the pipeline with .prefetch(tf.data.AUTOTUNE)")

    fires = (
        """
        step    1111111111
        input   iiii......
        device  ....kkkkkk
        @pipeline Slices ms=0.1 > Map ms=3.7 line=12 > Batch ms=0.2 line=12
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
