"""Starting the step's operations takes longer than computing them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.device import Device
from slowtrain.model import Category, Evidence, Place, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import step_bound
from slowtrain.trace.signals.host import host_work
from slowtrain.trace.signals.host.host_work import kernel_ms, step_places
from slowtrain.whatif import Drop, Remedy

MIN_STARTING_SHARE = 0.5  # of the step: starting operations, without their computing and without waiting
MIN_OVERHEAD_SHARE = 1 / 3  # of the step: the part of it that comes with each call
# Without a GPU, a graph that runs fifty steps in one call keeps a quarter of the overhead (the executor's part).
# Measured over pairs: dense models of 6 to 44 variables, SGD and Adam, custom loops and fit, two cores. A call from
# Python costs at most half a millisecond, whatever the size of the graph, and twice that on a busy machine.
OVERHEAD_LEFT_SHARE = 0.25
MAX_CALL_MS = 1.0
# A call with Keras' loop around it, measured in recordings of the clinic. It bounds the saving, not the finding.
MAX_FIT_CALL_MS = 1.5
MAX_NEXT_MS = 0.15  # fetching a ready batch from Python, which goes with the call
# On a device, launching shows as gaps between kernels. A launch takes the host 5 to 20 µs in a graph and up to 0.1 ms
# for a single compiled op (profiles of a V100 and an MI300X). Longer gaps have other reasons.
MAX_LAUNCH_MS = 0.2
# Share of the host's time between calls that a jax.lax.scan over many batches saves: on an H100 a step of Keras' fit
# took 1.18 ms, and 0.014 ms inside a scan.
SCAN_SAVED_SHARE = 0.97
MAX_SMALL_COPY_BYTES = 1 << 16  # of a copy to the device: below it the call takes the time, not the bytes
MAX_QUEUED_SHARE = 0.5  # of the kernels were launched before the previous kernel ended: above it the host keeps up
# Share of the gaps that remains if ops are fused or many steps run in one call. Assumed, hence the wide range.
GAPS_LEFT_SHARE, GAPS_SPREAD = 0.4, (0.4, 1.4)
# Launching so many one by one takes the host 0.4 to 1.4 ms, at least as much as the call itself.
MIN_FUSED_KERNELS = 100
# Share of such kernels that XLA leaves: of the 164 of a custom loop (six layers, Adam) about 50 are left.
FUSED_KERNEL_SHARE = 0.3
# What many steps in a call or XLA save is an estimate from profiles (docs/gpu.md says which figures were measured).
OVERHEAD_SPREAD = (0.5, 1.3)
MIN_HOST_MS = 0.1  # of a step that is one of many in a call: the host still makes its batch and launches it


class HostOverhead(Struct, frozen=True):
    """On a GPU with known steps, the host takes ``host_ms`` of each step to call and launch ``kernels`` kernels.

    ``many_steps_ms``: what many steps in one call save, ``fused_ms``: what XLA saves of launches.
    """

    host_ms: float
    busy_ms: float
    kernels: float
    many_steps_ms: float
    fused_ms: float

    @property
    def saved_ms(self) -> float:
        return max(self.many_steps_ms, self.fused_ms)


class LaunchFinding(Struct, frozen=True):
    """The host needs longer to start a step's operations than they take to compute.

    ``in_gaps``: a profile shows that the device waits between kernels. ``overhead``: of a GPU with known steps.
    """

    evidence: Evidence
    remedy: Drop
    in_gaps: bool = False
    overhead: HostOverhead | None = None


class LaunchBound(Cause[LaunchFinding]):
    """Starting the step's operations takes longer than computing them."""

    title = "Starting the step's operations takes longer than computing them"
    rules_out = VerdictKind.LAUNCH
    needs = frozenset({Signal.STEPS, Signal.KERNELS, Signal.INPUT})

    def find(self, trace: Trace) -> LaunchFinding | None:
        if trace.eager:
            return None
        if trace.on_accelerator and trace.device is not None:
            return _device_finding(trace)
        if trace.fact("profile"):
            return None if trace.on_accelerator else _profiled_host_finding(trace)
        return _recorded_host_finding(trace)

    def evidence(self, trace: Trace, finding: LaunchFinding) -> Evidence:
        return finding.evidence

    def remedies(self, trace: Trace, finding: LaunchFinding) -> Sequence[Remedy]:
        return [finding.remedy]


