"""What bounds a step: the categories that take most of its time, and what the host of a GPU spends on launching.

Costs of launches and calls were measured with TensorFlow 2.21 and Keras 3.15 on an H200 (twelve recordings with a
profile, and the steps outside it).
"""

from __future__ import annotations

from collections.abc import Mapping

from slowtrain.columns.device import Device
from slowtrain.model import Category, Place, VerdictKind
from slowtrain.profile import framework_names
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import tensor_cores
from slowtrain.trace.signals.device.op_work import executor_overhead_ms

HOST_CATEGORIES = (
    Category.DISPATCH, Category.HOST_OP, Category.PYTHON, Category.CONVERT, Category.CALLBACK, Category.GC,
    Category.COMPILE,
)  # fmt: skip
CATEGORIES_BY_VERDICT: Mapping[VerdictKind, tuple[Category, ...]] = {
    VerdictKind.INPUT: (Category.INPUT,),
    # Waits for data from other processes and devices. One process cannot separate the exchange from the wait
    # for a slower one (docs/decisions/2026-11-27-waiting-for-other-processes.md).
    VerdictKind.TRANSFER: (Category.FEED, Category.READBACK, Category.COLLECTIVE, Category.COLLECTIVE_WAIT),
    VerdictKind.HOST: HOST_CATEGORIES,
    VerdictKind.COMPUTE: (Category.DEVICE,),  # last, because the other of two equal parts can be cured
}
# Share of dispatch in the host's part of a step; with less, other host work also limits it.
MIN_LAUNCH_SHARE = 2 / 3
# On a processor: ratio of op time to overhead above which the overhead counts as the cost of the ops.
MIN_DEVICE_TO_DISPATCH = 0.5
# A launch took the host 3.5 to 5 µs with one launching thread, and up to 14 µs with several. From the call to the
# kernel's start it was 8 µs.
MIN_LAUNCH_MS, MAX_LAUNCH_MS = 0.0035, 0.014
XLA_LAUNCH_MS = 0.008
# Python of Keras or of a tf.function until the executor runs: 0.4 to 0.9 ms a call, which is not launching.
PYTHON_CALL_MS = 0.5
# Host time of a step that is one of many in a call: the next batch, one XLA program, the loop. An estimate
# from the same profiles; the other parts of a step of Keras' fit take 2 to 3 ms.
STEP_IN_CALL_MS = 0.5
MIN_XLA_KERNEL_SHARE = 0.1  # of the kernels named by XLA; its programs also contain library kernels
# Share of the first step: a convolutional model of 864 ops took 11.7 s, others of its size 5.5 s. One pair: wide range.
XLA_COMPILE_SHARE, COMPILE_SPREAD = 0.5, (0.3, 1.3)
KERAS_SOURCES = ("fit", "train_on_batch")
MIN_SLOW_INPUT_SHARE = 0.1  # of a step spent waiting for input; with less, input does not limit the speed


def counts_dispatch_as_compute(trace: Trace) -> bool:
    """Return whether the framework's overhead counts as the cost of the ops: a processor that mostly computes."""
    return not trace.on_accelerator and trace.mean(Category.DEVICE) > MIN_DEVICE_TO_DISPATCH * trace.mean(
        Category.DISPATCH
    )


def ms_by_verdict(trace: Trace) -> dict[VerdictKind, float]:
    """Return ms of a step by verdict. On a processor the overhead of ops counts as their computation."""
    spent = {kind: sum(map(trace.mean, categories)) for kind, categories in CATEGORIES_BY_VERDICT.items()}
    dispatch = trace.mean(Category.DISPATCH)
    if counts_dispatch_as_compute(trace):
        spent[VerdictKind.COMPUTE] += dispatch
        spent[VerdictKind.HOST] -= dispatch
    return spent


def largest_verdict(trace: Trace) -> tuple[VerdictKind, float]:
    """Return the group with most ms of a step; ``insufficient-data`` if more of it is unattributed.

    The same if there is only one step and more time follows it, because every step may have that time.
    """
    spent = ms_by_verdict(trace)
    kind = max(spent, key=lambda k: spent[k])
    if trace.mean(Category.UNATTRIBUTED) > spent[kind]:
        return VerdictKind.INSUFFICIENT, trace.mean(Category.UNATTRIBUTED)
    if only_step_overrun_ms(trace) > spent[kind]:
        return VerdictKind.INSUFFICIENT, only_step_overrun_ms(trace)
    return kind, spent[kind]


