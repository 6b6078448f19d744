"""Chains of elementwise ops, each of which reads and writes memory once more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause, launched
from slowtrain.columns.device import Device
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.locations.recorded_sources import edit_project
from slowtrain.source.cures.compute import xla
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import kernel_launches, op_work, tensor_cores
from slowtrain.trace.signals.host import host_work
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

# Of the device's time: where elementwise ops take less, no fusing of them gives more than a few per cent, for a
# third to a half of the passes stays, and compiling with XLA has a price of its own.
SHARE = 0.25
MOSTLY = 0.5  # of the step; of the kernels, where the device waits for the host to launch them
MOST_SAVED = 0.97  # of their time: of however many, one pass stays
SHORTEST = 2.0  # ops in a chain, where the profile names kernels only: the least that can be fused
LETTERS = 60  # of a layer's name
LEAST_PART = 0.05  # of its scope's time, for a type of op to count: an optimizer has scalars of its own
# On a processor.
LONG_MS = (
    0.1  # an op that goes through memory; what is shorter costs by being started, of which XLA spares little there
)
MANY = 20  # such ops a step: a chain or several
# Steps of nothing but such ops of 0.1 ms and more were 1.0 to 10 times as fast with XLA, with a median of 2.3; steps
# that draw random numbers a third as fast (clinic/fusing.py).
LEFT, LEFT_SPREAD = 0.45, (0.4, 1.5)
RANDOM = 0.05  # of their time, in random numbers: then nothing is foretold


@dataclass(frozen=True)
class Chains:
    """Ms and kernels a step in elementwise ops; ``left_ms`` and ``left`` with each chain as one kernel."""

    ms: float
    kernels: float
    left_ms: float
    left: float
    mostly: str  # the kind of layer that has most of what fusing saves, "" for none


class UnfusedElementwise(Cause[Evidence]):
    """Much of the device's time goes to elementwise ops, one pass over memory for each."""

    title = "Elementwise ops are not fused"
    needs = frozenset({Signal.STEPS})

    def wants(self, trace: Trace) -> frozenset[Signal]:
        """A processor has no timeline of its own: its ops are those of the window."""
        on_host = trace.device is None and not (trace.on_accelerator or trace.on_jax or trace.fact("profile"))
        return super().wants(trace) | {Signal.KERNELS if on_host else Signal.DEVICE}

    def find(self, trace: Trace) -> Evidence | None:
        if trace.device is None:
            return _on_host(trace)
        found, total = _chains(trace.device), trace.device.kernel_ms
        if trace.on_jax and trace.eager and trace.share(Category.DEVICE) < MOSTLY:
            return None
        if found is None or not total or (found.ms < SHARE * total and not _many_launches(trace, found)):
            return None
        share = found.ms / total
        where = f", mostly in {found.mostly}" if found.mostly else ""
        place = kernel_launches.user_step_function(trace)
        starts_ms = _launching_ms(trace, trace.device, found)
        host = f", and the host {format_number(starts_ms)} ms to launch those that fusing spares" if starts_ms else ""
        return Evidence(
            f"{found.kernels:,.0f} elementwise kernels take {format_number(found.ms)} ms of each step, {share:.0%} "
            "of the "
            f"device's time{where}{host}; fused, about {found.left:,.0f} would be left",
            {"elementwise_ms": found.ms, "elementwise_share": share, "kernels": found.kernels, "left": found.left,
             "launching_ms": starts_ms},
            tensor_cores.op_lines(trace.device, _elementwise) or ((place,) if place else ()),
        )  # fmt: skip

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        device = trace.device
        if device is None:
            return [Drop({Category.DEVICE: (1 - LEFT) * evidence.numbers["elementwise_ms"]}, spread=LEFT_SPREAD)]
        found = _chains(device)
        if found is None or not device.kernels:
            return []
        scale = min(trace.mean(Category.DEVICE) / device.kernel_ms, 1.0) if device.kernel_ms else 1.0
        # With the kernels go the gaps between those that were queued one behind the other, or their launches.
        gaps = device.idle.get("queue", 0.0) * (found.kernels - found.left) / device.kernels
        gaps = max(gaps, evidence.numbers.get("launching_ms", 0.0))
        saved = {Category.DEVICE: scale * (found.ms - found.left_ms), Category.DISPATCH: gaps}
        most = MOST_SAVED * found.ms / (found.ms - found.left_ms) if found.ms > found.left_ms else 1.0
        return [Drop(saved, 0.0, (0.3, max(min(1.2, most), 1.0)))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if trace.on_jax:
            whole = "put @jax.jit on the function that calls them, so that XLA sees the chains whole"
            yield Prescription("edit", Effect.EQUIVALENT, whole)
            return
        fused = edit_project(trace, xla.fused_steps)
        where = "compile(..., jit_compile=True)" if launched.in_fit(trace) else "@tf.function(jit_compile=True)"
        says = f"{where}, so that XLA fuses the chains"
        yield Prescription("edit", Effect.EQUIVALENT, says, edits=fused, treatment="xla")


def _on_host(trace: Trace) -> Evidence | None:
    """Long elementwise ops on the processor, where there are many and they take most of the step."""
    deep = trace.kernels
    if deep is None or deep.ms <= 0 or trace.eager:
        return None
    long = [
        op
        for op in op_work.window_ops(deep)
        if op.kind in framework_names.ELEMENTWISE_OPS and not op.update and op.count and op.ms / op.count >= LONG_MS
    ]
    drawn = sum(op.ms for op in op_work.window_ops(deep) if framework_names.RANDOM_OP.search(op.kind))
    count = sum(op.count for op in long)
    ms = trace.mean(Category.DEVICE) * sum(op.ms for op in long) / deep.ms
    if count < MANY or ms < MOSTLY * trace.step_ms or drawn > RANDOM * sum(op.ms for op in long):
        return None
    return Evidence(
        f"{count:,.0f} elementwise ops of {format_number(ms / count)} ms each, one pass over memory and more, take "
        f"{format_number(ms)} of a step's {format_number(trace.step_ms)} ms",
        {"elementwise_ms": ms, "elementwise_share": ms / trace.step_ms, "kernels": count},
        host_work.step_places(trace),
    )


def _many_launches(trace: Trace, found: Chains) -> bool:
    """Whether most kernels are elementwise, and the step waits for the host to launch them."""
    device = trace.device
    mostly = device is not None and found.kernels >= MOSTLY * device.kernels
    return mostly and kernel_launches.host_dispatch_ms(trace) >= MOSTLY * trace.step_ms


def _launching_ms(trace: Trace, device: Device, found: Chains) -> float:
    """What the host spares of launches where it is the slower side; 0 where the device computes meanwhile."""
    if (
        trace.on_jax
        or kernel_launches.host_dispatch_ms(trace) <= trace.mean(Category.DEVICE)
        or kernel_launches.are_steps_xla_compiled(trace)
    ):
        return 0.0
    return max(found.kernels - found.left, 0.0) * kernel_launches.kernel_launch_ms(trace, device)


def _chains(device: Device) -> Chains | None:
    """By the framework's ops where most of the time has one, else by kernels."""
    named = [op for op, _ in tensor_cores.profiled_ops(device)]
    if named and sum(op.ms for op in named) >= 0.5 * device.kernel_ms:
        return _by_scope([op for op in named if op.kind in framework_names.ELEMENTWISE_OPS])
    mine = [row for name, row in device.by_kernel.items() if framework_names.ELEMENTWISE_KERNEL.search(name)]
    ms, kernels = sum(r[0] for r in mine), sum(r[1] for r in mine)
    return Chains(ms, kernels, ms / SHORTEST, kernels / SHORTEST, "") if ms > 0 else None


def _elementwise(text: str) -> bool:
    parsed = framework_names.graph_op(text.partition("#")[0])
    return parsed is not None and parsed[1] in framework_names.ELEMENTWISE_OPS


def _by_scope(ops: Sequence[op_work.WindowOp]) -> Chains | None:
    """Ops of one scope are as many chains as its rarest type of op (of any weight) runs in it."""
    scopes: dict[str, list[op_work.WindowOp]] = {}
    for op in ops:
        scopes.setdefault(framework_names.RANDOM_SCOPE.sub("", op.name.rpartition("/")[0]), []).append(op)
    left_ms = left = 0.0
    saved: dict[str, float] = {}
    for scope, mine in scopes.items():
        ms, count = sum(o.ms for o in mine), sum(o.count for o in mine)
        chains = min(_rarest(mine, ms), count)
        # A fused kernel still does the largest of its passes.
        largest = max(o.ms / max(o.count, 1.0) for o in mine) if chains <= 1 else 0.0
        kept = min(max(ms * chains / count, largest), ms) if count else ms
        left_ms, left = left_ms + kept, left + chains
        layer = framework_names.NAME_NUMBER.sub("", scope.rpartition("/")[2][:LETTERS])
        saved[layer] = saved.get(layer, 0.0) + ms - kept
    total = sum(o.ms for o in ops)
    worst = max(saved, key=lambda s: saved[s], default="")
    mostly = worst if worst and saved[worst] > 0.5 * sum(saved.values()) else ""
    return Chains(total, sum(o.count for o in ops), left_ms, left, mostly) if total > 0 else None


def _rarest(ops: Sequence[op_work.WindowOp], ms: float) -> float:
    """How often ops of the rarest type run, of the types that take a part of the scope's time."""
    kinds: dict[str, list[op_work.WindowOp]] = {}
    for op in ops:
        kinds.setdefault(op.kind, []).append(op)
    often = (sum(o.count for o in k) for k in kinds.values() if sum(o.ms for o in k) >= LEAST_PART * ms)
    return min(often, default=sum(o.count for o in ops))
