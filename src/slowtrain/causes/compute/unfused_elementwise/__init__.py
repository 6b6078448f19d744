"""Chains of elementwise ops, each of which reads and writes memory."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.device import Device
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work, step_bound, tensor_cores
from slowtrain.trace.signals.host import host_work
from slowtrain.whatif import Drop, Remedy

# Of the device's time. With less, fusing gains only a few per cent, because a third to a half of the passes stays and
# compiling with XLA has a cost of its own.
MIN_ELEMENTWISE_SHARE = 0.25
MIN_KERNEL_SHARE, MIN_DISPATCH_SHARE = 0.5, 0.5  # of the kernels and of the step, if the device waits for launches
MIN_BUSY_SHARE = 0.5  # of an eager step of JAX: with less, the device waits for Python
MIN_NAMED_SHARE = 0.5  # of the kernels' time with a framework's op, to count chains by ops
MAX_SAVED_SHARE = 0.97  # of the elementwise time: of any number of passes, one stays
MIN_CHAIN_OPS = 2.0  # assumed for each chain if the profile names kernels only: fewer cannot be fused
MAX_NAME_LENGTH = 60  # of a layer
MIN_TYPE_SHARE = 0.05  # of its scope's time, for an op type to count: an optimizer has scalar ops as well
MIN_OP_MS = 0.1  # of an op that passes over memory; a shorter op costs its start, of which XLA saves little here
MIN_OPS = 20  # such ops per step: one chain or several
MIN_STEP_SHARE = 0.5
# Steps of nothing but such ops of 0.1 ms and more were 1.0 to 10 times as fast with XLA, with a median of 2.3. Steps
# that draw random numbers were a third as fast (clinic/fusing.py).
KEPT_HOST_SHARE, HOST_SAVING_SPREAD = 0.45, (0.4, 1.5)
MAX_RANDOM_SHARE = 0.05  # of the ops' time, in random numbers: with more, nothing is predicted


class ElementwiseChains(Struct, frozen=True):
    """``ms`` and ``kernels`` per step in elementwise ops; ``left_ms`` and ``left`` if each chain is one kernel.

    ``main_layer``: the kind of layer with most of what fusing saves; empty if there is none.
    """

    ms: float
    kernels: float
    left_ms: float
    left: float
    main_layer: str


class ElementwiseKernels(Struct, frozen=True):
    """``share``: of the kernels' time. ``launch_ms``: what the host saves of launches."""

    chains: ElementwiseChains
    device: Device
    share: float
    launch_ms: float

    def evidence(self, trace: Trace) -> Evidence:
        chains = self.chains
        layer = f", mostly in {chains.main_layer}" if chains.main_layer else ""
        host = f", and the host {format_number(self.launch_ms)} ms to launch those that fusing saves"
        place = step_bound.user_step_function(trace)
        return Evidence(
            f"{chains.kernels:,.0f} elementwise kernels take {format_number(chains.ms)} ms of each step, "
            f"{self.share:.0%} of the device's time{layer}{host if self.launch_ms else ''}; fused, "
            f"about {chains.left:,.0f} would be left",
            {
                "elementwise_ms": chains.ms,
                "elementwise_share": self.share,
                "kernels": chains.kernels,
                "left": chains.left,
                "launching_ms": self.launch_ms,
            },
            tensor_cores.op_lines(self.device, _is_elementwise) or _places(place),
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        chains, device = self.chains, self.device
        if not device.kernels:
            return []
        scale = min(trace.mean(Category.DEVICE) / device.kernel_ms, 1.0) if device.kernel_ms else 1.0
        # The gaps between queued kernels, or their launches, are saved with the kernels.
        gaps = device.idle.get("queue", 0.0) * (chains.kernels - chains.left) / device.kernels
        saved_ms = chains.ms - chains.left_ms
        saved = {Category.DEVICE: scale * saved_ms, Category.DISPATCH: max(gaps, self.launch_ms)}
        most = MAX_SAVED_SHARE * chains.ms / saved_ms if saved_ms > 0 else 1.0
        return [Drop(saved, 0.0, (0.3, max(min(1.2, most), 1.0)))]


class LongHostOps(Struct, frozen=True):
    """``count`` long elementwise ops take ``ms`` per step."""

    ms: float
    count: float

    def evidence(self, trace: Trace) -> Evidence:
        return Evidence(
            f"{self.count:,.0f} elementwise ops of {format_number(self.ms / self.count)} ms each, each a pass over "
            f"memory, take {format_number(self.ms)} of a step's {format_number(trace.step_ms)} ms",
            {"elementwise_ms": self.ms, "elementwise_share": self.ms / trace.step_ms, "kernels": self.count},
            host_work.step_places(trace),
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        return [Drop({Category.DEVICE: (1 - KEPT_HOST_SHARE) * self.ms}, spread=HOST_SAVING_SPREAD)]


class UnfusedElementwise(Cause[LongHostOps | ElementwiseKernels]):
    """Elementwise ops, each a pass over memory, take much of the device's time."""

    title = "Elementwise ops are not fused"
    needs = frozenset({Signal.STEPS})

    def wants(self, trace: Trace) -> frozenset[Signal]:
        """A processor has no timeline of its own. Its ops are those of the window."""
        on_host = trace.device is None and not (trace.on_accelerator or trace.on_jax or trace.fact("profile"))
        return super().wants(trace) | {Signal.KERNELS if on_host else Signal.DEVICE}

    def find(self, trace: Trace) -> LongHostOps | ElementwiseKernels | None:
        return _find_long_host_ops(trace) if trace.device is None else _find_elementwise_kernels(trace, trace.device)


def _find_elementwise_kernels(trace: Trace, device: Device) -> ElementwiseKernels | None:
    if trace.on_jax and trace.eager and trace.share(Category.DEVICE) < MIN_BUSY_SHARE:
        return None
    chains, total_ms = _elementwise_chains(device), device.kernel_ms
    if chains is None or not total_ms:
        return None
    if chains.ms < MIN_ELEMENTWISE_SHARE * total_ms and not _waits_for_launches(trace, device, chains):
        return None
    return ElementwiseKernels(chains, device, chains.ms / total_ms, _saved_launch_ms(trace, device, chains))


def _places(place: Place | None) -> tuple[Place, ...]:
    return (place,) if place is not None else ()


def _waits_for_launches(trace: Trace, device: Device, chains: ElementwiseChains) -> bool:
    """Whether most kernels are elementwise, and the step waits for the host to launch them."""
    mostly = chains.kernels >= MIN_KERNEL_SHARE * device.kernels
    return mostly and step_bound.host_dispatch_ms(trace) >= MIN_DISPATCH_SHARE * trace.step_ms


def _saved_launch_ms(trace: Trace, device: Device, chains: ElementwiseChains) -> float:
    """What the host saves of launches if it is slower than the device; 0 if the device computes meanwhile."""
    if (
        trace.on_jax
        or step_bound.host_dispatch_ms(trace) <= trace.mean(Category.DEVICE)
        or step_bound.are_steps_xla_compiled(trace)
    ):
        return 0.0
    return max(chains.kernels - chains.left, 0.0) * step_bound.kernel_launch_ms(trace, device)


def _elementwise_chains(device: Device) -> ElementwiseChains | None:
    """By the framework's ops if most of the time has one, else by kernels."""
    named = [op for op, _ in tensor_cores.profiled_ops(device)]
    if named and sum(op.ms for op in named) >= MIN_NAMED_SHARE * device.kernel_ms:
        return _chains_by_scope([op for op in named if op.kind in framework_names.ELEMENTWISE_OPS])
    rows = [row for name, row in device.by_kernel.items() if re.search(framework_names.ELEMENTWISE_KERNEL, name)]
    ms, kernels = sum(r[0] for r in rows), sum(r[1] for r in rows)
    return ElementwiseChains(ms, kernels, ms / MIN_CHAIN_OPS, kernels / MIN_CHAIN_OPS, "") if ms > 0 else None


def _is_elementwise(text: str) -> bool:
    parsed = framework_names.graph_op(text.partition("#")[0])
    return parsed is not None and parsed[1] in framework_names.ELEMENTWISE_OPS


def _chains_by_scope(ops: Sequence[op_work.WindowOp]) -> ElementwiseChains | None:
    """The ops of a scope form as many chains as its rarest op type runs. Types with little time do not count."""
    scopes: dict[str, list[op_work.WindowOp]] = {}
    for op in ops:
        scopes.setdefault(re.sub(framework_names.RANDOM_SCOPE, "", op.name.rpartition("/")[0]), []).append(op)
    left_ms = left = 0.0
    saved: dict[str, float] = {}
    for scope, mine in scopes.items():
        ms, count = sum(o.ms for o in mine), sum(o.count for o in mine)
        chains = min(_fewest_runs(mine, ms), count)
        # A fused kernel still does the largest of its passes.
        largest = max(o.ms / max(o.count, 1.0) for o in mine) if chains <= 1 else 0.0
        kept = min(max(ms * chains / count, largest), ms) if count else ms
        left_ms, left = left_ms + kept, left + chains
        layer = re.sub(framework_names.NAME_NUMBER, "", scope.rpartition("/")[2][:MAX_NAME_LENGTH])
        saved[layer] = saved.get(layer, 0.0) + ms - kept
    total = sum(o.ms for o in ops)
    worst = max(saved, key=lambda s: saved[s], default="")
    main_layer = worst if worst and saved[worst] > 0.5 * sum(saved.values()) else ""
    return ElementwiseChains(total, sum(o.count for o in ops), left_ms, left, main_layer) if total > 0 else None


def _fewest_runs(ops: Sequence[op_work.WindowOp], ms: float) -> float:
    """How often ops of the rarest type run, among the types that take a relevant part of the scope's time."""
    kinds: dict[str, list[op_work.WindowOp]] = {}
    for op in ops:
        kinds.setdefault(op.kind, []).append(op)
    runs = (sum(o.count for o in k) for k in kinds.values() if sum(o.ms for o in k) >= MIN_TYPE_SHARE * ms)
    return min(runs, default=sum(o.count for o in ops))


def _find_long_host_ops(trace: Trace) -> LongHostOps | None:
    kernels = trace.kernels
    if kernels is None or kernels.ms <= 0 or trace.eager:
        return None
    ops = op_work.window_ops(kernels)
    long_ops = [
        op
        for op in ops
        if op.kind in framework_names.ELEMENTWISE_OPS and not op.update and op.count and op.ms / op.count >= MIN_OP_MS
    ]
    long_ms = sum(op.ms for op in long_ops)
    random_ms = sum(op.ms for op in ops if re.search(framework_names.RANDOM_OP, op.kind))
    count = sum(op.count for op in long_ops)
    ms = trace.mean(Category.DEVICE) * long_ms / kernels.ms
    if count < MIN_OPS or ms < MIN_STEP_SHARE * trace.step_ms or random_ms > MAX_RANDOM_SHARE * long_ms:
        return None
    return LongHostOps(ms, count)
