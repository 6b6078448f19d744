"""What is written down of a script that is gone through: calls, the loops around them, and with what."""

from __future__ import annotations

import ast

from slowtrain.source import Source
from slowtrain.source.reading.abstract.values import Given, Value
from slowtrain.values import dataclass


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop while it runs, or a comprehension. ``turns``: how many it takes, where the text says so.

    ``items``: what it goes through. ``source``: the file in which it is written.
    """

    number: int
    node: ast.AST
    turns: int | None
    items: Value
    source: Source | None = None


@dataclass(frozen=True, eq=False)
class Stage:
    """One operation of a data set. ``before`` and ``after``: its elements; ``does``: calls that its function makes.

    ``source``: the file in which it is written.
    """

    source: Source
    name: str
    given: Given
    before: Value
    after: Value
    does: tuple[Event, ...] = ()


@dataclass(frozen=True, eq=False)
class Event:
    """One call that the script makes.

    ``name``: the full name of a library's function, ``.fit`` for a method of an object that is known, or the name of
    one of the script's own functions. ``loops``: those around it, the outermost first, of all functions on the way.
    ``rare``: the numbers of those in some of whose turns only it is made. ``graph``: inside a tf.function, where
    Python's part runs once. ``producer``: what makes the input, as which it runs: "generator", "py_function",
    "sequence" or "". ``path``: the calls of the script's functions on the way, the outermost first.
    ``source``: the file in which it is written; ``files``: those of the calls on the way.
    """

    source: Source
    node: ast.expr
    name: str
    on: Value | None
    given: Given
    loops: tuple[Loop, ...]
    rare: frozenset[int]
    graph: bool
    producer: str
    path: tuple[ast.Call, ...]
    files: tuple[Source, ...]
    result: Value

    @property
    def begun(self) -> Loop | None:
        """The loop that begins here."""
        return self.loops[-1] if self.name == "loop" and self.on is None and self.loops else None

    def often(self, least: int = 3) -> tuple[Loop, ...]:
        """The loops in every turn of which it is made, those of fewer than ``least`` turns left out."""
        return tuple(
            one for one in self.loops if one.number not in self.rare and (one.turns is None or one.turns >= least)
        )
