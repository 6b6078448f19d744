"""What the host of a GPU spends on launching: who launches the kernels, what a launch takes, what comes with a call.

Measured with TensorFlow 2.21 and Keras 3.15 on an H200 (twelve recordings with profile, and the steps beside it).
"""

from __future__ import annotations

from slowtrain.model import Category, Place
from slowtrain.trace import Device, Trace, tensor_cores
from slowtrain.trace.work import executor_ms

# A launch took the host 3.5 to 5 µs where one thread launches, and up to 14 µs where several do; from the call to the
# kernel's start it was 8 µs.
LEAST_LAUNCH_MS, MOST_LAUNCH_MS = 0.0035, 0.014
XLA_LAUNCH_MS = 0.008
# Python of Keras or of a tf.function until the executor runs: 0.4 to 0.9 ms a call. It is no launch.
CALL_MS = 0.5
# What the host spends on a step that is one of many in a call: the next batch, one XLA program, the loop. An estimate
# from the same profiles, whose parts outside of these come to the rest of a step of Keras' fit (2 to 3 ms).
STEP_IN_CALL_MS = 0.5
XLA_SHARE = 0.1  # of the kernels by XLA's name: its programs have library kernels as well; a layer of its own has fewer
# Of the first step: a convolution of 864 ops took 11.7 s, other models of its size 5.5 s. One pair, so a wide range.
COMPILED, COMPILE_SPREAD = 0.5, (0.3, 1.3)
WAITED = 0.1  # of a step for input: with less the input is not the slower side


def host_ms(trace: Trace) -> float:
    """Ms a step in the framework on the host: calls, executor, launches; ops that the host computes are not in it."""
    return trace.mean(Category.DISPATCH)


def launch_ms(trace: Trace, device: Device) -> float:
    """What one launch takes the host, by its time and the number of kernels, within what launches were seen to take."""
    if by_xla(trace):
        return XLA_LAUNCH_MS
    each = max(host_ms(trace) - CALL_MS, 0.0) / max(device.launches, 1.0)
    return min(max(each, LEAST_LAUNCH_MS), MOST_LAUNCH_MS)


def many_steps_host_ms(trace: Trace, device: Device) -> float:
    """What the host would spend on a step that is one of many in one call; launches stay."""
    return min(STEP_IN_CALL_MS + device.launches * launch_ms(trace, device), host_ms(trace))


def input_ms(trace: Trace) -> float:
    """What making a batch takes beside the step: no step gets shorter than that by launching less."""
    ahead = trace.pipeline.ahead_ms if trace.pipeline is not None else 0.0
    # Slower than the steps that hardly wait for it: an epoch's start was seen, not what a batch usually takes.
    return 0.0 if ahead >= trace.step_ms and trace.share(Category.INPUT) < WAITED else ahead


def by_xla(trace: Trace) -> bool:
    """Whether XLA compiled the steps: its kernels are in the profile, or Keras said so of the model."""
    device = trace.device
    if device is not None and device.kernels:
        named = sum(op.count for op, _ in tensor_cores.ops(device) if op.kind.startswith("Xla"))
        fused = sum(count for name, (_, count) in device.by_kernel.items() if "fusion" in name)
        return max(named, fused) >= XLA_SHARE * device.kernels
    if trace.kernels is not None and "XLA" in trace.kernels.by_type:
        return True
    asked = (*trace.events_of("loop"), *trace.events_of("compile"))
    return trace.steps.source in ("fit", "train_on_batch") and any(e.data.get("jit_compile") is True for e in asked)


def starting_ms(trace: Trace) -> float:
    """What the executor takes to start the graph's ops: nothing where XLA made a program of them, of few launches."""
    return 0.0 if by_xla(trace) else executor_ms(trace)


def compile_ms(trace: Trace, part: float) -> float:
    """What ``part`` of the graph's ops cost the first step on a GPU, where XLA compiles; 0 where it does not."""
    if not trace.on_accelerator or trace.fact("profile") or not len(trace.steps) or not by_xla(trace):
        return 0.0
    return COMPILED * part * max(float(trace.steps.ms[0]) - trace.step_ms, 0.0)


def step_function(trace: Trace) -> Place | None:
    """Where the user's function begins whose graph is the step; None where Keras' own is, or nothing was traced."""
    for event in trace.events_of("trace"):
        file, line = event.data.get("file"), event.data.get("line")
        if event.data.get("training") and not event.data.get("keras") and isinstance(file, str) and line:
            return Place(file, int(line))
    return None
