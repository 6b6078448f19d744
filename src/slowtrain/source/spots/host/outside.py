"""Small ops over all weights that a loop starts from Python after each compiled step: averages of them, clipping."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import Source, trees
from slowtrain.source.reading import finding
from slowtrain.source.reading.abstract import machine, training
from slowtrain.source.reading.abstract.events import Event, Loop
from slowtrain.source.reading.abstract.values import NOTHING
from slowtrain.source.spots.transfer.readbacks import VARIABLES

WORDS = ("assign", "assign_add", "assign_sub")
OFTEN = 2  # turns in one of which it happens: in fewer, what a step pays for it is no large part of one
PASSING = frozenset({"zip", "enumerate", "list", "tuple", "reversed", "range", "len", "zip_longest"})


def over_weights(source: Source) -> Iterator[ast.expr]:
    """``for t, s in zip(teacher.weights, student.weights): t.assign(...)`` in each turn of a loop of compiled steps.

    One variable after the other is read, computed with and assigned: some four ops, each started from Python. What
    does no more than to copy is meant as well. A loop whose own gradient is taken eagerly has more to cure than this.
    """
    if source.words.isdisjoint(WORDS) or not any(name in source.words for name in VARIABLES):
        return
    every = machine.events(source)
    seen: set[ast.AST] = set()
    for event in every:
        if event.name.removeprefix(".") not in WORDS or event.graph or event.producer:
            continue
        loop = training.turn(source, event)
        inner = event.loops[event.loops.index(loop) + 1 :] if loop is not None else ()
        around = training.around(source, event)
        if loop is None or around is None or around[1] > OFTEN or _copied_in(event):
            continue
        over = next((one for one in inner if _weights(source, one)), None)
        if over is None or over.node in seen or any(one.number in event.rare for one in inner):
            continue
        if any(e.name == "tensorflow.GradientTape" and loop in e.loops and not e.graph for e in every):
            continue
        seen.add(over.node)
        yield over.node.iter  # type: ignore[attr-defined]


def _copied_in(event: Event) -> bool:
    """Whether what is assigned is an array or one number: a copy into the model, and no op."""
    given = event.given.get("value", 0)
    return given.kind == "array" or given.known is not NOTHING


def _weights(source: Source, loop: Loop) -> bool:
    """Whether a loop goes through the variables of a model, also by a name or by their numbers."""
    over = loop.node.iter if isinstance(loop.node, (ast.For, ast.comprehension)) else None
    return over is not None and any(_of_model(source, one) for one in _parts(over))


def _parts(over: ast.expr) -> Iterator[ast.expr]:
    """What a loop goes through side by side."""
    if isinstance(over, ast.Call) and finding.called(over) in PASSING:
        for one in over.args:
            yield from _parts(one)
    else:
        yield over


def _of_model(source: Source, over: ast.expr) -> bool:
    """``model.weights``, whatever it is called by now; also several together: ``a.weights + b.weights``."""
    for node in trees.walk(over):
        if isinstance(node, ast.Attribute) and node.attr in VARIABLES:
            return True
    held = machine.value(source, over)
    return held.kind == "method" and held.name in VARIABLES
