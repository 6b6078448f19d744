"""Lint rules about recurrent layers and the steps of ``fit``, with settings from any expression."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.fixes.models import keras_models
from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import NOT_KNOWN, Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.text.source_file import Source

RECURRENT_LAYERS = ("keras.layers.LSTM", "keras.layers.GRU")
CELL_LAYERS = {"keras.layers.LSTMCell": "LSTM", "keras.layers.GRUCell": "GRU"}
UNROLLABLE_LAYERS = frozenset({*RECURRENT_LAYERS, "keras.layers.SimpleRNN", "keras.layers.RNN"})
# Building and tracing one unrolled iteration takes 10 to 20 ms, as long as some tens of steps. This many iterations
# take half a second, which is a third or more of a run with so few steps.
MIN_UNROLLED_LENGTH = 32
MAX_RUN_STEPS = 150
SEQUENCE_RANK = 3  # samples, time steps, features
DEFAULT_BATCH_SIZE = 32  # the default of Keras


def unfused_layers(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Find recurrent layers that a GPU runs as a loop of small ops, with the reason."""
    for event in file_events(source):
        if not isinstance(event.node, ast.Call):
            continue
        if event.name in RECURRENT_LAYERS:
            for name, usual in keras_models.FUSED_RNN_DEFAULTS.items():
                known = event.given.keywords[name].known if name in event.given.keywords else NOT_KNOWN
                plain = known in (NOT_KNOWN, usual, None if name == "activation" else usual) and known is not None
                if not plain and name != "unroll" and not (name == "use_cudnn" and known is True):
                    yield event.node, f"with {name}={known!r} a GPU runs this layer as a loop of small ops"
                    break
        elif event.name == "keras.layers.RNN":
            cells = {one.name for a in event.given.args[:1] for one in a.inside(1) if one.kind == "keras"}
            if cells and cells <= set(CELL_LAYERS):
                ready = " and ".join(sorted(CELL_LAYERS[c] for c in cells))
                yield event.node, f"RNN runs its cell as a loop of small ops; the {ready} layer is one op on a GPU"


def unrolled_layers(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Find recurrent layers with ``unroll=True`` over long sequences in a run of few steps."""
    every = file_events(source)
    written = [e for e in every if e.name in UNROLLABLE_LAYERS and e.given.get("unroll").known is True]
    turns, steps = _sequence_length(every) if written else None, _total_fit_steps(every) if written else None
    if turns is None or steps is None or turns < MIN_UNROLLED_LENGTH or steps > MAX_RUN_STEPS:
        return
    for event in written:
        if isinstance(event.node, ast.Call):
            yield event.node, f"{turns} turns are each built and traced by themselves, for a run of {steps} steps"


def _sequence_length(every: tuple[Event, ...]) -> int | None:
    """Return the longest sequence of an input layer, or of the data of ``fit`` if there is no input layer."""
    shapes = [e.given.get("shape", 0) for e in every if e.name in ("keras.Input", "keras.layers.Input")]
    found = [one.items[0].known for one in shapes if one.kind in ("tuple", "list") and len(one.items) > 1]
    if not shapes:
        given = (e.given.get("x", 0).shape for e in every if e.name == ".fit")
        found = [one[1] for one in given if one is not None and len(one) == SEQUENCE_RANK and one[1] is not None]
    return max(found) if found and all(isinstance(n, int) for n in found) else None


def _total_fit_steps(every: tuple[Event, ...]) -> int | None:
    """Return the steps of all calls of ``fit``; None if one of them is in a loop."""
    total = 0
    for event in every:
        if event.name != ".fit":
            continue
        epochs = event.given.get("epochs", 3)
        times = 1 if epochs.kind == "unknown" and "epochs" not in event.given.keywords else epochs.known
        each = fit_epoch_steps(event)
        if event.loops or not isinstance(times, int) or each is None:
            return None
        total += times * each
    return total or None


def fit_epoch_steps(event: Event) -> int | None:
    """Return the steps of an epoch of ``fit``."""
    given = event.given
    if "steps_per_epoch" in given.keywords:
        known = given.keywords["steps_per_epoch"].known
        return known if isinstance(known, int) else None
    data = given.get("x", 0)
    if data.kind == "dataset":
        return operators.known_length(data)
    size, rows = given.get("batch_size", 2), sample_count(data)
    batch = (
        DEFAULT_BATCH_SIZE if size.kind in ("unknown", "none") and "batch_size" not in given.keywords else size.known
    )
    return -(-rows // batch) if rows and isinstance(batch, int) and batch else None


def sample_count(data: Value) -> int | None:
    """Return the rows of an array, or of the first of several arrays."""
    if data.kind in ("tuple", "list", "dict") and data.items and data.shape is None:
        return sample_count(next(iter(data.items.values())))
    return data.shape[0] if data.kind in ("array", "tensor") and data.shape else None
