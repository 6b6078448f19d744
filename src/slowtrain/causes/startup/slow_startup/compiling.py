"""What compiling by XLA costs a run at its start, and what the steps would lose without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from slowtrain.causes.startup.slow_startup import remainder
from slowtrain.columns.array_statistics import median_value
from slowtrain.columns.spans import Event
from slowtrain.model import Effect, Evidence, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.locations import xla_default
from slowtrain.source.cures import measured
from slowtrain.source.cures.host import kerascalls
from slowtrain.trace import Trace
from slowtrain.trace.run_division import xla_recompilations
from slowtrain.trace.signals.host import xla_compilation
from slowtrain.trace.signals.host.avoidable_start import AvoidableKind, AvoidableStart
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.values import dataclass

XLA_SHARE = 0.9  # of the first call beyond tracing, on a CPU: without XLA the graph starts within a second
# On a GPU without XLA a first call took 355 and 626 ms beyond tracing (H200, two functions of 67 and 301 ops).
FIRST_RUN_MS = 600.0
LEAST_SAVED = 0.6  # of what is taken for saved: cuDNN tries its algorithms without XLA, too, which was not measured
# Kernels that TensorFlow starts one by one: 31 of 35 ops and 164 of 173 in two functions without XLA (H200), constants
# and reads of variables left out.
KERNELS_AN_OP = 0.9
# Of the host for one of them: CUDA's call alone takes 4, and 11 were seen in a step under the profiler (H200).
LAUNCH_US = (4.0, 8.0, 11.0)
NO_KERNELS = frozenset(
    "Const Placeholder Identity NoOp ReadVariableOp AssignVariableOp VarIsInitializedOp VarHandleOp".split()
)
TWICE = "multi_step_on_iterator"  # Keras traces the step twice for fit: the first time its variables are made
AUTOTUNE_CACHE_SINCE = (2, 17)  # older versions of TensorFlow end the process at a flag of XLA's that they do not know


@dataclass(frozen=True)
class Price:
    """What a run without XLA gains at its start, and what each step loses: the low end, the likeliest, the high end."""

    saved_ms: float
    lost_ms: tuple[float, float, float] | None
    steps: int

    @property
    def net_ms(self) -> float:
        return self.saved_ms - self.steps * (self.lost_ms[1] if self.lost_ms else 0.0)

    @property
    def spread(self) -> tuple[float, float]:
        """The range of what is saved altogether, as shares of ``net_ms``."""
        if self.lost_ms is None or self.net_ms <= 0:
            return (0.7, 1.1)
        low = LEAST_SAVED * self.saved_ms - self.steps * self.lost_ms[2]
        high = self.saved_ms - self.steps * self.lost_ms[0]
        return (max(low / self.net_ms, 0.0), high / self.net_ms)

    @property
    def break_even_steps(self) -> float | None:
        """After so many steps XLA has made up for its start; None where the steps lose nothing, or nobody knows."""
        return self.saved_ms / self.lost_ms[1] if self.lost_ms and self.lost_ms[1] > 0 else None

    @property
    def says(self) -> str:
        sooner = f"starts about {format_number(self.saved_ms / 1e3, 2)} s sooner"
        if self.lost_ms is None:
            return f"{sooner}; how much longer each step takes without XLA is not known"
        low, likely, high = (format_number(ms, 2) for ms in self.lost_ms)
        not_known = "what its kernels compute longer is not known"
        even = self.break_even_steps
        if even is None:
            return f"{sooner}, and each step launches its kernels for up to {high} ms longer; {not_known}"
        longer = f"each step takes about {likely} ms longer ({low} to {high}) for its launches"
        return f"{sooner}, and {longer}: the two meet at about {format_number(even, 2)} steps; {not_known}"

    @property
    def numbers(self) -> dict[str, float]:
        found = {"start_saved_ms": self.saved_ms}
        if self.lost_ms:
            names = ("step_lost_low_ms", "step_lost_ms", "step_lost_high_ms")
            found |= dict(zip(names, self.lost_ms, strict=True))
        return found | ({"break_even_steps": self.break_even_steps} if self.break_even_steps else {})


def first_training(trace: Trace) -> Event | None:
    """The costliest first trace of a training function."""
    firsts = [e for e in trace.events_of("trace") if e.data.get("training") and int(e.data.get("nth") or 1) == 1]
    return max(firsts, key=lambda e: e.ms) if firsts else None


def by_xla(trace: Trace) -> AvoidableStart | None:
    """The compilation of the training function, where XLA does it for a model or a function."""
    event = first_training(trace)
    if event is None or not xla_compilation.is_xla_compiled(trace, event):
        return None
    price = without_xla(trace, event)
    by_keras = "Keras compiles with XLA by default on a GPU: " if by_default(trace, event) else ""
    says = f"{by_keras}tracing and compiling by XLA"
    also = f"without XLA the run {price.says}"
    places = [e.place for e in trace.events_of("compile") if e.data.get("jit_compile") is True]
    where = distinct_places((*places, event.place))
    return AvoidableStart(
        AvoidableKind.XLA, says, event.ms, price.net_ms, where, price.spread, also=also, numbers=price.numbers
    )


def by_default(trace: Trace, event: Event) -> bool:
    """Whether Keras chose XLA, as it does on a GPU."""
    return trace.on_accelerator and bool(
        xla_default.is_xla_default(trace, xla_compilation.deciding_compile_call(trace, event))
    )


def without_xla(trace: Trace, event: Event) -> Price:
    """Both prices of leaving XLA out of the function that ``event`` traced."""
    beyond_ms = max(event.ms - float(event.data.get("trace_ns") or 0) / 1e6, 0.0)
    again_ms = sum(ms for _, ms in compiled_again(trace))
    steps = int(trace.steps.number[-1]) + 1 if len(trace.steps) else 0
    if not trace.on_accelerator:
        return Price(XLA_SHARE * beyond_ms + again_ms, None, steps)
    return Price(max(beyond_ms - FIRST_RUN_MS, 0.0) + again_ms, lost_ms(trace, event), steps)


def lost_ms(trace: Trace, event: Event) -> tuple[float, float, float] | None:
    """What a step on a GPU takes longer where its kernels are not fused, as far as the host launches them.

    How much longer they compute is not in it. Launches that the device's own work covers cost nothing.
    """
    kernels = unfused_kernels(event)
    if kernels is None:
        return None
    device = trace.device
    # Copies are left out: no launch goes on beside the copy of the batch.
    busy_ms = min(device.busy_ms, device.kernel_ms) if device is not None else 0.0
    fused = device.kernels if device is not None else 0.0
    low, likely, high = (max(kernels * us / 1e3 - max(busy_ms, fused * us / 1e3), 0.0) for us in LAUNCH_US)
    return low, likely, high


def unfused_kernels(event: Event) -> float | None:
    """Kernels of a step whose ops are started one by one, by the graph's ops; None without a graph."""
    graph = event.data.get("graph") or {}
    types = graph.get("types") or {}
    if not graph.get("ops") or not types:
        return None
    working = float(graph["ops"]) - sum(float(n) for kind, n in types.items() if kind in NO_KERNELS)
    return KERNELS_AN_OP * working / copies_of_step(event)


