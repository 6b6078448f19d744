"""Where the cause host/eager-step shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.host.eager_step import eager, fix, outside
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots import reached


def find_spots(source: Source) -> Iterable[Spot]:
    """Switches that make everything eager; a step of one's own in a loop that is no graph."""
    asked = False
    for call in call_index.index_of(source).called("compile"):
        given = node_lookup.argument_value(call, "run_eagerly")
        if eager.on(source, given) and given is not None:
            asked = True
            made = tuple(fix.without_eager_compile(source, call.lineno))
            cure = Prescription("edit", Effect.EQUIVALENT, "remove run_eagerly=True from compile()", edits=made)
            yield Spot(
                edits.node_start(given), edits.node_end(given), "run_eagerly=True runs every step op by op", cure
            )
    for given in eager.handed(source):
        asked = True
        made = tuple(fix.without_eager_option(source, given))
        cure = Prescription("edit", Effect.EQUIVALENT, "say False here, or nothing", edits=made)
        says = "compile() gets run_eagerly=True from here, which runs every step op by op"
        yield Spot(edits.node_start(given), edits.node_end(given), says, cure)
    for call in call_index.index_of(source).called(*fix.SWITCHES):
        if eager.on(source, node_lookup.argument_value(call, "run_eagerly", 0)) and not eager.asked_for(source, call):
            made = tuple(fix.without_eager_switch(source))
            says = "this makes every tf.function run op by op"
            cure = Prescription("edit", Effect.EQUIVALENT, "remove tf.config.run_functions_eagerly(True)", edits=made)
            yield Spot(edits.node_start(call), edits.node_end(call), says, cure)
    called = tuple(eager.by_hand(source))
    for taped in () if called or asked else reached.eager(source):
        made = tuple(fix.compiled_step(source, taped.lineno))
        put = "put @tf.function on the function that takes the gradient and applies it"
        cure = Prescription("edit", Effect.EQUIVALENT, put, edits=made)
        says = "each step runs op by op from Python: the gradient is taken outside any tf.function"
        yield Spot(*eager.named(source, taped), says, cure)
    for named, tape in called:
        wrap = f"put @tf.function on it, or wrap it once before the loop: step = tf.function({ast.unparse(named)})"
        says = "train_step called by hand runs op by op: only fit() makes a graph of it"
        made = tuple(fix.compiled_step(source, tape.lineno))
        cure = Prescription("edit", Effect.EQUIVALENT, wrap, edits=made)
        yield Spot(edits.node_start(named), edits.node_end(named), says, cure)
    for call in outside.augmented(source):
        says = "each batch is augmented op by op from Python, in front of the compiled step"
        put = "augment in a map of the data set, or inside the step's tf.function"
        yield Spot(edits.node_start(call), edits.node_end(call), says, Prescription("advice", Effect.EQUIVALENT, put))
    for over in outside.over_weights(source):
        says = "after each compiled step this goes through all weights op by op, from Python"
        put = "do it at the end of the step's tf.function, or in one of its own (numbers that change as tensors)"
        yield Spot(edits.node_start(over), edits.node_end(over), says, Prescription("advice", Effect.EQUIVALENT, put))
