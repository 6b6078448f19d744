"""Finds the cause host/garbage-collection in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.host.garbage_collection import collect_calls
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.interpreter.engine import step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import spots
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """``gc.collect()`` next to a training step in its loop, or in a hook of each batch."""
    known = tuple(collect_calls.frequent_collect_calls(source))
    for call in known or dict.fromkeys(frequent_collections(source)):
        after = "collect after the loop, or not at all"
        cure = Prescription(
            "edit", Effect.EXACT, after, edits=tuple(moved_statements.move_collect_after_loop(source, call.lineno))
        )
        says = "the collector goes through all objects after each step, which a step hardly needs"
        yield spots.node_spot(call, says, cure)


def frequent_collections(source: Source) -> Iterator[ast.expr]:
    """Find ``gc.collect()`` after each step, or each of a few."""
    for event in file_events(source) if "gc" in source.text else ():
        if event.name == "gc.collect" and step_loops.per_step_loop(source, event) is not None:
            yield event.node
