"""Finds the cause startup/slow-startup in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.startup.slow_startup import fix, unrolled_layers
from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.script.lint_rules.compute import recurrent_layers
from slowtrain.script.lint_rules.steps import reached_code
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Layers and loops that are unrolled in the graph, in a run of a few steps."""
    known = list(unrolled_layers.short_run_unrolls(source))
    for call, says in recurrent_layers.unrolled_layers(source) if not known and "unroll" in source.text else ():
        rolled = "leave out unroll=True: the layer is a loop in the graph, traced once"
        cure = Prescription("edit", Effect.EQUIVALENT, rolled)
        yield Spot(edits.node_start(call), edits.node_end(call.func), says, cure)
    for given, says in known:
        changed: tuple[Edit, ...] = ()
        if isinstance(given, ast.Constant):
            changed = (edits.replace_node(source, given, "False"),)
        rolled = "leave out unroll=True: the layer is a loop in the graph, traced once"
        cure = Prescription("edit", Effect.EQUIVALENT, rolled, edits=changed)
        yield Spot(edits.node_start(given), edits.node_end(given), says, cure)
    for loop, turns in reached_code.unrolled_graph_loops(source, chained=True):
        says = f"the graph gets the ops of each of {turns} iterations of this loop, which are all traced and compiled"
        rolled = "let the graph loop itself: for step in tf.range(n), or tf.while_loop and tf.scan"
        changed = tuple(fix.loop_in_graph(source, loop.lineno))
        cure = Prescription("edit", Effect.EQUIVALENT, rolled, edits=changed)
        yield Spot(edits.node_start(loop), edits.node_end(loop.iter), says, cure)
