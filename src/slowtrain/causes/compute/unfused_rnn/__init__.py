"""Recurrent layers that run as a loop of small ops where cuDNN has one op for them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from slowtrain.causes import Cause
from slowtrain.columns.device import Device
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.source.cures.compute import models
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import tensor_cores
from slowtrain.trace.signals.host import host_work, source_lines
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

LETTERS = 60  # of a layer's name
LEAST_TURNS = 8  # products of cells in a step: fewer are cells called by hand
# What the loop's kernels, and the launches between them, keep of their time as one op, assumed: cuDNN computes all
# gates of all turns at once as far as one turn does not wait for another.
KEPT, KEPT_LAUNCHES = 0.4, 0.15
SETTINGS: dict[str, object] = {"activation": "tanh", "recurrent_activation": "sigmoid", "recurrent_dropout": 0,
                               "unroll": False, "use_bias": True, "reset_after": True, "use_cudnn": "auto"}  # fmt: skip


@dataclass(frozen=True)
class Loops:
    """Layers that run as loops; their kernels a step, and the products among them."""

    layers: tuple[str, ...]
    ms: float
    kernels: float
    products: float


class UnfusedRnn(Cause[Evidence]):
    """An LSTM or GRU runs as a loop of small kernels, though cuDNN computes the whole layer in one op."""

    title = "A recurrent layer runs as a loop of small ops"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})
    words = ("LSTM", "GRU", "LSTMCell", "GRUCell")
    beside = (".fit", "fit_generator", "train_on_batch", "GradientTape", "minimize")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        device = trace.device
        if device is None or device.kind != "GPU" or _named(device):
            return super().wants(trace)
        return super().wants(trace) | {Signal.MODEL}  # names of compiled programs tell no layers

    def find(self, trace: Trace) -> Evidence | None:
        found = _loops(trace.device) if trace.device is not None else None
        if found is None or trace.on_jax:  # XLA fuses each turn
            return None
        settings = list(_settings(trace))
        why = f" ({settings[0][1]})" if settings else ""
        return Evidence(
            f"{', '.join(found.layers[:3])} run{'s' * (len(found.layers) == 1)} as a loop{why}: {found.kernels:,.0f} "
            f"kernels of {format_number(found.ms)} ms in each step, {found.products:,.0f} of them small matrix "
            "products",
            {"loop_ms": found.ms, "kernels": found.kernels, "products": found.products},
            tuple(dict.fromkeys(place for place, _ in settings))[:3],
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        device = trace.device
        if device is None or not device.kernels:
            return []
        scale = min(trace.mean(Category.DEVICE) / device.kernel_ms, 1.0) if device.kernel_ms else 1.0
        part = min(evidence.numbers["kernels"] / device.kernels, 1.0)
        saved = {
            Category.DEVICE: (1 - KEPT) * scale * evidence.numbers["loop_ms"],
            Category.DISPATCH: (1 - KEPT_LAUNCHES) * part * trace.mean(Category.DISPATCH),
        }
        return [Drop(saved, 0.0, (0.5, 1.15))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        for place, setting in list(_settings(trace))[:1]:
            text = recorded_source(trace, place.file)
            changed, same = models.fused_rnn(text, place.line) if text is not None else ((), False)
            effect = Effect.EQUIVALENT if same else Effect.CHANGES_TRAINING
            yield Prescription("edit", effect, f"remove {setting}, which cuDNN does not know", edits=changed)
        defaults = "keep the layer's default settings: tanh, sigmoid, no recurrent_dropout, no unroll, biases"
        yield Prescription("edit", Effect.CHANGES_TRAINING, defaults)


def _named(device: Device) -> bool:
    """Whether the profile names TensorFlow's ops, or cuDNN's recurrent kernels."""
    return bool(tensor_cores.profiled_ops(device)) or any(
        framework_names.FUSED_RNN_KERNEL.search(name) for name in device.by_kernel
    )


def _loops(device: Device) -> Loops | None:
    layers: dict[str, float] = {}
    ms = kernels = products = 0.0
    for op, _ in tensor_cores.profiled_ops(device):
        cell = framework_names.CELL_SCOPE.search(op.name)
        if cell is not None:
            layers[cell[1][:LETTERS]] = layers.get(cell[1][:LETTERS], 0.0) + op.ms
            ms, kernels = ms + op.ms, kernels + op.count
            products += op.count if op.matmul else 0.0
    if products < LEAST_TURNS:
        return None
    return Loops(tuple(sorted(layers, key=lambda name: -layers[name])), ms, kernels, products)


def _settings(trace: Trace) -> Iterator[tuple[Place, str]]:
    """Settings in the user's script that keep a recurrent layer off cuDNN, each with its line."""
    files = dict.fromkeys(e.place.file for e in trace.events_of("loop") if e.place is not None)
    for file in files:
        tree = host_work.source_tree(trace, file)
        for call in source_lines.calls_of_names(tree, ["LSTM", "GRU"]) if tree is not None else ():
            for given in call.keywords:
                value = given.value.value if isinstance(given.value, ast.Constant) else None
                usual = SETTINGS.get(given.arg or "", value)
                if value is not None and value != usual and not (given.arg == "use_cudnn" and value is True):
                    yield Place(file, call.lineno), f"{given.arg}={value!r}"
