"""Training steps that a script takes itself, and the loops that take one in each of their turns."""

from __future__ import annotations

import ast

from slowtrain.source import Source, kept
from slowtrain.source.reading.abstract.events import Event, Loop
from slowtrain.source.reading.abstract.machine import events

FEW = 5  # turns in which nothing is done often
# Of variables, without a tape: a step whose gradients are written out.
SCATTERED = frozenset({".scatter_sub", ".scatter_add", ".scatter_nd_sub", ".scatter_nd_add"})
WORDS = ("GradientTape", "train_on_batch", *sorted(name[1:] for name in SCATTERED))


@kept(4)
def of(source: Source) -> tuple[Event, ...]:
    """Calls of Python's that take a step: of a graph with a tape in it, of ``train_on_batch``, a tape by itself."""
    if not any(word in source.text for word in WORDS):
        return ()
    every = [e for e in events(source) if not e.producer]
    learning = [e for e in every if e.name == "tensorflow.GradientTape" or e.name in SCATTERED]
    called = [e for e in every if not e.graph and e.on is not None and e.on.kind == "graph"]
    depths = {e.node: len(e.loops) for e in called}
    # A graph with a loop of steps in it is an epoch.
    leading = {call for e in learning if e.graph for call in e.path if depths.get(call) == len(e.loops)}
    graphs = {id(e.on) for e in called if e.node in leading}
    eager = {id(e) for e in learning if not e.graph}
    return tuple(
        e for e in every
        if not e.graph and (e.name == ".train_on_batch" or id(e.on) in graphs or id(e) in eager)
    )  # fmt: skip


@kept(4)
def loops(source: Source) -> frozenset[ast.AST]:
    """The innermost loops of many turns in each of which a step is taken."""
    return frozenset(one.node for e in of(source) if (one := innermost(e)) is not None)


def innermost(event: Event) -> Loop | None:
    """The innermost loop around a call that is one of the script's text, and of more than a few turns."""
    several = [one for one in event.loops if isinstance(one.node, (ast.For, ast.While, ast.comprehension))]
    long = [one for one in several if one.turns is None or one.turns >= FEW]
    return long[-1] if long and long[-1] is several[-1] and long[-1].number not in event.rare else None
