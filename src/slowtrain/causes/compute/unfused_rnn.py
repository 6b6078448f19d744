"""Recurrent layers that run as a loop of small ops where cuDNN has one op for them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from slowtrain.causes import Cause
from slowtrain.columns.device import Device
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.evaluators import literal_sizes
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import call_index, name_bindings, node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.compute import models
from slowtrain.source.spots.compute import layered
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import tensor_cores
from slowtrain.trace.signals.host import host_work, source_lines
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

LETTERS = 60  # of a layer's name
LEAST_TURNS = 8  # products of cells in a step: fewer are cells called by hand
SHORT = 64  # turns of a recurrence: written out, a graph of some thousand ops
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


class UnfusedRnn(Cause):
    """An LSTM or GRU runs as a loop of small kernels, though cuDNN computes the whole layer in one op.

    ## What it means
    With Keras's default settings, an `LSTM` or `GRU` on a GPU is a single op. One setting that cuDNN does not
    know makes it a loop over time instead: a dozen small kernels for each turn, each launched by the host, and
    as many again for the gradient.

    ## How it is recognised
    Kernels of an `lstm_cell` or `gru_cell`, many times in each step, in the device's own timeline. In a recording the
    layer's settings are looked up in the script. A loop that XLA compiled is none of these: on an H100 an LSTM of a
    hundred turns took 3.4 ms a step so, and 3.7 by cuDNN.

    ## What to do
    Keep `activation="tanh"`, `recurrent_activation="sigmoid"`, `recurrent_dropout=0`, `unroll=False`,
    `use_bias=True` (and `reset_after=True` for a GRU), and pad sequences on the right where they are masked. `dropout`,
    without `recurrent_`, is no obstacle.

    ## When it is not worth it
    When the setting is what the model is about; then try `jit_compile=True`, which fuses each turn.
    """

    title = "A recurrent layer runs as a loop of small ops"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})
    words = ("LSTM", "GRU", "LSTMCell", "GRUCell")
    beside = (".fit", "fit_generator", "train_on_batch", "GradientTape", "minimize")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        device = trace.device
        if device is None or device.kind != "GPU" or _named(device):
            return super().wants(trace)
        return super().wants(trace) | {Signal.MODEL}  # names of compiled programs tell no layers

    def examine(self, trace: Trace) -> Evidence | None:
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

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
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

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        for place, setting in list(_settings(trace))[:1]:
            text = recorded_source(trace, place.file)
            changed, same = models.fused_rnn(text, place.line) if text is not None else ((), False)
            effect = Effect.EQUIVALENT if same else Effect.CHANGES_TRAINING
            yield Prescription("edit", effect, f"remove {setting}, which cuDNN does not know", edits=changed)
        defaults = "keep the layer's default settings: tanh, sigmoid, no recurrent_dropout, no unroll, biases"
        yield Prescription("edit", Effect.CHANGES_TRAINING, defaults)

    def spot(self, source: Source) -> Iterable[Spot]:
        """A layer of a file that trains, with a setting that cuDNN does not know."""
        if not literal_sizes.takes_training_steps(source):
            return
        seen: set[ast.Call] = set()
        for call in call_index.index_of(source).called("LSTM", "GRU"):
            if not name_bindings.qualified_name(source, call.func).startswith("keras.layers."):
                continue
            setting = models.unfused(call)
            if setting is not None:
                seen.add(call)
            if setting is not None and not (setting.arg == "unroll" and _short(source)):
                changed, same = models.fused_rnn(source, edits.node_end(call.func)[0])
                text = f"{setting.arg}={ast.unparse(setting.value)}"
                effect = Effect.EQUIVALENT if same else Effect.CHANGES_TRAINING
                cure = Prescription("edit", effect, f"remove {text}, which cuDNN does not know", edits=changed)
                says = f"with {text} a GPU runs this layer as a loop of small ops"
                yield Spot(edits.node_start(setting.value), edits.node_end(setting.value), says, cure)
        for call, says in dict.fromkeys(layered.unfused(source)):
            if call not in seen:
                usual = "leave out what cuDNN does not know, and take the layer in place of its cell"
                cure = Prescription("edit", Effect.CHANGES_TRAINING, usual)
                yield Spot(edits.node_start(call), edits.node_end(call.func), says, cure)

    fixes = (
        (
            """
        import keras
        import numpy as np

        keras.utils.set_random_seed(0)
        x, y = np.random.rand(64, 10, 4), np.random.rand(64, 1)
        model = keras.Sequential([keras.layers.GRU(8, reset_after=False), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(x, y, batch_size=32)
        """,
            """
        import keras
        import numpy as np

        keras.utils.set_random_seed(0)
        x, y = np.random.rand(64, 10, 4), np.random.rand(64, 1)
        model = keras.Sequential([keras.layers.GRU(8, reset_after=True), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(x, y, batch_size=32)
        """,
        ),
    )

    fires = (
        """
        step     1111111111
        device   kkkk......
        dispatch ....dddddd
        @device busy=4 ms=4 kernels=1000 idle={"dispatch":6}
        & ops={"m/lstm_1/while/body/_33/m/lstm_1/while/lstm_cell_1/MatMul:MatMul":[1,100],
        & "m/lstm_1/while/body/_33/m/lstm_1/while/lstm_cell_1/split:Split":[1,400],
        & "gradient_tape/m/lstm_1/while/g/m/lstm_1/while/lstm_cell_1/MatMul_grad/MatMul:MatMul":[1,400],
        & "m/dense/MatMul:MatMul":[1,100]}
        """,
        """
        step     1111111111
        device   kkkkkk....
        dispatch ......dddd
        @fact source={"train.py":"m = Sequential([\\n    GRU(64, unroll=True),\\n])\\nm.fit(x)\\n"}
        @event loop name=fit start=0 end=400 data={"site":["train.py",4]}
        @device busy=6 ms=6 kernels=500 idle={"dispatch":4}
        & ops={"m/gru/gru_cell_1/MatMul:MatMul":[2,100],"m/gru/gru_cell_2/MatMul:MatMul":[2,200],
        & "m/gru/gru_cell_2/Tanh:Tanh":[2,200]}
        """,
    )
    quiet = (
        """
        step     1111111111
        device   kkkkkkkkk.
        @device busy=9 ms=9 kernels=50 by={"void RNN_blockPersist_fp_LSTM<float>":[6,2]}
        & ops={"m/lstm_1/CudnnRNNV3:CudnnRNNV3":[8,20],"m/dense/MatMul:MatMul":[1,3]}
        """,
        """
        step     1111111111
        device   kkkkkkkkk.
        @device busy=9 ms=9 kernels=50 ops={"m/lstm_cell/MatMul:MatMul":[1,2],"m/dense/MatMul:MatMul":[8,30]}
        """,
    )


def _short(source: Source) -> bool:
    """Whether all sequences of the file are visibly short: written out, they are what ``unroll`` is for."""
    shapes = [node_lookup.argument_value(call, "shape", 0) for call in call_index.index_of(source).called("Input")]
    turns = [
        literal_sizes.literal_int(source, s.elts[0]) for s in shapes if isinstance(s, ast.Tuple) and len(s.elts) == 2
    ]
    return bool(turns) and all(n is not None and n <= SHORT for n in turns)


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
