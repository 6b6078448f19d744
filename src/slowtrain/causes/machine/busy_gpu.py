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


class BusyGpu(Judged, Cause):
    """Other processes compute on the card, and hold its memory.

    ## What it means
    A card runs the kernels of several programs in turns, and its memory is handed out once. Training that
    shares it takes longer, by more than can be foretold, and has less room for a batch. A notebook that was
    left open counts: TensorFlow keeps all of the memory that it took.

    ## How it is recognised
    In a profile, or in the profiled steps of a run: kernels whose launch had returned start more than 50 µs later,
    although the device had nothing else of this process to do. Then the device ran another process's kernels. What
    these take of a profiled step is told in milliseconds; what they take of other steps is not measured.
    The driver lists the processes that compute on the card and the memory of each. In a run, the run's own
    process is left out; in a container, whose process numbers are not the driver's, one process may be the run
    itself, so that it takes two to say so, and so it does for facts that `slowtrain diagnose --facts` is given: those
    are of another moment, and never prove that a card was free. Processes with less than a twentieth of the memory
    together are no cause; `slowtrain doctor` notes them all the same, what draws on the card, and memory that is in
    use by nobody listed.

    ## What to do
    End what is not needed (`nvidia-smi` lists it, `ps -fp` says what it is), or give the training a card of its
    own with `CUDA_VISIBLE_DEVICES`.

    ## When it is not worth it
    When the card is shared on purpose, and the step spends its time elsewhere.
    """

    title = "Other processes use the GPU"
    machine_topic = "other processes"
    doctor_rank = 50

    def examine(self, trace: Trace) -> Evidence | None:
        known, seen = super().examine(trace), _seen_in_profile(trace)
        if seen is None or known is None:
            return seen or known
        return Evidence(f"{seen.says}; {known.says}", {**known.numbers, **seen.numbers})

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        waited = trace.mean(Category.OTHER_PROCESS)
        return [Drop({Category.OTHER_PROCESS: waited}, 0.0)] if waited else []

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        known = list(super().prescribe(trace, evidence))
        yield from known or [Prescription("setting", Effect.EXACT, ALONE)]

    def wants(self, trace: Trace) -> frozenset[Signal]:
        if _seen_in_profile(trace) is not None:
            return frozenset({Signal.STEPS, Signal.DEVICE})
        # The driver's numbers of processes are the host's: where ours are others, the only one may be this very run.
        found = super().examine(trace)
        unsure = nested_fact(facts_of(trace), "devices", "own_pid_namespace") is not False
        alone = found is not None and found.numbers.get("processes", 0) < SURE
        # Facts beside a profile were perhaps gathered while it was made.
        if alone and (unsure or given(trace)) and not trace.fact("doctor"):
            return self.needs | {Signal.CARD}
        return super().wants(trace) | passing(trace, self.id, Signal.CARD)

    fires = (
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact devices=[{"kind":"GPU"}]
        @fact machine={"devices":{"own_pid_namespace":false},"gpu":{"devices":[{"index":0,"name":"Tesla T4",
        & "memory_total_bytes":16e9,"compute_processes":[{"pid":4711,"memory_used_bytes":9e9}]}]}}
        """,
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact devices=[{"kind":"GPU"}]
        @fact machine={"devices":{"own_pid_namespace":true},"gpu":{"devices":[{"index":0,"name":"Tesla T4",
        & "memory_total_bytes":16e9,"compute_processes":[{"pid":41,"memory_used_bytes":9e9},
        & {"pid":42,"memory_used_bytes":4e9}]}]}}
        """,
        """
        step           1111111111
        dispatch       ddd.......
        other-process  ...oooo...
        device         .......kkk
        @fact profile=true devices=[{"kind":"GPU"}]
        @device busy=3 kernels=60 idle={"dispatch":3,"other-process":4}
        """,
    )
    quiet = (
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact devices=[{"kind":"GPU"}]
        @fact machine={"devices":{"own_pid_namespace":false},"gpu":{"devices":[{"index":0,"name":"Tesla T4",
        & "memory_total_bytes":16e9,"compute_processes":[]}]}}
        """,
    )


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