def _recorded_host_finding(trace: Trace) -> LaunchFinding | None:
    """The finding in a recording of a CPU."""
    kernels, overhead_ms = trace.kernels, _recorded_saving_ms(trace)
    if kernels is None or not _is_one_graph_per_step(trace):
        return None
    if trace.share(Category.DISPATCH) < MIN_STARTING_SHARE or overhead_ms < MIN_OVERHEAD_SHARE * trace.step_ms:
        return None
    evidence = _starting_evidence(trace, _computing_ms(trace), overhead_ms, kernels.count, step_places(trace))
    if trace.on_jax:
        return LaunchFinding(evidence, _call_overhead_remedy(trace, overhead_ms))
    fetch_ms = min(trace.mean(Category.INPUT), MAX_NEXT_MS) if trace.steps.source.startswith("function") else 0.0
    saved_ms = _recorded_saving_ms(trace, MAX_FIT_CALL_MS if trace.steps.source == "fit" else MAX_CALL_MS)
    remedy = Drop({Category.DISPATCH: saved_ms, Category.INPUT: fetch_ms}, spread=(0.75, 1.1))
    return LaunchFinding(evidence, remedy)


def _starting_evidence(
    trace: Trace, busy_ms: float, overhead_ms: float, ops: float, where: tuple[Place, ...] = ()
) -> Evidence:
    return Evidence(
        f"a step takes {format_number(trace.step_ms)} ms, of which its operations compute for "
        f"{format_number(busy_ms, 2)} ms; the rest is starting them",
        {"step_ms": trace.step_ms, "busy_ms": busy_ms, "overhead_ms": overhead_ms, "ops": ops},
        where,
    )


def _call_overhead_remedy(trace: Trace, overhead_ms: float) -> Drop:
    """The overhead, taken from the host's categories in this order as far as each has it."""
    drops: dict[Category, float] = {}
    for category in (Category.DISPATCH, Category.PYTHON, Category.CONVERT, Category.FEED):
        drops[category] = min(overhead_ms - sum(drops.values()), trace.mean(category))
    return Drop(drops, spread=(0.5, 1.1))


def _device_finding(trace: Trace) -> LaunchFinding | None:
    """The finding on an accelerator, by its timeline."""
    has_steps = trace.fact("told_steps", default=not trace.fact("profile"))
    if trace.on_jax:
        gaps = _kernel_gap_finding(trace) if trace.fact("profile") else None
        return gaps or (_jax_call_finding(trace) if has_steps else None)
    if not has_steps:
        return _kernel_gap_finding(trace)
    if not trace.fact("profile") and not _is_one_graph_per_step(trace):
        return None
    host_ms = step_bound.host_dispatch_ms(trace)
    host_ms = _host_ms_between_calls(trace, host_ms) if trace.fact("profile") else host_ms
    return _host_overhead_finding(trace, host_ms)


