"""What compilation by XLA costs a run at its start, and what the steps would lose without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from slowtrain.causes.startup.slow_startup import remainder
from slowtrain.columns.arrays import median_value
from slowtrain.columns.spans import Event
from slowtrain.model import Effect, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.locations import line_roles
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.run_division import step_disturbances
from slowtrain.trace.signals.host import retraces
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.trace.signals.host.start_parts import AvoidableKind, AvoidableStart

XLA_TIME_SHARE = 0.9  # of the first call beyond tracing, on a CPU: without XLA the graph starts within a second
# A first call without XLA on a GPU took 355 and 626 ms beyond tracing (H200, two functions of 67 and 301 ops).
FIRST_RUN_MS = 600.0
MIN_SAVED_SHARE = 0.6  # of the saving: cuDNN also tries its algorithms without XLA, which was not measured
# Kernels that TensorFlow starts one by one: 31 of 35 ops and 164 of 173 in two functions without XLA (H200), without
# constants and reads of variables.
KERNELS_PER_OP = 0.9
# Host time for one launch: CUDA's call alone takes 4, and 11 were measured in a step under the profiler (H200).
LAUNCH_US = (4.0, 8.0, 11.0)
OPS_WITHOUT_KERNELS = frozenset(
    "Const Placeholder Identity NoOp ReadVariableOp AssignVariableOp VarIsInitializedOp VarHandleOp".split()
)
TRACED_TWICE_NAME = "multi_step_on_iterator"  # Keras traces the step of fit twice: the first time creates its variables
AUTOTUNE_CACHE_SINCE = (2, 17)  # an older TensorFlow ends the process at an XLA flag that it does not know


@dataclass(frozen=True)
class XlaPrice:
    """What a run without XLA saves at its start and loses in each step (low, likely, high)."""

    saved_ms: float
    lost_ms: tuple[float, float, float] | None
    steps: int

    @property
    def net_ms(self) -> float:
        return self.saved_ms - self.steps * (self.lost_ms[1] if self.lost_ms else 0.0)

    @property
    def spread(self) -> tuple[float, float]:
        """The range of the net saving, as shares of ``net_ms``."""
        if self.lost_ms is None or self.net_ms <= 0:
            return (0.7, 1.1)
        low = MIN_SAVED_SHARE * self.saved_ms - self.steps * self.lost_ms[2]
        high = self.saved_ms - self.steps * self.lost_ms[0]
        return (max(low / self.net_ms, 0.0), high / self.net_ms)

    @property
    def break_even_steps(self) -> float | None:
        """The steps after which XLA has repaid its start; None if the steps lose nothing or their loss is unknown."""
        return self.saved_ms / self.lost_ms[1] if self.lost_ms and self.lost_ms[1] > 0 else None

    @property
    def says(self) -> str:
        sooner = f"starts about {format_number(self.saved_ms / 1e3, 2)} s sooner"
        if self.lost_ms is None:
            return f"{sooner}; how much longer each step takes without XLA is not known"
        low, likely, high = (format_number(ms, 2) for ms in self.lost_ms)
        not_known = "how much longer its kernels compute is not known"
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


@dataclass(frozen=True)
class XlaStart:
    """A training function that XLA compiles."""

    start: AvoidableStart
    price: XlaPrice
    is_default: bool  # Keras chose XLA


def xla_start(trace: Trace) -> XlaStart | None:
    """The compilation of the training function, if XLA compiles a model or a function."""
    event = first_training(trace)
    if event is None or not retraces.is_xla_compiled(trace, event):
        return None
    price, is_default = price_without_xla(trace, event), is_keras_default(trace, event)
    by_keras = "Keras compiles with XLA by default on a GPU: " if is_default else ""
    says = f"{by_keras}tracing and compiling by XLA"
    also = f"without XLA the run {price.says}"
    places = [e.place for e in trace.events_of("compile") if e.data.get("jit_compile") is True]
    where = distinct_places((*places, event.place))
    start = AvoidableStart(
        AvoidableKind.XLA, says, event.ms, price.net_ms, where, price.spread, also=also, numbers=price.numbers
    )
    return XlaStart(start, price, is_default)


def is_keras_default(trace: Trace, event: Event) -> bool:
    """Whether Keras chose XLA, as it does by default on a GPU."""
    return trace.on_accelerator and bool(line_roles.is_xla_default(trace, retraces.deciding_compile_call(trace, event)))


def price_without_xla(trace: Trace, event: Event) -> XlaPrice:
    """The price of leaving XLA out of the function that ``event`` traced."""
    beyond_ms = max(event.ms - float(event.data.get("trace_ns") or 0) / 1e6, 0.0)
    again_ms = sum(ms for _, ms in recompiled_steps(trace))
    steps = int(trace.steps.number[-1]) + 1 if len(trace.steps) else 0
    if not trace.on_accelerator:
        return XlaPrice(XLA_TIME_SHARE * beyond_ms + again_ms, None, steps)
    return XlaPrice(max(beyond_ms - FIRST_RUN_MS, 0.0) + again_ms, unfused_launch_ms(trace, event), steps)


def unfused_launch_ms(trace: Trace, event: Event) -> tuple[float, float, float] | None:
    """How much longer the host launches the kernels of a step on a GPU if they are not fused.

    How much longer they compute is not included. Launches during the device's own work cost nothing.
    """
    kernels = unfused_kernels(event)
    if kernels is None:
        return None
    device = trace.device
    # Copies are left out, because nothing is launched during the copy of the batch.
    busy_ms = min(device.busy_ms, device.kernel_ms) if device is not None else 0.0
    fused = device.kernels if device is not None else 0.0
    low, likely, high = (max(kernels * us / 1e3 - max(busy_ms, fused * us / 1e3), 0.0) for us in LAUNCH_US)
    return low, likely, high


def unfused_kernels(event: Event) -> float | None:
    """Kernels of a step without XLA, by the ops of its graph; None without a graph."""
    graph = event.data.get("graph") or {}
    types = graph.get("types") or {}
    if not graph.get("ops") or not types:
        return None
    working = float(graph["ops"]) - sum(float(n) for kind, n in types.items() if kind in OPS_WITHOUT_KERNELS)
    return KERNELS_PER_OP * working / copies_of_step(event)


def copies_of_step(event: Event) -> int:
    """How many times the summary of a traced graph counts the ops of one step."""
    return 2 if event.name.endswith(TRACED_TWICE_NAME) else 1


def recompiled_steps(trace: Trace) -> list[tuple[int, float]]:
    """Steps in which XLA compiled again for a smaller batch, with or without a new trace, and the time it took."""
    steps = trace.steps
    if len(steps) < 3:
        return []
    found = step_disturbances.find_recompilations(trace, steps.start_ms, steps.end_ms, steps.size, steps.block)
    usual = float(median_value(steps.ms))
    again = {int(i): float(steps.ms[i]) - usual for i in np.flatnonzero(found)}
    for event in trace.events_of("trace"):
        at = int(np.searchsorted(steps.start_ms, event.start_ms, side="right")) - 1
        if int(event.data.get("nth") or 1) > 1 and retraces.is_xla_compiled(trace, event) and at > 0:
            smaller = 0 < steps.size[at] < steps.size[:at].max()
            if smaller and event.end_ms <= steps.end_ms[at] + usual:
                again.setdefault(at, event.ms)
    return sorted(again.items())


def last_batch_start(trace: Trace) -> AvoidableStart | None:
    """Compilations for a last batch that is smaller than the others."""
    again = recompiled_steps(trace)
    if not again:
        return None
    ms = sum(took for _, took in again)
    says = "a second compilation by XLA, for the last and smaller batch,"
    nodes = step_disturbances.uneven_batches(trace.events)
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


def leave_out_cures(trace: Trace, price: XlaPrice, places: Iterable[Place]) -> Iterator[Prescription]:
    """Leaves XLA out of this run, or keeps its results for the next ones."""
    edit = recorded_edits.first_applicable(trace, places, keras_calls.disable_xla)
    call = (
        "compile(..., jit_compile=False)" if trace.on_accelerator else "leave jit_compile=True out of runs this short"
    )
    yield Prescription("edit", Effect.EQUIVALENT, f"{call}: the run {price.says}", edits=edit)
    yield from cache_cures(trace)


def cache_cures(trace: Trace) -> Iterator[Prescription]:
    """Caches on the disk, which help from the second run on. Their saving is not measured."""
    cache = "TF_XLA_FLAGS=--tf_xla_persistent_cache_directory=FOLDER"
    says = f"{cache} keeps compiled programs for the next run of the same script (the saving is not measured)"
    yield Prescription("setting", Effect.EXACT, says)
    if not trace.on_accelerator:
        return
    version = tuple(int(n) for n in str(trace.facts.get("version.tensorflow") or "0").split(".")[:2] if n.isdigit())
    if version >= AUTOTUNE_CACHE_SINCE:
        cache = "XLA_FLAGS=--xla_gpu_per_fusion_autotune_cache_dir=FOLDER"
        says = f"{cache}, a folder that exists, keeps what autotuning chose (the saving is not measured)"
        yield Prescription("setting", Effect.EQUIVALENT, says)
    says = "XLA_FLAGS=--xla_gpu_autotune_level=0 leaves autotuning out; kernels may be slower (neither is measured)"
    yield Prescription("setting", Effect.EQUIVALENT, says)


def one_batch_size_cures(trace: Trace, last_batch: AvoidableStart, places: Iterable[Place]) -> Iterator[Prescription]:
    """Leaves the last batch out."""
    saves = f"spares a compilation of {format_number(last_batch.ms / 1e3, 2)} s"
    left = "the last samples of each epoch are not trained on (another shuffle leaves out others)"
    edit = recorded_edits.first_applicable(trace, places, remainder.drop_remainder)
    says = f".batch(n, drop_remainder=True) {saves}; {left}"
    if not edit and not any(step_disturbances.uneven_batches(trace.events)):
        says = f"a number of samples that the batch size divides {saves}; {left}"
    yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=edit)
