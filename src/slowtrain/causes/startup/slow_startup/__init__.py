"""Starting and compiling take a large part of the run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.causes.startup.slow_startup import avoidable_starts
from slowtrain.causes.startup.slow_startup.avoidable_starts import AvoidableKind, AvoidableStart
from slowtrain.columns.arrays import median_value
from slowtrain.columns.spans import Event
from slowtrain.model import Evidence, Phase, Place, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.locations import line_roles
from slowtrain.trace import Trace
from slowtrain.trace.run_division import step_disturbances
from slowtrain.trace.signals.device import op_work
from slowtrain.trace.signals.host import retraces, start_parts
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.trace.signals.host.source_lines import calls_of_names, function_around, loops_around, source_tree
from slowtrain.whatif import Remedy, Skip

TextIterations = Callable[[Trace, Iterable[str]], int]
MIN_AVOIDABLE_MS = 1000.0  # an ordinary model traces and starts in about that
READS_PER_WRITE = 3.5  # of a variable, in forward, backward and optimizer (2.5 to 4 in models of all kinds)
PRODUCTS_PER_WEIGHT = 3.0  # matrix products: forward, and for the gradients of both factors
MAX_LISTED_WEIGHTS = 50  # of a model in a recording
MIN_REPEATED_SHARE = 0.8  # of the forward pass's ops repeat in the same lines
MIN_ITERATIONS = 3
LOOPED_START_MS = 800.0  # a first step of the same layer as a loop in the graph (an LSTM of any length, two cores)
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


class StartFinding(Struct, frozen=True):
    """The avoidable part of the start that surely saves most."""

    worst: AvoidableStart
    steps_ms: float  # all steps of the run but those that traced
    xla: XlaStart | None
    last_batch: AvoidableStart | None


class XlaPrice(Struct, frozen=True):
    """What a run without XLA saves at its start and loses in each step (low, likely, high)."""

    saved_ms: float
    lost_ms: tuple[float, float, float] | None
    steps: int

    @property
    def net_ms(self) -> float:
        return self.saved_ms - self.steps * (self.lost_ms[1] if self.lost_ms else 0.0)

    @property
    def price_spread(self) -> tuple[float, float]:
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


class XlaStart(Struct, frozen=True):
    """A training function that XLA compiles."""

    start: AvoidableStart
    price: XlaPrice
    is_default: bool  # Keras chose XLA


class SlowStartup(Cause[StartFinding]):
    """Starting and compiling the model take a large part of a short run."""

    title = "Starting and compiling take a large part of the run"
    verdict_word = VerdictKind.STARTUP
    needs = frozenset({Signal.PHASES, Signal.TRACES})
    scope = "run"
    words = ("unroll", "GradientTape")
    context_words = (".fit", "train_on_batch", "GradientTape")

    def find(self, trace: Trace) -> StartFinding | None:
        steps_ms, xla = _steps_ms(trace), _xla_start(trace)
        parts = (
            xla.start if xla is not None else None,
            unrolled_start(trace, self._unrolled_iterations),
            avoidable_starts.repeated_model_building(trace),
        )
        longer = [part for part in parts if part is not None and part.ms >= steps_ms]
        found = [part for part in (*longer, avoidable_starts.repeated_shape_traces(trace)) if part is not None]
        found = [part for part in found if part.avoidable_ms >= MIN_AVOIDABLE_MS and part.least_ms > 0]
        last_batch = _last_batch_start(trace)
        found += [last_batch] if last_batch is not None else []
        worst = max(found, key=lambda part: part.least_ms, default=None)
        if worst is None:
            return None
        finding = StartFinding(worst, steps_ms, xla, last_batch)
        if worst.kind not in (AvoidableKind.LAYER, AvoidableKind.STEPS):
            return finding
        places = distinct_places((*self.lines_to_change(trace, finding), *worst.places))
        return replace(finding, worst=replace(worst, places=places))

    def _unrolled_iterations(self, trace: Trace, files: Iterable[str]) -> int:
        """The most iterations of a loop in these files that a graph unrolls."""
        iterations: int = self.folder_module("fix").most_unrolled_iterations(trace, files)
        return iterations

    def evidence(self, trace: Trace, finding: StartFinding) -> Evidence:
        worst, steps_ms = finding.worst, finding.steps_ms
        says = (
            f"{worst.says} took {format_number(worst.ms / 1e3)} s {worst.when}, "
            f"all other steps of the run {format_number(steps_ms / 1e3, 2)} s"
        )
        start = start_parts.start_sentence(trace)
        says = "; ".join(part for part in (says, worst.also, start) if part)
        numbers = {"startup_ms": worst.ms, "avoidable_ms": worst.avoidable_ms, "steps_ms": steps_ms}
        return Evidence(says, {**numbers, **worst.numbers, **start_parts.start_numbers(trace)}, worst.places)

    def hangs_on_run_length_in(self, trace: Trace, finding: StartFinding) -> bool:
        """Whether Keras chose XLA, or a smaller last batch is compiled: in a longer run that pays."""
        if finding.worst.kind is AvoidableKind.XLA:
            return finding.xla is not None and finding.xla.is_default
        return finding.worst.kind is AvoidableKind.LAST_BATCH

    def remedies(self, trace: Trace, finding: StartFinding) -> Sequence[Remedy]:
        return [Skip(finding.worst.avoidable_ms, spread=finding.worst.spread)]


def _steps_ms(trace: Trace) -> float:
    """The time of all steps but those that traced."""
    traced = sum(min(e.ms, trace.run_ms) for e in trace.events_of("trace"))
    named = {str(p): trace.run.ms(str(p)) for p in (Phase.STEPS, Phase.WARMUP)}
    windowed = float(trace.steps.ms[trace.steps.windowed].sum()) if len(trace.steps) else 0.0
    windowed = max(windowed - trace.run.ms(str(Phase.STOPPED)), 0.0)
    return max(sum(named.values()) + windowed - (traced if named[str(Phase.WARMUP)] >= traced else 0.0), 0.0)


def unrolled_start(trace: Trace, text_iterations: TextIterations) -> AvoidableStart | None:
    """The tracing of a graph that uses its variables repeatedly, in each iteration of a Python loop.

    ``text_iterations``: how often a loop in files runs, by their text.
    """
    event = first_training(trace)
    types = (event.data.get("graph") or {}).get("types") or {} if event is not None else {}
    written = sum(
        float(types.get(kind) or 0) for kind in ("AssignVariableOp", "AssignSubVariableOp", "AssignAddVariableOp")
    )
    if event is None or not written:
        return None
    times = float(types.get("ReadVariableOp") or 0) / written / READS_PER_WRITE
    if times < MIN_ITERATIONS:
        times = _products_factor(trace, event) or _loop_iterations(trace, event, text_iterations)
    batches = float(types.get("IteratorGetNext") or 0)  # of one graph: its steps
    are_steps = times < MIN_ITERATIONS <= batches
    times = batches if are_steps else times
    if times < MIN_ITERATIONS:
        return None
    share = 1 - 1 / times
    ops = float(event.data["graph"].get("ops") or 0)
    places = (*_graph_loops(trace, event), event.place)
    what = f"{times:.0f} unrolled training steps" if are_steps else "most of them from one unrolled loop"
    says = f"tracing and starting a graph of {ops:.0f} operations, {what},"
    kind = AvoidableKind.STEPS if are_steps else AvoidableKind.LAYER
    return AvoidableStart(kind, says, event.ms, max(event.ms * share - LOOPED_START_MS, 0.0), distinct_places(places))


def _products_factor(trace: Trace, event: Event) -> float:
    """How many times as many products with weights the graph has as one iteration needs.

    Keras' cells read a variable once, however often they use it. A loop in a line of the user is
    compute/handwritten-op.
    """
    graph = event.data.get("graph") or {}
    if any(not re.search(framework_names.OPTIMIZER_SCOPE, scope) for scope in graph.get("repeated") or ()):
        return 0.0
    kernels = sum(
        len(w.get("shape") or ()) >= 2 and w.get("class") != "Embedding" for w in op_work.largest_model_weights(trace)
    )
    # The model has no weights when fit starts, or more than the recording lists: count the updates of variables.
    if not op_work.largest_model_weights(trace) or len(op_work.largest_model_weights(trace)) >= MAX_LISTED_WEIGHTS:
        kernels = max(kernels, int((graph.get("types") or {}).get("AssignSubVariableOp") or 0))
    made = sum(float(n) for n in (graph.get("matrix") or {}).values()) / _copies_of_step(event)
    return made / (PRODUCTS_PER_WEIGHT * kernels) if kernels else 0.0


def _loop_iterations(trace: Trace, event: Event, text_iterations: TextIterations) -> float:
    """Iterations of a user's loop, each of which continues from the one before, if it makes most of the graph.

    An example is a solver. Its iterations read no weights, so they cannot be counted as a layer's are.
    """
    rows = (event.data.get("graph") or {}).get("lines") or ()
    every, alike = (sum(float(row[at]) for row in rows) for at in (2, 3))
    if not every or alike < MIN_REPEATED_SHARE * every:
        return 0.0
    return float(text_iterations(trace, {str(row[0]) for row in rows}))


def _graph_loops(trace: Trace, event: Event) -> list[Place]:
    """The user's loops around the line that makes most of the graph's ops, or around a call of its function."""
    for file, line, *_ in (event.data.get("graph") or {}).get("lines") or ():
        tree = source_tree(trace, str(file))
        if tree is None:
            continue
        around = loops_around(tree, int(line))
        function = function_around(tree, int(line))
        if not around and function is not None:
            calls = calls_of_names(tree, [function.name])
            around = next((loops for call in calls if (loops := loops_around(tree, call.lineno))), [])
        if around:
            return [Place(str(file), getattr(one, "lineno", 0)) for one in reversed(around)][:2]
    return []


def first_training(trace: Trace) -> Event | None:
    """The costliest first trace of a training function."""
    firsts = [e for e in trace.events_of("trace") if e.data.get("training") and int(e.data.get("nth") or 1) == 1]
    return max(firsts, key=lambda e: e.ms) if firsts else None


def _xla_start(trace: Trace) -> XlaStart | None:
    """The compilation of the training function, if XLA compiles a model or a function."""
    event = first_training(trace)
    if event is None or not retraces.is_xla_compiled(trace, event):
        return None
    price, is_default = _price_without_xla(trace, event), _is_keras_default(trace, event)
    by_keras = "Keras compiles with XLA by default on a GPU: " if is_default else ""
    says = f"{by_keras}tracing and compiling by XLA"
    also = f"without XLA the run {price.says}"
    places = [e.place for e in trace.events_of("compile") if e.data.get("jit_compile") is True]
    where = distinct_places((*places, event.place))
    start = AvoidableStart(
        AvoidableKind.XLA, says, event.ms, price.net_ms, where, price.price_spread, also=also, numbers=price.numbers
    )
    return XlaStart(start, price, is_default)


def _is_keras_default(trace: Trace, event: Event) -> bool:
    """Whether Keras chose XLA, as it does by default on a GPU."""
    return trace.on_accelerator and bool(line_roles.is_xla_default(trace, retraces.deciding_compile_call(trace, event)))


def _price_without_xla(trace: Trace, event: Event) -> XlaPrice:
    """The price of leaving XLA out of the function that ``event`` traced."""
    beyond_ms = max(event.ms - float(event.data.get("trace_ns") or 0) / 1e6, 0.0)
    again_ms = sum(ms for _, ms in _recompiled_steps(trace))
    steps = int(trace.steps.number[-1]) + 1 if len(trace.steps) else 0
    if not trace.on_accelerator:
        return XlaPrice(XLA_TIME_SHARE * beyond_ms + again_ms, None, steps)
    return XlaPrice(max(beyond_ms - FIRST_RUN_MS, 0.0) + again_ms, _unfused_launch_ms(trace, event), steps)


def _unfused_launch_ms(trace: Trace, event: Event) -> tuple[float, float, float] | None:
    """How much longer the host launches the kernels of a step on a GPU if they are not fused.

    How much longer they compute is not included. Launches during the device's own work cost nothing.
    """
    kernels = _unfused_kernels(event)
    if kernels is None:
        return None
    device = trace.device
    # Copies are left out, because nothing is launched during the copy of the batch.
    busy_ms = min(device.busy_ms, device.kernel_ms) if device is not None else 0.0
    fused = device.kernels if device is not None else 0.0
    low, likely, high = (max(kernels * us / 1e3 - max(busy_ms, fused * us / 1e3), 0.0) for us in LAUNCH_US)
    return low, likely, high


def _unfused_kernels(event: Event) -> float | None:
    """Kernels of a step without XLA, by the ops of its graph; None without a graph."""
    graph = event.data.get("graph") or {}
    types = graph.get("types") or {}
    if not graph.get("ops") or not types:
        return None
    working = float(graph["ops"]) - sum(float(n) for kind, n in types.items() if kind in OPS_WITHOUT_KERNELS)
    return KERNELS_PER_OP * working / _copies_of_step(event)


def _copies_of_step(event: Event) -> int:
    """How many times the summary of a traced graph counts the ops of one step."""
    return 2 if event.name.endswith(TRACED_TWICE_NAME) else 1


def _recompiled_steps(trace: Trace) -> list[tuple[int, float]]:
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


def _last_batch_start(trace: Trace) -> AvoidableStart | None:
    """Compilations for a last batch that is smaller than the others."""
    again = _recompiled_steps(trace)
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
