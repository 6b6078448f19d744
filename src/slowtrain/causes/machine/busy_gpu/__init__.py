"""Other processes use the card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.causes.fact_causes import FactCause, has_given_facts, machine_facts, recheck_signals
from slowtrain.machine.tables.fact_access import nested_fact
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.profile.summaries.idle_reasons import OTHER_PROCESS_REASON
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy

FREE_GPU_CURE = "end other processes on the card (nvidia-smi lists them), or choose another with CUDA_VISIBLE_DEVICES"
MIN_CERTAIN_PROCESSES = 2  # one process may be the run itself


class BusyGpu(FactCause, Cause[Evidence]):
    """Other processes compute on the card and use its memory."""

    title = "Other processes use the GPU"
    machine_topic = "other processes"
    doctor_rank = 50

    def find(self, trace: Trace) -> Evidence | None:
        listed, profiled = super().find(trace), _waits_for_other_process(trace)
        if profiled is None or listed is None:
            return profiled or listed
        return Evidence(f"{profiled.says}; {listed.says}", {**listed.numbers, **profiled.numbers})

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        waited_ms = trace.mean(Category.OTHER_PROCESS)
        return [Drop({Category.OTHER_PROCESS: waited_ms}, 0.0)] if waited_ms else []

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        by_facts = list(super().cures(trace, evidence))
        yield from by_facts or [Prescription("setting", Effect.EXACT, FREE_GPU_CURE)]

    def wants(self, trace: Trace) -> frozenset[Signal]:
        if _waits_for_other_process(trace) is not None:
            return frozenset({Signal.STEPS, Signal.DEVICE})
        # The driver uses the host's process numbers. In another namespace the only listed process may be this run.
        listed = super().find(trace)
        unsure = nested_fact(machine_facts(trace), "devices", "own_pid_namespace") is not False
        is_single = listed is not None and listed.numbers.get("processes", 0) < MIN_CERTAIN_PROCESSES
        # Facts next to a profile were perhaps gathered while it was recorded.
        if is_single and (unsure or has_given_facts(trace)) and not trace.fact("doctor"):
            return self.needs | {Signal.CARD}
        return super().wants(trace) | recheck_signals(trace, self.id, Signal.CARD)


def _waits_for_other_process(trace: Trace) -> Evidence | None:
    """Kernels that waited after their launch while another process used the device."""
    if trace.device is None or trace.device.kind != "GPU":
        return None
    waited_ms, step_ms = trace.device.profiled_idle(OTHER_PROCESS_REASON)
    if waited_ms <= 0 or waited_ms < MIN_SYMPTOM_SHARE * step_ms:
        return None
    step = "profiled step" if trace.device.profiled is not None else "step"
    return Evidence(
        f"for {format_number(waited_ms)} of each {step}'s {format_number(step_ms)} ms launched kernels waited while "
        "another process computed on the device",
        {"other_process_ms": waited_ms, "profiled_step_ms": step_ms},
    )
