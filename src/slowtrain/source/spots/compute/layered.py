"""Lint rules about recurrent layers and the steps of ``fit``, with settings from any expression."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import NOT_KNOWN, Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.compute import models

RECURRENT = ("keras.layers.LSTM", "keras.layers.GRU")
CELLS = {"keras.layers.LSTMCell": "LSTM", "keras.layers.GRUCell": "GRU"}
UNROLLING = frozenset({*RECURRENT, "keras.layers.SimpleRNN", "keras.layers.RNN"})
# Building and tracing one unrolled iteration takes 10 to 20 ms, as long as some tens of steps. This many iterations
# take half a second, which is a third or more of a run with so few steps.
LEAST_TURNS = 32
MOST_STEPS = 150
SEQUENCES = 3  # samples, time steps, features
USUAL = 32  # the default of Keras


def unfused(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Find recurrent layers that a GPU runs as a loop of small ops, with the reason."""
    for event in file_events(source):
        if not isinstance(event.node, ast.Call):
            continue
        if event.name in RECURRENT:
            for name, usual in models.FUSED_RNN.items():
                known = event.given.keywords[name].known if name in event.given.keywords else NOT_KNOWN
                plain = known in (NOT_KNOWN, usual, None if name == "activation" else usual) and known is not None
                if not plain and name != "unroll" and not (name == "use_cudnn" and known is True):
                    yield event.node, f"with {name}={known!r} a GPU runs this layer as a loop of small ops"
                    break
        elif event.name == "keras.layers.RNN":
            cells = {one.name for a in event.given.args[:1] for one in a.inside(1) if one.kind == "keras"}
            if cells and cells <= set(CELLS):
                ready = " and ".join(sorted(CELLS[c] for c in cells))
                yield event.node, f"RNN runs its cell as a loop of small ops; the {ready} layer is one op on a GPU"


def unrolled(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Find recurrent layers with ``unroll=True`` over long sequences in a run of few steps."""
    every = file_events(source)
    written = [e for e in every if e.name in UNROLLING and e.given.get("unroll").known is True]
    turns, steps = _turns(every) if written else None, _steps(every) if written else None
    if turns is None or steps is None or turns < LEAST_TURNS or steps > MOST_STEPS:
        return
    for event in written:
        if isinstance(event.node, ast.Call):
            yield event.node, f"{turns} turns are each built and traced by themselves, for a run of {steps} steps"


def _turns(every: tuple[Event, ...]) -> int | None:
    """Return the longest sequence of an input layer, or of the data of ``fit`` if there is no input layer."""
    shapes = [e.given.get("shape", 0) for e in every if e.name in ("keras.Input", "keras.layers.Input")]
    found = [one.items[0].known for one in shapes if one.kind in ("tuple", "list") and len(one.items) > 1]
    if not shapes:
        given = (e.given.get("x", 0).shape for e in every if e.name == ".fit")
        found = [one[1] for one in given if one is not None and len(one) == SEQUENCES and one[1] is not None]
    return max(found) if found and all(isinstance(n, int) for n in found) else None


def _steps(every: tuple[Event, ...]) -> int | None:
    """Return the steps of all calls of ``fit``; None if one of them is in a loop."""
    total = 0
    for event in every:
        if event.name != ".fit":
            continue
        epochs = event.given.get("epochs", 3)
        times = 1 if epochs.kind == "unknown" and "epochs" not in event.given.keywords else epochs.known
        each = of_epoch(event)
        if event.loops or not isinstance(times, int) or each is None:
            return None
        total += times * each
    return total or None


def of_epoch(event: Event) -> int | None:
    """Return the steps of an epoch of ``fit``."""
    given = event.given
    if "steps_per_epoch" in given.keywords:
        known = given.keywords["steps_per_epoch"].known
        return known if isinstance(known, int) else None
    data = given.get("x", 0)
    if data.kind == "dataset":
        return operators.known_length(data)
    size, rows = given.get("batch_size", 2), samples(data)
    batch = USUAL if size.kind in ("unknown", "none") and "batch_size" not in given.keywords else size.known
    return -(-rows // batch) if rows and isinstance(batch, int) and batch else None


def samples(data: Value) -> int | None:
    """Return the rows of an array, or of the first of several arrays."""
    if data.kind in ("tuple", "list", "dict") and data.items and data.shape is None:
        return samples(next(iter(data.items.values())))
    return data.shape[0] if data.kind in ("array", "tensor") and data.shape else None
