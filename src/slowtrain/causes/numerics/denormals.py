from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import LITTLE, Cause
from slowtrain.model import Effect, Evidence, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy


class Denormals(Cause):
    """Weights or the optimizer's state hold subnormal numbers, and arithmetic with them is slower here.

    ## What it means
    Numbers below 1.2e-38 are kept in a format that many processors compute with much more slowly. They come of
    weights or moving averages that shrink towards zero and never arrive.

    ## How it is recognised
    With `slowtrain run --on-nonfinite` the variables of training functions are looked through about once a second;
    where at least 0.1 % are subnormal, products of such numbers are timed beside those of normal ones, in the same
    process. Reported is what both measurements give together, and the variable that holds most: a share alone costs
    nothing. TensorFlow's own threads take such numbers for zero, so that in most runs there is nothing to gain.

    ## What to do
    Keep such numbers from arising: no weight decay without end on what is not used, a larger epsilon in the optimizer,
    numbers scaled up.

    ## When it is not worth it
    Where the time measured for such numbers is that of others, which is the rule inside functions on a CPU and on GPUs.
    """

    title = "Subnormal numbers slow the arithmetic"
    needs = frozenset({Signal.SUBNORMALS})
    scope = "step"
    matters = True

    def examine(self, trace: Trace) -> Evidence | None:
        share = float(trace.fact("subnormals", "share") or 0.0)
        slower = float(trace.fact("subnormal_cost", "function") or 1.0)
        # What an op over all variables loses; a step does more than that, so that this is the most there is to gain.
        if share * (slower - 1) < LITTLE:
            return None
        says = f"{share:.0%} of the variables' numbers are subnormal; products of such take {slower:.1f} times as long"
        where, most = trace.fact("subnormals", "where"), float(trace.fact("subnormals", "most") or 0.0)
        if where and most:
            says += f"; most of them, {most:,.0f}, are in {where}"
        return Evidence(says, {"subnormal_share": share, "slowdown": slower})

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        yield Prescription(
            "advice",
            Effect.CHANGES_TRAINING,
            "keep small numbers from shrinking for ever: a larger epsilon in the optimizer, less decay, another scale",
        )

    fires = (
        """
        step    1111
        device  kkkk
        @fact subnormals={"share":0.4,"count":400,"of":1000} subnormal_cost={"function":6.5,"eager":8.0,"numpy":17.0}
        """,
    )
    quiet = (
        """
        step    1111
        device  kkkk
        @fact subnormals={"share":0.4,"count":400,"of":1000} subnormal_cost={"function":1.02,"eager":1.7,"numpy":17.0}
        """,
        """
        step    1111
        device  kkkk
        @fact subnormals={"share":0.0,"count":0,"of":1000}
        """,
    )
