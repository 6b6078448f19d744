"""The interpreter's context: names, the loops, calls and graphs around the current place, and its limits."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import NO_LOOPS, UNKNOWN, CallArgs, Value
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.text.source_file import Source


@dataclass(eq=False)
class Scope:
    """The names of one running function, or of the module."""

    above: Scope | None = None
    names: dict[str, Value] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)  # loops around the last plain assignment
    elsewhere: dict[str, Scope] = field(default_factory=dict)  # scopes of names declared global or nonlocal
    returned: list[Value] = field(default_factory=list)
    yielded: list[Value] = field(default_factory=list)
    kind: Value | None = None  # the class whose method runs
    source: Source | None = None  # the file, for a module's scope

    def find(self, name: str) -> Value | None:
        """The value of a name in this scope or an enclosing one; None if it is not bound."""
        at: Scope | None = self.elsewhere.get(name, self)
        while at is not None:
            found = at.names.get(name)
            if found is not None:
                return found
            at = at.above
        return None

    def bind(self, name: str, value: Value, depth: int) -> None:
        """Binds a name; ``depth``: the number of loops around the assignment."""
        at = self.elsewhere.get(name, self)
        at.names[name] = value
        at.depths[name] = depth

    def top(self) -> Scope:
        """The module's scope."""
        return self if self.above is None else self.above.top()


MAX_NODES = 60_000  # statements and expressions; a script of 200 lines takes a few thousand
MAX_NODES_ELSEWHERE = 30_000  # the same for other files of the project
MAX_BUCKETS = 8  # shapes


class BudgetSpent(Exception):
    """The script is too large to interpret further."""


