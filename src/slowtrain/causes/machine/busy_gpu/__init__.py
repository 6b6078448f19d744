"""Other processes use the card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import LITTLE, Cause
from slowtrain.causes.judged import Judged, facts_of, given, passing
from slowtrain.machine.tables.fact_access import nested_fact
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.profile.waits.idle_reasons import OTHER_PROCESS_REASON
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy

ALONE = "give the training a card of its own: end what is not needed (nvidia-smi lists it), or use CUDA_VISIBLE_DEVICES"
SURE = 2  # processes: one of them may be the run itself


class BusyGpu(Judged, Cause[Evidence]):
    """Other processes compute on the card, and hold its memory."""

    title = "Other processes use the GPU"
    machine_topic = "other processes"
    doctor_rank = 50

    def find(self, trace: Trace) -> Evidence | None:
        known, seen = super().find(trace), _seen_in_profile(trace)
        if seen is None or known is None:
            return seen or known
        return Evidence(f"{seen.says}; {known.says}", {**known.numbers, **seen.numbers})

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        waited = trace.mean(Category.OTHER_PROCESS)
        return [Drop({Category.OTHER_PROCESS: waited}, 0.0)] if waited else []

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        known = list(super().cures(trace, evidence))
        yield from known or [Prescription("setting", Effect.EXACT, ALONE)]

    def wants(self, trace: Trace) -> frozenset[Signal]:
        if _seen_in_profile(trace) is not None:
            return frozenset({Signal.STEPS, Signal.DEVICE})
        # The driver's numbers of processes are the host's: where ours are others, the only one may be this very run.
        found = super().find(trace)
        unsure = nested_fact(facts_of(trace), "devices", "own_pid_namespace") is not False
        alone = found is not None and found.numbers.get("processes", 0) < SURE
        # Facts beside a profile were perhaps gathered while it was made.
        if alone and (unsure or given(trace)) and not trace.fact("doctor"):
            return self.needs | {Signal.CARD}
        return super().wants(trace) | passing(trace, self.id, Signal.CARD)


def _seen_in_profile(trace: Trace) -> Evidence | None:
    """Kernels that waited, launched, while another process had the device."""
    if trace.device is None or trace.device.kind != "GPU":
        return None
    waited_ms, step_ms = trace.device.profiled_idle(OTHER_PROCESS_REASON)
    if waited_ms <= 0 or waited_ms < LITTLE * step_ms:
        return None
    of = "profiled step" if trace.device.profiled is not None else "step"
    return Evidence(
        f"for {format_number(waited_ms)} of each {of}'s {format_number(step_ms)} ms kernels that were launched "
        "already waited while "
        "another process computed on the device",
        {"other_process_ms": waited_ms, "profiled_step_ms": step_ms},
    )
