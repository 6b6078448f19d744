"""Finds the cause host/eager-step in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.host.eager_step import SWITCHES, compiled_steps, fix, ops_outside_graph
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules import spots
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Switches that make steps eager, hand-written steps outside a graph, and eager ops around a compiled step."""
    compile_spots = list(_compile_spots(source))
    yield from compile_spots
    yield from _switch_spots(source)
    yield from _step_spots(source, is_eager_asked=bool(compile_spots))
    for call in ops_outside_graph.augmenting_calls(source):
        says = "each batch is augmented op by op from Python, before the compiled step"
        put = "augment in a map of the data set, or inside the step's tf.function"
        yield spots.node_spot(call, says, Prescription("advice", Effect.EQUIVALENT, put))
    for over in ops_outside_graph.weight_loops(source):
        says = "after each compiled step this goes through all weights op by op, from Python"
        put = "do it at the end of the step's tf.function, or in one of its own (numbers that change as tensors)"
        yield spots.node_spot(over, says, Prescription("advice", Effect.EQUIVALENT, put))


def _switch_spots(source: Source) -> Iterable[Spot]:
    """``run_functions_eagerly(True)``."""
    for call in call_index.index_of(source).calls_of(*SWITCHES):
        is_on = fix.is_true(source, node_lookup.argument_value(call, "run_eagerly", 0))
        if is_on and not fix.is_under_condition(source, call):
            changed = tuple(fix.without_eager_switch(source))
            says = "this makes every tf.function run op by op"
            cure = Prescription("edit", Effect.EQUIVALENT, fix.REMOVE_SWITCH, edits=changed)
            yield spots.node_spot(call, says, cure)


def _compile_spots(source: Source) -> Iterable[Spot]:
    """``run_eagerly=True`` that reaches a ``compile()``."""
    for call in call_index.index_of(source).calls_of("compile"):
        given = node_lookup.argument_value(call, "run_eagerly")
        if given is not None and fix.is_true(source, given):
            changed = tuple(fix.without_eager_compile(source, call.lineno))
            cure = Prescription("edit", Effect.EQUIVALENT, fix.REMOVE_RUN_EAGERLY, edits=changed)
            says = "run_eagerly=True runs every step op by op"
            yield spots.node_spot(given, says, cure)
    for given in fix.true_option_literals(source):
        changed = tuple(fix.without_eager_option(source, given))
        cure = Prescription("edit", Effect.EQUIVALENT, "write False here, or leave it out", edits=changed)
        says = "compile() gets run_eagerly=True from here, which runs every step op by op"
        yield spots.node_spot(given, says, cure)


def _step_spots(source: Source, *, is_eager_asked: bool) -> Iterable[Spot]:
    """Steps outside a graph: each ``train_step`` that a loop calls, else each gradient taken in a loop."""
    train_steps = tuple(fix.uncompiled_train_steps(source))
    for method, tape in train_steps:
        wrap = f"put @tf.function on it, or wrap it once before the loop: step = tf.function({ast.unparse(method)})"
        says = "this train_step is called outside fit() and runs op by op: only fit() makes a graph of it"
        cure = Prescription(
            "edit", Effect.EQUIVALENT, wrap, edits=tuple(compiled_steps.compiled_step(source, tape.lineno))
        )
        yield spots.node_spot(method, says, cure)
    if train_steps or is_eager_asked:
        return
    for gradient in fix.eager_tapes(source):
        changed = tuple(compiled_steps.compiled_step(source, gradient.lineno))
        cure = Prescription("edit", Effect.EQUIVALENT, fix.DECORATE_STEP, edits=changed)
        says = "each step runs op by op from Python: the gradient is taken outside any tf.function"
        yield Spot(*fix.step_name_range(source, gradient), says, cure)