class RunContext:
    """The current place of the interpreter.

    ``loops``, ``path`` (calls) and ``running`` (functions) are those around it. ``rare``: the loops that reach it in
    only some iterations. ``conditions``: the number of conditions around. ``graph``: the number of tf.functions around.
    ``producer``: the kind of input code.
    ``silent``: the number of dry iterations around, which record nothing; ``advance``: the loops around the outermost
    of them. ``left``: the number of nodes that may still be visited. ``main``: the examined file. ``source``: the file
    that contains the running code.
    """

    every: tuple[Event, ...] = ()  # all events, after the run
    own: tuple[Event, ...] = ()  # those of the file itself

    def __init__(self, source: Source, recast: frozenset[ast.expr] = frozenset()) -> None:
        self.main = self.source = source
        self.recast = recast  # values of the examined file that an edit makes float32
        self.events: list[Event] = []
        self.loops: tuple[Loop, ...] = ()
        self.rare = NO_LOOPS
        self.conditions = 0
        self.path: tuple[ast.Call, ...] = ()
        self.files: tuple[Source, ...] = ()  # of the calls in ``path``
        self.running: list[ast.AST] = []
        self.graph = 0
        self.producer = ""
        self.silent = 0
        self.advance = 0
        self.left = MAX_NODES
        self.left_elsewhere = MAX_NODES_ELSEWHERE
        self._numbers = 0
        self._stored: list[tuple[dict[Any, Value], Any, Value]] = []  # old values of stores in the dry iteration
        self._scopes: list[Scope] = []
        self.turned: dict[int, int | None] = {}  # the minimum number of iterations of each loop, by its number
        self.modules: dict[str, Scope] = {}  # scopes of the project's files, by path
        self.origins: dict[tuple[Source, str], tuple[Scope, str] | None] = {}  # origins of imported names as written
        self.library_values: dict[ast.expr, Value] = {}  # values of attributes of libraries
        self.values: dict[ast.expr, Value] = {}
        self.called: dict[ast.Call, set[ast.AST]] = {}  # the functions that the calls of the examined file run
        self.ran: set[ast.AST] = set()
        self.producing: set[ast.AST] = set()  # functions that ran to make input
        self.made: dict[ast.AST, list[Value]] = {}  # the objects that the run makes, by their class
        self.unmade: dict[Value, Value] = {}  # one object of each class that the file never instantiates

    # What the engine does.

    def block(self, body: Sequence[ast.stmt], scope: Scope) -> bool:
        """Executes statements; True if ``return``, ``raise``, ``break`` or ``continue`` ends the block."""
        raise NotImplementedError

    def value(self, node: ast.expr | None, scope: Scope) -> Value:
        """Evaluates an expression."""
        raise NotImplementedError

    def store(self, target: ast.expr, value: Value, scope: Scope) -> None:
        """Assigns a value to a target."""
        raise NotImplementedError

    def loop(self, node: ast.AST, turns: int | None, items: Value, turn: Callable[[Loop], None], scope: Scope) -> None:
        """Executes one iteration of a loop, which stands for all of them."""
        raise NotImplementedError

    def call(self, callee: Value, call: CallArgs) -> Value:
        """The result of calling ``callee``; records the call."""
        raise NotImplementedError

    def each(self, items: Value, loop: Loop, node: ast.AST) -> Value:
        """The value of a loop's target, which changes in each iteration."""
        raise NotImplementedError

    def run_function(self, function: Value, call: CallArgs) -> Value:
        """The return value of a function or lambda of the script; for a generator function, the generator."""
        raise NotImplementedError

    def yielded_value(self, generator: Value) -> Value:
        """The join of all values that a generator yields."""
        raise NotImplementedError

    # The current place.

    @contextmanager
    def without_events(self) -> Iterator[None]:
        """Interprets only for the result, without events or stores."""
        self.silent += 1
        try:
            yield
        finally:
            self.silent -= 1
            if not self.silent:
                self._stored = []

    def register_scope(self, scope: Scope) -> Scope:
        self._scopes.append(scope)
        return scope

    def end(self) -> None:
        """Breaks reference cycles: a function refers to the scope that holds it."""
        for one in self._scopes:
            one.names.clear()
            vars(one).clear()

    def depth(self) -> tuple[int, ...]:
        return tuple([loop.number for loop in self.loops]) if self.loops else ()

    def has_few_turns(self, number: int) -> bool:
        """Whether a loop took so few iterations that one graph per iteration is intended, as for bucketed shapes."""
        return 0 < (self.turned.get(number) or 0) <= MAX_BUCKETS

    def born(self) -> tuple[int, ...]:
        """The loops around an object made now. An object of a dry iteration counts as made before the loop."""
        return self.depth()[: self.advance] if self.silent else self.depth()

    def turns_since(self, born: tuple[int, ...]) -> int | None:
        """How often this place is reached after an object's creation; None if unknown."""
        inside = self.loops[len(born) :]
        sure = not any(one.number in self.rare for one in inside)
        return prod(one.turns or 0 for one in inside) or None if sure else None

    @contextmanager
    def enter_loop(self, node: ast.AST, turns: int | None, items: Value = UNKNOWN) -> Iterator[Loop]:
        self._numbers += 1
        loop = Loop(self._numbers, node, turns, items, self.source)
        self.turned[loop.number] = turns or operators.minimum_length(items)
        before, self.loops = self.loops, (*self.loops, loop)
        try:
            yield loop
        finally:
            self.loops = before

    @contextmanager
    def outside_loops(self) -> Iterator[None]:
        """Runs code that only the first call executes, outside of all loops."""
        before, self.loops = self.loops, ()
        try:
            yield
        finally:
            self.loops = before

    @contextmanager
    def in_producer(self, what: str) -> Iterator[None]:
        """Runs Python code that makes input, outside of any graph."""
        before = (self.producer, self.graph)
        self.producer, self.graph = what, 0
        try:
            yield
        finally:
            self.producer, self.graph = before

    @contextmanager
    def tracing(self) -> Iterator[None]:
        self.graph += 1
        try:
            yield
        finally:
            self.graph -= 1

    def note(self, name: str, on: Value | None, call: CallArgs, result: Value, place: int | None = None) -> None:
        """Records an event; ``place``: its index, before the events that it led to."""
        if self.silent or not isinstance(call.node, ast.expr):
            return
        begun = self.loops[-1] if name == "loop" and on is None and self.loops else None
        event = Event(self.source, call.node, name, on, call, self.loops, self.rare, bool(self.graph),
                      self.producer, self.path, self.files, result, begun)  # fmt: skip
        self.events.insert(len(self.events) if place is None else place, event)

    def spend_budget(self) -> None:
        if self.source is self.main:
            self.left -= 1
            if self.left < 0:
                raise BudgetSpent
        else:
            self.left_elsewhere -= 1
            if self.left_elsewhere < 0:
                raise BudgetSpent

    @contextmanager
    def in_file_of(self, scope: Scope) -> Iterator[None]:
        """Runs code of the file that a scope belongs to."""
        before, self.source = self.source, scope.top().source or self.source
        try:
            yield
        finally:
            self.source = before

    @contextmanager
    def first_import(self) -> Iterator[None]:
        """Runs a module at its first import, independent of the loops around the import."""
        before = self.loops, self.rare, self.conditions, self.graph, self.producer
        self.loops, self.rare, self.conditions, self.graph, self.producer = (), NO_LOOPS, 0, 0, ""
        try:
            yield
        finally:
            self.loops, self.rare, self.conditions, self.graph, self.producer = before

    @contextmanager
    def in_some_turns(self, test: Value | None) -> Iterator[None]:
        """Runs code that is reached only in the iterations in which a condition holds.

        These are iterations of the loops that change the condition, or of all loops if none does. None: the condition
        holds in most iterations.
        """
        before = self.rare
        self.conditions += 1
        if test is not None:
            inside = frozenset(self.depth())
            self.rare |= (test.varies & inside) or inside
        try:
            yield
        finally:
            self.conditions -= 1
            self.rare = before