def copies_of_step(event: Event) -> int:
    """How many times the ops of one step stand in the summary of a traced graph."""
    return 2 if event.name.endswith(TWICE) else 1


def compiled_again(trace: Trace) -> list[tuple[int, float]]:
    """Steps in which XLA compiled again, each with what it took: for a smaller batch, traced anew or not."""
    steps = trace.steps
    if len(steps) < 3:
        return []
    found = xla_recompilations.find_recompilations(trace, steps.start_ms, steps.end_ms, steps.size, steps.block)
    usual = float(median_value(steps.ms))
    again = {int(i): float(steps.ms[i]) - usual for i in np.flatnonzero(found)}
    for event in trace.events_of("trace"):
        at = int(np.searchsorted(steps.start_ms, event.start_ms, side="right")) - 1
        if int(event.data.get("nth") or 1) > 1 and xla_compilation.is_xla_compiled(trace, event) and at > 0:
            smaller = 0 < steps.size[at] < steps.size[:at].max()
            if smaller and event.end_ms <= steps.end_ms[at] + usual:
                again.setdefault(at, event.ms)
    return sorted(again.items())


def for_last_batch(trace: Trace) -> AvoidableStart | None:
    """Compilations for a batch that is smaller than the others."""
    again = compiled_again(trace)
    if not again:
        return None
    ms = sum(took for _, took in again)
    says = "a second compilation by XLA, for the last and smaller batch,"
    nodes = xla_recompilations.uneven_batches(trace.events)
    sites = [Place(str(n["site"][0]), int(n["site"][1])) for n in nodes if n.get("site")]
    place = trace.steps.place
    where = distinct_places((*sites, *([place] if place is not None else [])))
    return AvoidableStart(
        AvoidableKind.LAST_BATCH,
        says,
        ms,
        ms,
        where,
        (0.9, 1.0),
        f"in step {again[0][0]}",
        numbers={"last_batch_ms": ms},
    )


