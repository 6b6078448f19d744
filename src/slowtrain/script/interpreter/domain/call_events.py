"""Events: what the interpreter records, i.e. calls, the loops around them and their arguments."""

from __future__ import annotations

import ast

from msgspec import Struct

from slowtrain.script.interpreter.domain.abstract_values import CallArgs, Value
from slowtrain.script.text.source_file import Source


class Loop(Struct, frozen=True, eq=False):
    """A running loop or comprehension.

    ``turns``: the number of iterations, if known. ``items``: what it iterates. ``source``: the file that contains it.
    """

    number: int
    node: ast.AST
    turns: int | None
    items: Value
    source: Source | None = None


class Stage(Struct, frozen=True, eq=False):
    """One operation of a data set.

    ``before`` and ``after``: its elements. ``does``: calls that its function makes. ``source``: the file that contains
    it.
    """

    source: Source
    name: str
    given: CallArgs
    before: Value
    after: Value
    does: tuple[Event, ...] = ()


class Event(Struct, eq=False):
    """One call that the script makes.

    ``name``: the full name of a library's function, ``.fit`` for a method of a known object, or the name of a function
    of the script. ``loops``: those around it in all functions on the way, the outermost first. ``rare``: numbers of the
    loops that make the call in only some iterations. ``graph``: it is inside a tf.function, where Python's part runs
    once. ``producer``: the kind of input code that it runs in: "generator", "py_function", "sequence" or "". ``path``:
    the calls of the script's functions on the way, the outermost first. ``source``: the file that contains it;
    ``files``: the files of the calls in ``path``. ``begun``: the loop that begins with this event.
    """

    source: Source
    node: ast.expr
    name: str
    on: Value | None
    given: CallArgs
    loops: tuple[Loop, ...]
    rare: frozenset[int]
    graph: bool
    producer: str
    path: tuple[ast.Call, ...]
    files: tuple[Source, ...]
    result: Value
    begun: Loop | None

    def regular_loops(self, least: int = 3) -> tuple[Loop, ...]:
        """The loops that make the call in every iteration, without those of fewer than ``least`` iterations."""
        return tuple(
            one for one in self.loops if one.number not in self.rare and (one.turns is None or one.turns >= least)
        )
