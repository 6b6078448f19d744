"""Batches are made and converted by hand in each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.causes.transfer.per_step_feed import fix
from slowtrain.causes.transfer.per_step_feed.hand_feed import HandFeed
from slowtrain.causes.transfer.per_step_feed.loop_feed import find_loop_feed
from slowtrain.causes.transfer.per_step_feed.profiled_feed import find_profiled_feed
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.script.locations.edits import input_edits, recorded_edits
from slowtrain.script.locations.recorded_sources import input_follows_model, recorded_source
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import handover_ms_by_category
from slowtrain.whatif import Drop, Remedy

# What asking an in-memory data set for its next batch costs in an eager loop (TensorFlow 2.21, batches prefetched):
# the median of the cured scripts in clinic/ that iterate one, 0.3 to 0.7. The cure pays it instead.
NEXT_BATCH_MS = 0.5
ARRAY_CONVERSION_MS = 0.03  # of a batch that is an array by then: tf.constant of 150 kB, on one core


class PerStepFeed(Cause[HandFeed]):
    """Each step makes its batch in Python and turns it into tensors by hand, while nothing computes."""

    title = "Batches are made and converted by hand in each step"
    needs = frozenset({Signal.STEPS, Signal.FEEDS})
    words = ("GradientTape", "train_on_batch", "Session")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        if not trace.fact("profile"):
            return self.needs
        # Python between calls may be what makes the batch.
        hidden = sum(map(trace.share, (Category.CONVERT, Category.FEED, Category.PYTHON, Category.UNATTRIBUTED)))
        on_device = Signal.DEVICE in trace.signals
        known = find_profiled_feed(trace) is not None or hidden < MIN_SYMPTOM_SHARE
        return frozenset({Signal.STEPS, Signal.DEVICE} | (set() if known or not on_device else {Signal.FEEDS}))

    def find(self, trace: Trace) -> HandFeed | None:
        if trace.fact("profile"):
            return find_profiled_feed(trace)
        return None if input_follows_model(trace) else find_loop_feed(trace)

    def evidence(self, trace: Trace, finding: HandFeed) -> Evidence:
        return finding.profile_evidence(trace) if trace.fact("profile") else finding.loop_evidence(trace)

    def remedies(self, trace: Trace, finding: HandFeed) -> Sequence[Remedy]:
        # The cure costs something itself. That is taken from the conversions first, then from the script's Python, then
        # from the copies inside the call.
        feed, python = finding.feed_ms, finding.python_ms
        cure_ms = _cure_ms(trace, finding)
        spared = {
            Category.PYTHON: max(python - max(cure_ms - feed, 0.0), 0.0),
            Category.DISPATCH: max(finding.in_call_ms - max(cure_ms - feed - python, 0.0), 0.0),
        }
        left = max(feed - cure_ms, 0.0)
        for category, ms in handover_ms_by_category(trace).items():
            spared[category] = spared.get(category, 0.0) + min(left, ms)
            left = max(left - ms, 0.0)
        return [Drop(spared, spread=(0.6, 1.1))]

    def cures(self, trace: Trace, finding: HandFeed) -> Iterable[Prescription]:
        if trace.on_jax:
            ahead = "jax.device_put the next batch before the step that is waited for, or keep the data on the device"
            yield Prescription("edit", Effect.EXACT, ahead)
            return
        once = input_edits.hoist_loop_work(trace, finding.where)
        arrays = () if once else recorded_edits.all_applicable(trace, finding.where, fix.as_array_once)
        arrays = arrays or (() if once else recorded_edits.all_applicable(trace, finding.where, fix.as_array_first))
        if arrays:
            says = "make an array of the list first: TensorFlow converts lists element by element"
            yield Prescription("edit", Effect.EXACT, says, edits=arrays)
        says = "feed from a tf.data.Dataset that ends in .prefetch(tf.data.AUTOTUNE), or convert once before the loop"
        yield Prescription("edit", Effect.EXACT, says, edits=once)


def _cure_ms(trace: Trace, finding: HandFeed) -> float:
    """What a step pays for its batch after the cure."""
    if _feeds_session(trace):
        return 0.0
    if _converts_list(trace, finding):  # rows of an array that is made before the loop cost next to nothing
        return min(NEXT_BATCH_MS, ARRAY_CONVERSION_MS * finding.conversions)
    return NEXT_BATCH_MS


def _feeds_session(trace: Trace) -> bool:
    """Whether all conversions are of a session of TensorFlow 1, which takes arrays as they are."""
    return {trace.names[int(n)].text for n in set(trace.lane("feed").name.tolist())} == {"Session.run"}


def _converts_list(trace: Trace, finding: HandFeed) -> bool:
    """Whether the text makes a list of the batch's rows, which is then converted number by number."""
    place = finding.where[0] if finding.where else None
    text = recorded_source(trace, place.file) if place is not None else None
    return place is not None and text is not None and fix.converts_new_list(text, place.line)
