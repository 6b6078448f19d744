"""Starting the step's operations takes longer than computing them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause, launch_overhead
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.source.cures import measured
from slowtrain.source.cures.host import kerascalls
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import kernel_launches
from slowtrain.trace.signals.host import user_loop
from slowtrain.trace.signals.host.host_work import kernel_ms, step_places
from slowtrain.whatif import Drop, Remedy

DOMINATES = 0.5  # of the step is starting and running operations beyond what they compute, waiting aside
WORTHWHILE = 1 / 3  # of the step is the part of that which comes with each call
# Without a GPU: what becomes of it when a graph runs fifty steps in one call, measured over pairs (dense models of 6 to
# 44 variables, SGD and Adam, custom loops and fit, two cores): a quarter stays with the executor, and however large the
# graph, calling it from Python costs half a millisecond at most; twice that while the machine is busy.
STAYS = 0.25
MOST_CALL_MS = 1.0
# What a call and Keras' loop around it were seen to take in clinic/ as recorded: what is told of the gain, not whether.
MOST_FIT_CALL_MS = 1.5
MOST_NEXT_MS = 0.15  # fetching a batch that is ready, from Python: vanishes with the call
# On a device the host's launching shows as gaps between kernels. A launch takes the host 5 to 20 µs in a graph and
# up to 0.1 ms for a compiled op by itself (profiles of a V100 and an MI300X); gaps of more were something else.
MOST_LAUNCH_MS = 0.2
# Of what the host does between calls, what a jax.lax.scan over many batches spares: on an H100 a step of Keras' fit
# took 1.18 ms, and 0.014 as a part of one.
SCANNED = 0.97
SMALL_BYTES = 1 << 16  # of a copy to the device: below it the call is what takes its time, not the bytes
AHEAD = 0.5  # of the kernels whose launch was over before the kernel before them: then the host keeps up
# What is left of such gaps when ops are fused, or many steps run in one call: assumed, hence a wide range.
GAPS_STAY, GAPS_SPREAD = 0.4, (0.4, 1.4)


class LaunchBound(Cause[Evidence]):
    """Starting the step's operations takes longer than computing them."""

    title = "starting the step's operations takes longer than computing them"
    rules_out = VerdictKind.LAUNCH
    needs = frozenset({Signal.STEPS, Signal.KERNELS, Signal.INPUT})

    def find(self, trace: Trace) -> Evidence | None:
        if trace.eager:
            return None
        if trace.on_accelerator and trace.device is not None:
            return _on_device(trace)
        if trace.fact("profile"):
            return None if trace.on_accelerator else _seen_on_host(trace)
        kernels = trace.kernels
        if kernels is None or not _one_graph_a_step(trace):
            return None
        overhead = _saved_ms(trace)
        if trace.share(Category.DISPATCH) < DOMINATES or overhead < WORTHWHILE * trace.step_ms:
            return None
        ops = kernels.count
        return Evidence(
            f"a step takes {format_number(trace.step_ms)} ms, of which its operations compute for "
            f"{format_number(_busy_ms(trace), 2)} ms; "
            f"the rest is starting them",
            {"step_ms": trace.step_ms, "busy_ms": _busy_ms(trace), "overhead_ms": overhead, "ops": ops},
            step_places(trace),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        if "host_ms" in evidence.numbers:
            return [launch_overhead.overhead_remedy(evidence)]
        if "gaps_ms" in evidence.numbers:
            return [Drop({Category.DISPATCH: (1 - GAPS_STAY) * evidence.numbers["gaps_ms"]}, spread=GAPS_SPREAD)]
        if trace.fact("profile") or trace.on_jax:
            saved = evidence.numbers["overhead_ms"]
            drops: dict[Category, float] = {}
            for category in (Category.DISPATCH, Category.PYTHON, Category.CONVERT, Category.FEED):
                drops[category] = min(saved - sum(drops.values()), trace.mean(category))
            return [Drop(drops, spread=(0.5, 1.1))]
        fetch = min(trace.mean(Category.INPUT), MOST_NEXT_MS) if trace.steps.source.startswith("function") else 0.0
        most = MOST_FIT_CALL_MS if trace.steps.source == "fit" else MOST_CALL_MS
        return [Drop({Category.DISPATCH: _saved_ms(trace, most), Category.INPUT: fetch}, spread=(0.75, 1.1))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if "host_ms" in evidence.numbers:
            yield from launch_overhead.overhead_cures(trace, evidence)
        elif "gaps_ms" in evidence.numbers:
            if not kernel_launches.are_steps_xla_compiled(trace):
                fuse = "compile the whole step with XLA (jit_compile=True; in JAX one jax.jit around it): fewer kernels"
                yield Prescription("edit", Effect.EQUIVALENT, fuse)
            if not trace.on_jax:
                says = "in Keras, compile(..., steps_per_execution=50)"
                yield Prescription("edit", Effect.EXACT, says, treatment="several-steps")
        elif trace.on_jax:
            # Keras' steps_per_execution is a loop in Python on this backend.
            many = "run many steps in one call, a jax.lax.scan over stacked batches; or give each step more to do"
            yield Prescription("advice", Effect.EXACT, many)
        elif trace.steps.source == "fit":
            several = measured.first(trace, evidence.where, kerascalls.several_steps)
            says = "compile(..., steps_per_execution=50)"
            yield Prescription("edit", Effect.EXACT, says, edits=several, treatment="several-steps")
        else:
            many = "run many steps in one tf.function: for _ in tf.range(50): step(next(iterator))"
            yield Prescription("edit", Effect.EXACT, many)


def _on_device(trace: Trace) -> Evidence | None:
    """On an accelerator, by its timeline."""
    told = trace.fact("told_steps", default=not trace.fact("profile"))
    if trace.on_jax:
        between = _between_kernels(trace) if trace.fact("profile") else None
        return between or (_called(trace) if told else None)
    if not told:
        return _between_kernels(trace)
    if not trace.fact("profile") and not _one_graph_a_step(trace):
        return None
    host_ms = kernel_launches.host_dispatch_ms(trace)
    return launch_overhead.find_overhead(trace, _between_calls(trace, host_ms) if trace.fact("profile") else host_ms)


def _between_kernels(trace: Trace) -> Evidence | None:
    """In a profile: the device waits between kernels, a launch's time each."""
    device = trace.device
    if device is None or not device.kernels:
        return None
    waiting, queued = device.idle.get("dispatch", 0.0), device.idle.get("queue", 0.0)
    gaps = waiting + queued
    if gaps < WORTHWHILE * trace.step_ms or gaps > MOST_LAUNCH_MS * device.kernels:
        return None
    # Gaps behind kernels that were queued already are the device's own: launching faster would not fill them.
    if waiting < queued:
        return None
    # Kernels of one XLA program are queued behind each other, though the device waits for the program: the time tells.
    # Not on JAX, where a loop of the program itself (a recurrent layer) waits for its condition in each turn.
    ahead = device.queued_share is not None and device.queued_share > AHEAD
    if ahead and (trace.on_jax or waiting < WORTHWHILE * trace.step_ms):
        return None
    if device.idle.get("eager", 0.0) > waiting:
        return None  # ops started one by one from Python: that is the eager step's
    numbers = {"gaps_ms": gaps, "kernels": device.kernels, "median_kernel_us": device.median_kernel_us}
    delay = (
        f", {format_number(device.launch_delay_us)} µs after the host's call"
        if device.launch_delay_us is not None
        else ""
    )
    return Evidence(
        f"in {format_number(gaps)} of each step's {format_number(trace.step_ms)} ms the device "
        "waits for the host to launch the next of "
        f"{device.kernels:,.0f} kernels, whose median takes {format_number(device.median_kernel_us)} µs{delay}",
        numbers,
    )


def _called(trace: Trace) -> Evidence | None:
    """JAX on a GPU, where one call a step starts all kernels, as of a CUDA graph: the call takes the time."""
    device = trace.device
    if device is None or device.idle.get("eager", 0.0) > 0:
        return None
    copies = device.copies.get("h2d")
    small = copies is not None and copies.bytes <= SMALL_BYTES * max(copies.count, 1.0)
    handed = trace.mean(Category.CONVERT) + trace.mean(Category.FEED) if small else 0.0
    starting = _between_calls(trace, trace.mean(Category.DISPATCH) + handed)
    busy, overhead = trace.mean(Category.DEVICE), _spared(trace, starting)
    if starting < DOMINATES * trace.step_ms or overhead < WORTHWHILE * trace.step_ms or busy > starting:
        return None
    return Evidence(
        f"the device computes for {format_number(busy, 2)} of each step's {format_number(trace.step_ms)} ms; "
        f"for {format_number(starting)} ms it waits for the host to get from one call to the next",
        {"step_ms": trace.step_ms, "busy_ms": busy, "overhead_ms": SCANNED * starting, "ops": device.kernels},
        () if trace.fact("profile") else step_places(trace),
    )


def _seen_on_host(trace: Trace) -> Evidence | None:
    """In a profile of a CPU, whose steps are calls of a function: the same as in a recording."""
    device = trace.device
    called = trace.steps.source.startswith("calls of") or trace.fact("told_steps", default=False)
    if device is None or not called or device.idle.get("eager", 0.0) > device.idle.get("dispatch", 0.0):
        return None
    starting = _between_calls(trace, trace.mean(Category.DISPATCH))
    overhead = _spared(trace, starting)
    if starting < DOMINATES * trace.step_ms or overhead < WORTHWHILE * trace.step_ms:
        return None
    busy = trace.mean(Category.DEVICE)
    return Evidence(
        f"a step takes {format_number(trace.step_ms)} ms, of which its operations compute for "
        f"{format_number(busy, 2)} ms; "
        f"the rest is starting them",
        {"step_ms": trace.step_ms, "busy_ms": busy, "overhead_ms": overhead, "ops": device.kernels},
    )


def _between_calls(trace: Trace, framework_ms: float) -> float:
    """With the Python between calls, of which nobody can tell whose it is: no more of it than of the framework."""
    return framework_ms + min(trace.mean(Category.PYTHON), framework_ms)


def _spared(trace: Trace, starting_ms: float) -> float:
    """What many steps in one call spare of it; more than ``MOST_CALL_MS`` is no call's."""
    return min((1 - STAYS) * starting_ms, MOST_CALL_MS * _calls(trace))


def _calls(trace: Trace) -> float:
    """Calls of functions in a step: a loop by hand may make hundreds, of an environment for one."""
    return max(user_loop.spans_per_step(trace, "function"), 1.0) if trace.steps.source.startswith("function") else 1.0


def _one_graph_a_step(trace: Trace) -> bool:
    """Whether a call of one function is a training step, and not several steps or a whole fit already."""
    several = any(int(e.data.get("steps_per_execution") or 1) > 1 for e in trace.events_of("loop") if e.name == "fit")
    known = trace.steps.source in ("fit", "train_on_batch") or trace.steps.source.startswith("function")
    return known and trace.steps.training and not (several and trace.steps.source == "fit")


def _busy_ms(trace: Trace) -> float:
    """Computing in a step: what the window saw, or what was attributed where other processes stretched it."""
    kernels = trace.kernels
    return min(kernel_ms(kernels), trace.mean(Category.DEVICE) or kernel_ms(kernels)) if kernels is not None else 0.0


def _saved_ms(trace: Trace, most: float = MOST_CALL_MS) -> float:
    """Of the time that starts operations what comes with each call from Python."""
    return min((1 - STAYS) * trace.mean(Category.DISPATCH), most * _calls(trace))