def _kernel_gap_finding(trace: Trace) -> LaunchFinding | None:
    """In a profile the device waits between kernels, each time about as long as a launch takes."""
    device = trace.device
    if device is None or not device.kernels:
        return None
    waiting, queued = device.idle.get("dispatch", 0.0), device.idle.get("queue", 0.0)
    gaps = waiting + queued
    if gaps < MIN_OVERHEAD_SHARE * trace.step_ms or gaps > MAX_LAUNCH_MS * device.kernels:
        return None
    # A gap before a kernel that is already queued is the device's own: faster launches would not fill it.
    if waiting < queued:
        return None
    # Kernels of one XLA program are queued, although the device waits for the program. There the waiting time decides.
    # Not on JAX, where a loop in the program (a recurrent layer) waits for its condition in each iteration.
    ahead = device.queued_share is not None and device.queued_share > MAX_QUEUED_SHARE
    if ahead and (trace.on_jax or waiting < MIN_OVERHEAD_SHARE * trace.step_ms):
        return None
    if device.idle.get("eager", 0.0) > waiting:
        return None  # ops that Python starts one by one are host/eager-step
    numbers = {"gaps_ms": gaps, "kernels": device.kernels, "median_kernel_us": device.median_kernel_us}
    delay = (
        f", {format_number(device.launch_delay_us)} µs after the host's call"
        if device.launch_delay_us is not None
        else ""
    )
    says = (
        f"for {format_number(gaps)} of each step's {format_number(trace.step_ms)} ms the device waits for the host to "
        f"launch the next of {device.kernels:,.0f} kernels, whose median takes "
        f"{format_number(device.median_kernel_us)} µs{delay}"
    )
    remedy = Drop({Category.DISPATCH: (1 - GAPS_LEFT_SHARE) * gaps}, spread=GAPS_SPREAD)
    return LaunchFinding(Evidence(says, numbers), remedy, in_gaps=True)


def _host_overhead_finding(trace: Trace, host_ms: float) -> LaunchFinding | None:
    """``host_ms`` of the framework are most of each step; None if they are not, or if a call has many steps."""
    device = trace.device
    if device is None or not device.kernels or host_ms < MIN_STARTING_SHARE * trace.step_ms:
        return None
    busy = trace.mean(Category.DEVICE)
    if busy > host_ms or device.idle.get("eager", 0.0) > device.idle.get("dispatch", 0.0):
        return None
    many, fused = _many_steps_ms(trace, device, host_ms), _fusing_ms(trace, device)
    found = HostOverhead(host_ms, busy, device.kernels, many, fused)
    by = "XLA launches" if step_bound.are_steps_xla_compiled(trace) else "the executor launches one by one"
    evidence = Evidence(
        f"the host takes {format_number(host_ms)} of each step's {format_number(trace.step_ms)} ms to call and "
        f"launch; the device computes for {format_number(busy, 2)} ms, in {device.kernels:,.0f} kernels that {by}",
        {
            "step_ms": trace.step_ms,
            "busy_ms": busy,
            "host_ms": host_ms,
            "ops": device.kernels,
            "overhead_ms": found.saved_ms,
            "many_steps_ms": many,
            "fused_ms": fused,
        },
        () if trace.fact("profile") else step_places(trace),
    )
    most = min(OVERHEAD_SPREAD[1], (host_ms - MIN_HOST_MS) / found.saved_ms) if found.saved_ms else 1.0
    remedy = Drop({Category.DISPATCH: found.saved_ms}, spread=(OVERHEAD_SPREAD[0], max(most, 1.0)))
    return LaunchFinding(evidence, remedy, overhead=found)


def _many_steps_ms(trace: Trace, device: Device, host_ms: float) -> float:
    """What many steps in one call save, until making input is slower."""
    saved = host_ms - min(step_bound.many_steps_host_ms(trace, device), host_ms)
    return max(min(saved, trace.step_ms - step_bound.batch_making_ms(trace)), 0.0)


def _fusing_ms(trace: Trace, device: Device) -> float:
    """What XLA saves of launches, if it has not compiled the step."""
    if step_bound.are_steps_xla_compiled(trace) or trace.on_jax or device.kernels < MIN_FUSED_KERNELS:
        return 0.0
    saved = (1 - FUSED_KERNEL_SHARE) * device.kernels * step_bound.kernel_launch_ms(trace, device)
    return max(min(saved, trace.step_ms - step_bound.batch_making_ms(trace)), 0.0)


