"""Where the cause compute/unfused-rnn shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.models import keras_models
from slowtrain.script.interpreter.domain.abstract_values import NOT_KNOWN
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import keras_names, spots
from slowtrain.script.navigation import call_index, name_bindings, node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

MAX_UNROLLED_STEPS = 64  # time steps; unrolled, they are a graph of some thousand ops
CELL_LAYERS = {"keras.layers.LSTMCell": "LSTM", "keras.layers.GRUCell": "GRU"}


def find_spots(source: Source) -> Iterable[Spot]:
    """Layers with a setting that cuDNN does not support, in a file that trains and does not hide the GPU."""
    if not call_index.takes_training_steps(source) or _hides_gpus(source):
        return
    seen: set[ast.Call] = set()
    reached = {event.node for event in file_events(source)}
    for call in call_index.index_of(source).calls_of("LSTM", "GRU"):
        if not name_bindings.qualified_name(source, call.func).startswith("keras.layers."):
            continue
        setting = keras_models.unfused_setting(call)
        if setting is None and call not in reached:
            setting = _named_dropout(source, call)
        if setting is not None:
            seen.add(call)
        if setting is not None and not (setting.arg == "unroll" and _has_short_sequences(source)):
            changed, same = keras_models.use_fused_rnn(source, edits.node_end(call.func)[0])
            text = f"{setting.arg}={ast.unparse(setting.value)}"
            effect = Effect.EQUIVALENT if same else Effect.CHANGES_TRAINING
            cure = Prescription("edit", effect, f"remove {text}, which cuDNN does not support", edits=changed)
            says = f"with {text} a GPU runs this layer as a loop of small ops"
            yield spots.node_spot(setting.value, says, cure)
    for call, says in dict.fromkeys(unfused_layers(source)):
        if call not in seen:
            usual = "remove what cuDNN does not support, and use the layer instead of its cell"
            cure = Prescription("edit", Effect.CHANGES_TRAINING, usual)
            yield Spot(edits.node_start(call), edits.node_end(call.func), says, cure)


def _hides_gpus(source: Source) -> bool:
    """Whether the file sets ``os.environ["CUDA_VISIBLE_DEVICES"]`` to no GPU."""
    for one in call_index.nodes_of_kind(source, ast.Assign) if "CUDA_VISIBLE_DEVICES" in source.text else ():
        match one:
            case ast.Assign(
                targets=[ast.Subscript(slice=ast.Constant("CUDA_VISIBLE_DEVICES"))], value=ast.Constant(value)
            ):
                return value in ("", "-1")
    return False


def _named_dropout(source: Source, call: ast.Call) -> ast.keyword | None:
    """``recurrent_dropout`` of a model that nobody makes, by the name of a constant."""
    given = next((one for one in call.keywords if one.arg == "recurrent_dropout"), None)
    return given if given is not None and queries.constant_at(source, given.value) else None


def _has_short_sequences(source: Source) -> bool:
    """Whether all sequences of the file are known to be short. ``unroll`` is meant for such sequences."""
    shapes = [node_lookup.argument_value(call, "shape", 0) for call in call_index.index_of(source).calls_of("Input")]
    lengths = [queries.int_at(source, s.elts[0]) for s in shapes if isinstance(s, ast.Tuple) and len(s.elts) == 2]
    return bool(lengths) and all(n is not None and n <= MAX_UNROLLED_STEPS for n in lengths)


def unfused_layers(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Find recurrent layers that a GPU runs as a loop of small ops, with the reason."""
    for event in file_events(source):
        if not isinstance(event.node, ast.Call):
            continue
        if event.name in keras_names.FUSED_LAYERS:
            for name, usual in keras_models.FUSED_RNN_DEFAULTS.items():
                known = event.given.keywords[name].known if name in event.given.keywords else NOT_KNOWN
                plain = known in (NOT_KNOWN, usual, None if name == "activation" else usual) and known is not None
                if not plain and name != "unroll" and not (name == "use_cudnn" and known is True):
                    yield event.node, f"with {name}={known!r} a GPU runs this layer as a loop of small ops"
                    break
        elif event.name == "keras.layers.RNN":
            cells = {one.name for a in event.given.args[:1] for one in a.nested_values(1) if one.kind == "keras"}
            if cells and cells <= set(CELL_LAYERS):
                ready = " and ".join(sorted(CELL_LAYERS[c] for c in cells))
                yield event.node, f"RNN runs its cell as a loop of small ops; the {ready} layer is one op on a GPU"
