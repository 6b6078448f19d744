"""Values are read back in every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.causes.transfer.per_step_readback import fix
from slowtrain.causes.transfer.per_step_readback.loop_readback import LoopReadback, find_loop_readback
from slowtrain.causes.transfer.per_step_readback.profiled_readback import ProfiledReadback, find_profiled_readback
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.script.fixes.loops import deferred_readbacks
from slowtrain.script.interpreter.engine import step_loops
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy


class PerStepReadback(Cause[LoopReadback | ProfiledReadback]):
    """Every step reads values back to Python: losses, norms, predictions, for a line of log."""

    title = "Values are read back in every step"
    needs = frozenset({Signal.STEPS, Signal.READBACKS})
    words = step_loops.STEP_WORDS

    def wants(self, trace: Trace) -> frozenset[Signal]:
        if not trace.fact("profile"):
            return self.needs
        on_device = Signal.DEVICE in trace.signals
        hidden = trace.share(Category.READBACK) + trace.share(Category.UNATTRIBUTED)
        known = find_profiled_readback(trace) is not None or hidden < MIN_SYMPTOM_SHARE
        return frozenset({Signal.STEPS, Signal.DEVICE} | (set() if known or not on_device else {Signal.READBACKS}))

    def find(self, trace: Trace) -> LoopReadback | ProfiledReadback | None:
        return find_profiled_readback(trace) if trace.fact("profile") else find_loop_readback(trace)

    def evidence(self, trace: Trace, finding: LoopReadback | ProfiledReadback) -> Evidence:
        return finding.evidence(trace)

    def remedies(self, trace: Trace, finding: LoopReadback | ProfiledReadback) -> Sequence[Remedy]:
        return finding.remedies(trace)

    def cures(self, trace: Trace, finding: LoopReadback | ProfiledReadback) -> Iterable[Prescription]:
        where = finding.where
        whole = recorded_edits.first_applicable(trace, where, fix.read_whole) or recorded_edits.first_applicable(
            trace, where, fix.read_by_index
        )
        if whole:
            says = "read the whole tensor back at once: .numpy() in front of the loop over it"
            yield Prescription("edit", Effect.EXACT, says, edits=whole)
            return
        deferred = recorded_edits.first_applicable(trace, where, deferred_readbacks.defer_readbacks)
        # A check that ends the run would see a diverged value up to a hundred steps later.
        effect = Effect.EQUIVALENT if recorded_edits.touch_word(trace, deferred, "raise") else Effect.EXACT
        says = "read back every hundredth step, or all values at once at the end of an epoch"
        yield Prescription("edit", effect, says, edits=deferred)
        yield Prescription("edit", Effect.EXACT, "gather in a tf.keras.metrics.Mean and read its result()")