def _jax_call_finding(trace: Trace) -> LaunchFinding | None:
    """On JAX one call a step starts all kernels, as a CUDA graph does; the call takes the time."""
    device = trace.device
    if device is None or device.idle.get("eager", 0.0) > 0:
        return None
    copies = device.copies.get("h2d")
    small = copies is not None and copies.bytes <= MAX_SMALL_COPY_BYTES * max(copies.count, 1.0)
    feeding = trace.mean(Category.CONVERT) + trace.mean(Category.FEED) if small else 0.0
    starting = _host_ms_between_calls(trace, trace.mean(Category.DISPATCH) + feeding)
    busy, overhead = trace.mean(Category.DEVICE), _many_steps_saving_ms(trace, starting)
    if (
        starting < MIN_STARTING_SHARE * trace.step_ms
        or overhead < MIN_OVERHEAD_SHARE * trace.step_ms
        or busy > starting
    ):
        return None
    saved_ms = SCAN_SAVED_SHARE * starting
    evidence = Evidence(
        f"the device computes for {format_number(busy, 2)} of each step's {format_number(trace.step_ms)} ms; "
        f"for {format_number(starting)} ms it waits while the host goes from one call to the next",
        {"step_ms": trace.step_ms, "busy_ms": busy, "overhead_ms": saved_ms, "ops": device.kernels},
        () if trace.fact("profile") else step_places(trace),
    )
    return LaunchFinding(evidence, _call_overhead_remedy(trace, saved_ms))


def _profiled_host_finding(trace: Trace) -> LaunchFinding | None:
    """The finding in a profile of a CPU, if its steps are calls of a function."""
    device = trace.device
    called = trace.steps.source.startswith("calls of") or trace.fact("told_steps", default=False)
    if device is None or not called or device.idle.get("eager", 0.0) > device.idle.get("dispatch", 0.0):
        return None
    starting = _host_ms_between_calls(trace, trace.mean(Category.DISPATCH))
    overhead = _many_steps_saving_ms(trace, starting)
    if starting < MIN_STARTING_SHARE * trace.step_ms or overhead < MIN_OVERHEAD_SHARE * trace.step_ms:
        return None
    evidence = _starting_evidence(trace, trace.mean(Category.DEVICE), overhead, device.kernels)
    return LaunchFinding(evidence, _call_overhead_remedy(trace, overhead))


def _host_ms_between_calls(trace: Trace, framework_ms: float) -> float:
    """The framework's time with the Python between calls, which may be the script's: at most as much again."""
    return framework_ms + min(trace.mean(Category.PYTHON), framework_ms)


def _many_steps_saving_ms(trace: Trace, starting_ms: float) -> float:
    """What many steps in one call save of it: at most ``MAX_CALL_MS`` for each call."""
    return min((1 - OVERHEAD_LEFT_SHARE) * starting_ms, MAX_CALL_MS * _calls_per_step(trace))


def _calls_per_step(trace: Trace) -> float:
    """Calls of functions in a step. A hand-written loop may have hundreds, for an environment for example."""
    return max(host_work.spans_per_step(trace, "function"), 1.0) if trace.steps.source.startswith("function") else 1.0


def _is_one_graph_per_step(trace: Trace) -> bool:
    """Whether one call of a function is one training step, not several steps or a whole fit."""
    several = any(int(e.data.get("steps_per_execution") or 1) > 1 for e in trace.events_of("loop") if e.name == "fit")
    known = trace.steps.source in ("fit", "train_on_batch") or trace.steps.source.startswith("function")
    return known and trace.steps.training and not (several and trace.steps.source == "fit")


def _computing_ms(trace: Trace) -> float:
    """Computing in a step by the profiler window, or by attribution if that is less (other processes slow a window)."""
    kernels = trace.kernels
    return min(kernel_ms(kernels), trace.mean(Category.DEVICE) or kernel_ms(kernels)) if kernels is not None else 0.0


def _recorded_saving_ms(trace: Trace, most: float = MAX_CALL_MS) -> float:
    """The part of the time for starting operations that comes with each call from Python."""
    return min((1 - OVERHEAD_LEFT_SHARE) * trace.mean(Category.DISPATCH), most * _calls_per_step(trace))
