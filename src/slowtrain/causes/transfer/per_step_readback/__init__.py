"""Values are read back in every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.causes.transfer.per_step_readback import fix
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.interpreter.engine import step_loops
from slowtrain.script.locations.recorded_sources import model_answer_places
from slowtrain.source.cures import measured
from slowtrain.source.cures.transfer import readbacks
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import user_loop
from slowtrain.trace.signals.host.host_work import writes_checkpoint, writes_log
from slowtrain.whatif import Drop, Remedy

LEAST_COUNT = 0.5  # readbacks a step: fewer are an epoch's


class PerStepReadback(Cause[Evidence]):
    """Every step reads values back to Python: losses, norms, predictions, for a line of log."""

    title = "Values are read back in every step"
    needs = frozenset({Signal.STEPS, Signal.READBACKS})
    words = step_loops.STEP_WORDS

    def wants(self, trace: Trace) -> frozenset[Signal]:
        if not trace.fact("profile"):
            return self.needs
        on_device = Signal.DEVICE in trace.signals
        hidden = trace.share(Category.READBACK) + trace.share(Category.UNATTRIBUTED)
        told = _copied(trace) is not None or hidden < MIN_SYMPTOM_SHARE
        return frozenset({Signal.STEPS, Signal.DEVICE} | (set() if told or not on_device else {Signal.READBACKS}))

    def find(self, trace: Trace) -> Evidence | None:
        if trace.fact("profile"):
            return _copied(trace)
        # A checkpoint reads every variable, a histogram all numbers: that is saving or logging, not reading back.
        # Nor can an answer wait that the step's own input is made of, as an action that an environment takes.
        places, needed = user_loop.ms_by_line(trace, "readback"), model_answer_places(trace)
        read = {
            p: ms
            for p, ms in places.items()
            if p not in needed and not writes_checkpoint(trace, p) and not writes_log(trace, p)
        }
        count = user_loop.spans_per_step(trace, "readback", read)
        if not read or count < LEAST_COUNT or trace.steps.source.endswith("()"):
            return None
        lines = user_loop.divide_loop(trace)
        every = (*lines.before, *lines.after)
        # A line after the training call that reads back, with the loop around it; all of such a line goes.
        whole = [line for line in user_loop.with_loop_heads(every, set(read)) if line.ms > 0]
        steps = set(user_loop.ms_by_line(trace, "function")) - set(read)
        if any(line.place in steps for line in whole):  # a loop that acts and looks, as on an environment: no log
            whole = [line for line in whole if line.place in read]
        total = sum(line.ms for line in every)
        formatting = lines.outside_ms * sum(line.ms for line in whole) / total if total else 0.0
        asking = sum(read.values())
        waited = min(asking, trace.mean(Category.READBACK))
        cost = max(formatting, asking if trace.device is not None else waited)
        where = tuple(dict.fromkeys([line.place for line in whole] + list(read)))
        return Evidence(
            f"{format_number(count)} values are read back in each step; "
            f"the lines that do it take {format_number(cost)} of {format_number(trace.step_ms)} ms",
            {"readbacks_per_step": count, "readback_ms": waited, "lines_ms": cost, "beside_device_ms": asking - waited},
            where[:3],
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        waited, cost = evidence.numbers["readback_ms"], evidence.numbers["lines_ms"]
        if trace.fact("profile"):
            # The device idled; and without the wait what the host does lies beside what the device does, not behind it.
            # On an H100 two steps gained 1.84 and 5.6 times so, more than this, for launching gets quicker, too.
            others = (Category.DISPATCH, Category.PYTHON, Category.CONVERT, Category.FEED, Category.CALLBACK)
            host = sum(map(trace.mean, others))
            beside = min(trace.mean(Category.DEVICE), host)
            return [Drop({Category.READBACK: 0.98 * waited, Category.DEVICE: beside}, 0.0, (0.6, 1.4))]
        drops = {Category.READBACK: waited}
        left = max(cost - waited, 0.0)
        if trace.device is not None:
            # What is waited for beside the device at work is won as far as the host works meanwhile.
            at_work = evidence.numbers.get("beside_device_ms", 0.0)
            host = trace.step_ms - trace.mean(Category.DEVICE) - waited
            drops[Category.DEVICE] = min(at_work, trace.mean(Category.DEVICE), max(host, 0.0))
            left = max(left - at_work, 0.0)
        elif trace.on_accelerator:  # without a timeline all of it is read back
            drops[Category.READBACK] = waited = min(waited, max(trace.step_ms - waited, 0.0))
        for category in (Category.PYTHON, Category.CONVERT, Category.FEED):
            drops[category] = min(left, trace.mean(category))
            left -= drops[category]
        # Every hundredth step still reads, or each reads one of many values, whichever is less.
        kept = min(0.01, waited / max(evidence.numbers["readbacks_per_step"], 1.0) / max(cost, 1e-9))
        return [Drop({c: (1 - kept) * ms for c, ms in drops.items()}, spread=(0.65, 1.1))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        rarely = "read back every hundredth step, or all values at once at the end of an epoch"
        read = measured.first(trace, evidence.where, fix.read_whole)
        read = read or measured.first(trace, evidence.where, fix.read_by_place)
        if read:
            says = "read the whole tensor back at once: .numpy() in front of the loop over it"
            yield Prescription("edit", Effect.EXACT, says, edits=read)
            return
        found = measured.first(trace, evidence.where, readbacks.deferred)
        # A check that ends the run would see a diverged value up to a hundred steps later.
        effect = Effect.EQUIVALENT if measured.touches(trace, found, "raise") else Effect.EXACT
        yield Prescription("edit", effect, rarely, edits=found)
        yield Prescription("edit", Effect.EXACT, "gather in a tf.keras.metrics.Mean and read its result()")


def _copied(trace: Trace) -> Evidence | None:
    """In a profile: copies to the host in every step, for which the device idles."""
    device = trace.device
    copies = device.copies.get("d2h") if device is not None else None
    waited = trace.mean(Category.READBACK)
    if device is None or copies is None or waited < MIN_SYMPTOM_SHARE * trace.step_ms:
        return None
    if trace.fact("host_callbacks", default=0.0) >= LEAST_COUNT:
        return None  # arguments of what the compiled step has the host compute
    # Tensors on their way to an op on the host come back; and waiting for the device alone reads nothing back.
    crossing = sum(count for text, (_, count) in device.by_op.items() if framework_names.GRAPH_EDGE.search(text))
    count = copies.count - crossing / 2
    if count < max(LEAST_COUNT, 0.5 * copies.count):
        return None
    return Evidence(
        f"{format_number(count)} values are read back in each step; "
        f"the device idles for {format_number(waited)} of {format_number(trace.step_ms)} ms meanwhile",
        {"readbacks_per_step": count, "readback_ms": waited, "lines_ms": waited},
    )