def only_step_overrun_ms(trace: Trace) -> float:
    """Return ms after a profile's only step that its mark includes, although no training call reaches there."""
    return float(trace.fact("behind", "ms", default=0.0))


def mostly_launches(trace: Trace, host_ms: float) -> bool:
    """Return whether most of the host's part of a step is starting ops."""
    return not trace.eager and trace.mean(Category.DISPATCH) >= MIN_LAUNCH_SHARE * host_ms


def host_dispatch_ms(trace: Trace) -> float:
    """Return ms per step in the framework on the host: calls, executor, launches.

    Without ops that the host computes.
    """
    return trace.mean(Category.DISPATCH)


def kernel_launch_ms(trace: Trace, device: Device) -> float:
    """Return the host's time per launch, from its total and the number of kernels, within the measured range."""
    if are_steps_xla_compiled(trace):
        return XLA_LAUNCH_MS
    each = max(host_dispatch_ms(trace) - PYTHON_CALL_MS, 0.0) / max(device.launches, 1.0)
    return min(max(each, MIN_LAUNCH_MS), MAX_LAUNCH_MS)


def many_steps_host_ms(trace: Trace, device: Device) -> float:
    """Return the host's time for a step that is one of many in one call; launches remain."""
    return min(STEP_IN_CALL_MS + device.launches * kernel_launch_ms(trace, device), host_dispatch_ms(trace))


def batch_making_ms(trace: Trace) -> float:
    """Return the time to make a batch during the step, below which fewer launches cannot shorten the step."""
    ahead = trace.pipeline.ahead_ms if trace.pipeline is not None else 0.0
    # Slower than steps that hardly wait for it: an epoch's start was measured, not a usual batch.
    return 0.0 if ahead >= trace.step_ms and trace.share(Category.INPUT) < MIN_SLOW_INPUT_SHARE else ahead


def are_steps_xla_compiled(trace: Trace) -> bool:
    """Return whether XLA compiled the steps: its kernels are in the profile, or Keras reported it for the model."""
    device = trace.device
    if device is not None and device.kernels:
        named = sum(op.count for op, _ in tensor_cores.profiled_ops(device) if op.kind.startswith("Xla"))
        fused = sum(count for name, (_, count) in device.by_kernel.items() if "fusion" in name)
        return max(named, fused) >= MIN_XLA_KERNEL_SHARE * device.kernels
    if trace.kernels is not None and "XLA" in trace.kernels.by_type:
        return True
    asked = (*trace.events_of("loop"), *trace.events_of("compile"))
    return trace.steps.source in ("fit", "train_on_batch") and any(e.data.get("jit_compile") is True for e in asked)


def op_start_ms(trace: Trace) -> float:
    """Return the executor's time to start the graph's ops; 0 if XLA made a program of them, with few launches."""
    return 0.0 if are_steps_xla_compiled(trace) else executor_overhead_ms(trace)


def xla_compile_ms(trace: Trace, part: float) -> float:
    """Return what ``part`` of the graph's ops cost the first step on a GPU if XLA compiles; else 0."""
    if not trace.on_accelerator or trace.fact("profile") or not len(trace.steps) or not are_steps_xla_compiled(trace):
        return 0.0
    return XLA_COMPILE_SHARE * part * max(float(trace.steps.ms[0]) - trace.step_ms, 0.0)


def user_step_function(trace: Trace) -> Place | None:
    """Return where the user's function begins whose graph is the step; None if it is Keras', or nothing was traced."""
    for event in trace.events_of("trace"):
        file, line = event.data.get("file"), event.data.get("line")
        if event.data.get("training") and not event.data.get("keras") and isinstance(file, str) and line:
            return Place(file, int(line))
    return None


def is_keras_step(trace: Trace) -> bool:
    """Whether Keras makes the step's function, so that its ``compile`` decides about XLA."""
    source = trace.steps.source
    return source in KERAS_SOURCES or any(name in source for name in framework_names.KERAS_FUNCTIONS)
