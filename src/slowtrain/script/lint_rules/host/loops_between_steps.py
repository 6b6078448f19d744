"""Lint rule about long Python loops between the steps of a training loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, step_loops
from slowtrain.script.lint_rules.host import element_loops
from slowtrain.script.navigation import step_input
from slowtrain.script.text.source_file import Source

MIN_TURNS_PER_STEP = 1000  # in each step. An iteration takes 0.1 to 1 µs or more, a short step takes 1 ms.


def loops_between_steps(source: Source) -> Iterator[tuple[ast.For, int]]:
    """Find the outermost such loops, with their iterations per step, including inner loops.

    Loops that make the input of the step belong to the cause input/python-input.
    """
    most: dict[ast.For, int] = {}
    for event in interpreter.file_events(source):
        inside = _loops_in_iteration(source, event)
        outer = inside[0].node if inside else None
        if not isinstance(outer, ast.For) or not element_loops.only_stores_results(source, outer):
            continue
        turns = prod(one.turns or operators.minimum_length(one.items) or 1 for one in inside)
        most[outer] = max(most.get(outer, 0), turns)
    long = {loop: turns for loop, turns in most.items() if turns >= MIN_TURNS_PER_STEP}
    making = _input_lines(source) if long else ()
    yield from ((loop, turns) for loop, turns in long.items() if loop.lineno not in making)


def _loops_in_iteration(source: Source, event: Event) -> list[Loop]:
    """Return the loops inside one iteration of the training loop, the outermost first. The last one begins here."""
    turn = step_loops.step_loop_of(source, event) if event.begun is not None else None
    if turn is None or event.begun is turn:
        return []
    inside = list(event.loops[event.loops.index(turn) + 1 :])
    return [] if any(one.number in event.rare for one in inside[:1]) else inside


def _input_lines(source: Source) -> set[int]:
    """Return the lines that make the input of a step."""
    found: set[int] = set()
    for step in step_loops.step_events(source):
        files = (step.source, *step.files)
        for call in (n for n, file in zip((step.node, *step.path), files, strict=True) if file is source):
            fed = step_input.input_lines(source, call.lineno)
            found |= set(fed.lines) if fed is not None else set()
    return found
