"""Recurrent layers that run as a loop of small ops, though cuDNN has one op for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.columns.device import Device
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import tensor_cores
from slowtrain.trace.signals.host import source_lines
from slowtrain.whatif import Drop, Remedy

MAX_NAME_LENGTH = 60  # of a layer
MIN_CELL_PRODUCTS = 8  # per step: with fewer, cells are called without a recurrence
# Shares of their time that the loop's kernels, and the launches between them, keep as one op. They are assumed: cuDNN
# computes all gates of all time steps at once, unless one time step waits for another.
KEPT_SHARE, KEPT_LAUNCH_SHARE = 0.4, 0.15
CUDNN_SETTINGS: dict[str, object] = {
    "activation": "tanh",
    "recurrent_activation": "sigmoid",
    "recurrent_dropout": 0,
    "unroll": False,
    "use_bias": True,
    "reset_after": True,
    "use_cudnn": "auto",
}


class RecurrentLoops(Struct, frozen=True):
    """Layers that run as loops, with their kernels per step, and the products among them.

    ``settings``: in the user's script, each with its line; they keep a layer off cuDNN.
    """

    layers: tuple[str, ...]
    ms: float
    kernels: float
    products: float
    settings: tuple[tuple[Place, str], ...] = ()


class UnfusedRnn(Cause[RecurrentLoops]):
    """An LSTM or GRU runs as a loop of small kernels, though cuDNN computes the whole layer in one op."""

    title = "A recurrent layer runs as a loop of small ops"
    worth_if = "a GPU trains it for more than a minute"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})
    words = ("LSTM", "GRU", "LSTMCell", "GRUCell")
    context_words = (".fit", "fit_generator", "train_on_batch", "GradientTape", "minimize")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        device = trace.device
        if device is None or device.kind != "GPU" or _names_ops(device):
            return super().wants(trace)
        return super().wants(trace) | {Signal.MODEL}  # names in compiled programs show no layers

    def find(self, trace: Trace) -> RecurrentLoops | None:
        loops = _recurrent_loops(trace.device) if trace.device is not None else None
        if loops is None or trace.on_jax:  # XLA fuses each time step
            return None
        return replace(loops, settings=tuple(_slow_settings(trace)))

    def evidence(self, trace: Trace, finding: RecurrentLoops) -> Evidence:
        why = f" ({finding.settings[0][1]})" if finding.settings else ""
        return Evidence(
            f"{', '.join(finding.layers[:3])} run{'s' * (len(finding.layers) == 1)} as a loop{why}: "
            f"{finding.kernels:,.0f} kernels of {format_number(finding.ms)} ms in each step, {finding.products:,.0f} "
            "of them small matrix products",
            {"loop_ms": finding.ms, "kernels": finding.kernels, "products": finding.products},
            tuple(dict.fromkeys(place for place, _ in finding.settings))[:3],
        )

    def remedies(self, trace: Trace, finding: RecurrentLoops) -> Sequence[Remedy]:
        device = trace.device
        if device is None or not device.kernels:
            return []
        scale = min(trace.mean(Category.DEVICE) / device.kernel_ms, 1.0) if device.kernel_ms else 1.0
        share = min(finding.kernels / device.kernels, 1.0)
        saved = {
            Category.DEVICE: (1 - KEPT_SHARE) * scale * finding.ms,
            Category.DISPATCH: (1 - KEPT_LAUNCH_SHARE) * share * trace.mean(Category.DISPATCH),
        }
        return [Drop(saved, 0.0, (0.5, 1.15))]


def _names_ops(device: Device) -> bool:
    """Whether the profile names TensorFlow's ops, or cuDNN's recurrent kernels."""
    return bool(tensor_cores.profiled_ops(device)) or any(
        re.search(framework_names.FUSED_RNN_KERNEL, name) for name in device.by_kernel
    )


def _recurrent_loops(device: Device) -> RecurrentLoops | None:
    layers: dict[str, float] = {}
    ms = kernels = products = 0.0
    for op, _ in tensor_cores.profiled_ops(device):
        cell = re.search(framework_names.CELL_SCOPE, op.name)
        if cell is not None:
            layers[cell[1][:MAX_NAME_LENGTH]] = layers.get(cell[1][:MAX_NAME_LENGTH], 0.0) + op.ms
            ms, kernels = ms + op.ms, kernels + op.count
            products += op.count if op.matmul else 0.0
    if products < MIN_CELL_PRODUCTS:
        return None
    return RecurrentLoops(tuple(sorted(layers, key=lambda name: -layers[name])), ms, kernels, products)


def _slow_settings(trace: Trace) -> Iterator[tuple[Place, str]]:
    """Settings in the user's script that keep a recurrent layer off cuDNN, each with its line."""
    files = dict.fromkeys(e.place.file for e in trace.events_of("loop") if e.place is not None)
    for file in files:
        tree = source_lines.source_tree(trace, file)
        for call in source_lines.calls_of_names(tree, ["LSTM", "GRU"]) if tree is not None else ():
            for given in call.keywords:
                value = given.value.value if isinstance(given.value, ast.Constant) else None
                default = CUDNN_SETTINGS.get(given.arg or "", value)
                if value is not None and value != default and not (given.arg == "use_cudnn" and value is True):
                    yield Place(file, call.lineno), f"{given.arg}={value!r}"
