"""Other processes use the card."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.judged import Judged, facts_of, given, passing
from slowtrain.machine.reading import at
from slowtrain.model import Signal
from slowtrain.trace import Trace

SURE = 2  # processes: one of them may be the run itself


class BusyGpu(Judged, Cause):
    """Other processes compute on the card, and hold its memory.

    ## What it means
    A card runs the kernels of several programs in turns, and its memory is handed out once. Training that
    shares it takes longer, by more than can be foretold, and has less room for a batch. A notebook that was
    left open counts: TensorFlow keeps all of the memory that it took.

    ## How it is recognised
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

    def wants(self, trace: Trace) -> frozenset[Signal]:
        # The driver's numbers of processes are the host's: where ours are others, the only one may be this very run.
        found = super().examine(trace)
        unsure = at(facts_of(trace), "devices", "own_pid_namespace") is not False
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