def left_out(trace: Trace, evidence: Evidence) -> Iterator[Prescription]:
    """XLA left out of this run, or its results kept for the next ones."""
    event = first_training(trace)
    if event is None:
        return
    price = without_xla(trace, event)
    edit = measured.first(trace, evidence.where, kerascalls.without_xla)
    call = (
        "compile(..., jit_compile=False)" if trace.on_accelerator else "leave jit_compile=True out of runs this short"
    )
    yield Prescription("edit", Effect.EQUIVALENT, f"{call}: the run {price.says}", edits=edit)
    yield from kept_for_later(trace)


def kept_for_later(trace: Trace) -> Iterator[Prescription]:
    """Caches on the disk, which help from the second run on. What they save is not measured."""
    cache = "TF_XLA_FLAGS=--tf_xla_persistent_cache_directory=FOLDER"
    says = f"{cache} keeps compiled programs for the next run of the same script (what it saves: not measured)"
    yield Prescription("setting", Effect.EXACT, says)
    if not trace.on_accelerator:
        return
    version = tuple(int(n) for n in str(trace.facts.get("version.tensorflow") or "0").split(".")[:2] if n.isdigit())
    if version >= AUTOTUNE_CACHE_SINCE:
        cache = "XLA_FLAGS=--xla_gpu_per_fusion_autotune_cache_dir=FOLDER"
        says = f"{cache}, a folder that exists, keeps what autotuning chose (what it saves: not measured)"
        yield Prescription("setting", Effect.EQUIVALENT, says)
    says = "XLA_FLAGS=--xla_gpu_autotune_level=0 leaves autotuning out; kernels may be slower (neither is measured)"
    yield Prescription("setting", Effect.EQUIVALENT, says)


def batches_of_one_size(trace: Trace, where: Iterable[Place]) -> Iterator[Prescription]:
    """The last batch left out, with its price."""
    part = for_last_batch(trace)
    if part is None:
        return
    spared = f"spares a compilation of {format_number(part.ms / 1e3, 2)} s"
    left = "the last samples of each epoch are not trained on (another shuffle leaves out others)"
    edit = measured.first(trace, where, remainder.drop_remainder)
    says = f".batch(n, drop_remainder=True) {spared}; {left}"
    if not edit and not any(xla_recompilations.uneven_batches(trace.events)):
        says = f"a number of samples that the batch size divides {spared}; {left}"
    yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=edit)
