"""Finds the cause startup/slow-startup in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.startup.slow_startup import fix, unrolled_layers
from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import graph_code, keras_names, sample_counts, spots
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

UNROLLABLE_LAYERS = frozenset({*keras_names.FUSED_LAYERS, "keras.layers.SimpleRNN", "keras.layers.RNN"})
# Building and tracing one unrolled iteration takes 10 to 20 ms, as long as some tens of steps. This many iterations
# take half a second, which is a third or more of a run with so few steps.
MIN_UNROLLED_LENGTH = 32
MAX_RUN_STEPS = 150
SEQUENCE_RANK = 3  # samples, time steps, features


def find_spots(source: Source) -> Iterable[Spot]:
    """Layers and loops that are unrolled in the graph, in a run of a few steps."""
    known = list(unrolled_layers.short_run_unrolls(source))
    for call, says in long_unrolled_layers(source) if not known and "unroll" in source.text else ():
        rolled = "leave out unroll=True: the layer is a loop in the graph, traced once"
        cure = Prescription("edit", Effect.EQUIVALENT, rolled)
        yield Spot(edits.node_start(call), edits.node_end(call.func), says, cure)
    for given, says in known:
        changed: tuple[Edit, ...] = ()
        if isinstance(given, ast.Constant):
            changed = (edits.replace_node(source, given, "False"),)
        rolled = "leave out unroll=True: the layer is a loop in the graph, traced once"
        cure = Prescription("edit", Effect.EQUIVALENT, rolled, edits=changed)
        yield spots.node_spot(given, says, cure)
    for loop, turns in graph_code.unrolled_graph_loops(source, chained=True):
        says = f"the graph gets the ops of each of {turns} iterations of this loop, which are all traced and compiled"
        rolled = "let the graph loop itself: for step in tf.range(n), or tf.while_loop and tf.scan"
        changed = tuple(fix.loop_in_graph(source, loop.lineno))
        cure = Prescription("edit", Effect.EQUIVALENT, rolled, edits=changed)
        yield spots.node_spot(loop, says, cure)


def long_unrolled_layers(source: Source) -> Iterator[tuple[ast.Call, str]]:
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
        each = sample_counts.fit_epoch_steps(event)
        if event.loops or not isinstance(times, int) or each is None:
            return None
        total += times * each
    return total or None
