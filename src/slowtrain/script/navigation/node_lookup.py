"""A file's statements in the order of the text, and lookup from one node to another."""

from __future__ import annotations

import ast
import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent

_STATEMENT_NODES = (ast.stmt, ast.excepthandler, ast.match_case)


class Statements(Struct, frozen=True, eq=False, dict=True):
    """The statements of a file; handlers and cases count. Nothing is parsed before it is asked for."""

    source: Source
    _seen: dict[ast.AST, list[ast.AST]] = field(default_factory=dict)

    @property
    def every(self) -> list[ast.AST]:
        return self._order_and_parents[0]

    @functools.cached_property
    def _order_and_parents(self) -> tuple[list[ast.AST], dict[ast.AST, ast.AST]]:
        """All statements, and the parent of each."""
        found: list[ast.AST] = []
        above: dict[ast.AST, ast.AST] = {}
        todo: list[ast.AST] = [self.source.tree]
        while todo:
            node = todo.pop()
            found.append(node)
            if type(node) in syntax_tree.BLOCK_FIELDS:
                below = syntax_tree.block_statements(node)
                above.update(dict.fromkeys(below, node))
                todo += below[::-1]
        return found[1:], above

    def own(self, statement: ast.AST) -> list[ast.AST]:
        """A statement and the nodes below it, in the order of the text, without the statements inside it."""
        found = self._seen.get(statement)
        if found is None:
            found = self._seen[statement] = []
            above = self._order_and_parents[1]
            todo = [statement]
            while todo:
                node = todo.pop()
                found.append(node)
                if type(node) in syntax_tree.LEAF_NODES:
                    continue
                below = syntax_tree.child_nodes(node)
                if node is statement and type(node) in syntax_tree.BLOCK_FIELDS:
                    below = [n for n in below if not isinstance(n, _STATEMENT_NODES)]
                for one in below:
                    above[one] = node
                todo += below[::-1]
        return found

    @functools.cached_property
    def by_class(self) -> dict[type[ast.AST], list[ast.AST]]:
        """All nodes by their class, each in the order of the text."""
        found: dict[type[ast.AST], list[ast.AST]] = {}
        for statement in self.every:
            for node in self.own(statement):
                found.setdefault(type(node), []).append(node)
        return found

    def get(self, node: ast.AST) -> ast.AST | None:
        """The parent of a node; None for the module."""
        above = self._order_and_parents[1]
        found = above.get(node)
        if found is None and node is not self.source.tree:
            for place in self._at(getattr(node, "lineno", 0)):
                self.own(self.every[place])
            if node not in above:  # it has no position, or a wrong one (in f-strings of older versions)
                for statement in self.every:
                    self.own(statement)
            found = above.get(node)
        return found

    def __getitem__(self, node: ast.AST) -> ast.AST:
        found = self.get(node)
        if found is None:
            raise KeyError(node)
        return found

    def statements_matching(self, wanted: re.Pattern[str]) -> Iterator[ast.AST]:
        """Statements whose own text matches ``wanted``, in the order of the text."""
        return self.at(match.start() for match in wanted.finditer(self.source.plain))

    def at(self, offsets: Iterable[int]) -> Iterator[ast.AST]:
        """Statements whose own text is at ``offsets``, which must ascend."""
        done, line, last = 0, 1, 0
        for offset in offsets:
            line += self._text_with_line_feeds.count("\n", last, offset)
            last = offset
            for place in self._at(line):
                if place >= done:
                    done = place + 1
                    yield self.every[place]

    def _at(self, line: int) -> range:
        """Positions of the statements whose own text is on a line; several if there are semicolons."""
        starts, ends = self._line_ranges
        return range(bisect_left(ends, line), bisect_right(starts, line))

    @functools.cached_property
    def _text_with_line_feeds(self) -> str:
        """The text with a line feed wherever Python begins a line; offsets stay."""
        text = self.source.plain
        return text.replace("\r\n", " \n").replace("\r", "\n") if "\r" in text else text

    @functools.cached_property
    def _line_ranges(self) -> tuple[list[int], list[int]]:
        """The first and last line of each statement; of one with a block, at most the line where the block begins."""
        starts: list[int] = []
        ends: list[int] = []
        for one in self.every:
            if type(one) in syntax_tree.BLOCK_FIELDS:
                start, end = _head_lines(one)
            else:
                start, end = one.lineno, one.end_lineno  # type: ignore[attr-defined]
            starts.append(start)
            ends.append(end)
        return starts, ends


def _head_lines(statement: ast.AST) -> tuple[int, int]:
    """The first line of a statement with a block, and the line where the block begins."""
    block = getattr(statement, "body", None) or statement.cases  # type: ignore[attr-defined]
    return _first_line(statement), _first_line(block[0])


def _first_line(statement: ast.AST) -> int:
    """The first line of a statement, decorators included."""
    if isinstance(statement, ast.match_case):
        return statement.pattern.lineno
    above = getattr(statement, "decorator_list", None)
    return above[0].lineno if above else statement.lineno  # type: ignore[attr-defined,no-any-return]


@cache_recent(16)
def statements_of(source: Source) -> Statements:
    """The statements of a file, cached."""
    return Statements(source)


SCOPE_NODES = (*FUNCTION_NODES, ast.Lambda, ast.ClassDef)
JIT_COMPILE_POSITION = 7  # among the positional arguments of compile(), in Keras 2 and 3


def called_name(call: ast.Call) -> str:
    """The last name of the callee: ``map`` of ``ds.map(f)``, ``sqrt`` of ``np.sqrt(x)``."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_gradient_tape(block: ast.With | ast.AsyncWith) -> bool:
    """Whether a block is a ``with tf.GradientTape()``."""
    opened = (one.context_expr for one in block.items)
    return any(isinstance(one, ast.Call) and called_name(one) == "GradientTape" for one in opened)


def is_taped(source: Source, node: ast.AST) -> bool:
    """Whether it is in a ``with tf.GradientTape()``."""
    above = parents_of(source)
    at = above.get(node)
    while at is not None and not isinstance(at, (*FUNCTION_NODES, ast.ClassDef)):
        if isinstance(at, ast.With) and is_gradient_tape(at):
            return True
        at = above.get(at)
    return False


def calls_at_line(source: Source, line: int, *names: str) -> list[ast.Call]:
    """Calls of one of ``names`` at ``line``: those whose name is on that line, else those that span it.

    For a chain over several lines Python gives the line of the call's name or of the chain's start, by its version.
    """
    every = statements_of(source).by_class.get(ast.Call, ())
    found = [n for n in every if isinstance(n, ast.Call) and called_name(n) in names]
    exact = [n for n in found if (n.func.end_lineno or n.lineno) == line]
    around = [n for n in found if n not in exact and n.lineno <= line <= (n.end_lineno or n.lineno)]
    return exact or around


def single_call(source: Source, line: int, *names: str) -> ast.Call | None:
    """The one call of ``names`` at ``line``; None if there is none or more than one."""
    found = calls_at_line(source, line, *names)
    return found[0] if len(found) == 1 else None


def chain_calls(call: ast.expr) -> Iterator[ast.Call]:
    """The calls of a chain ``a.b().c().d()`` from the last to the first."""
    node: ast.expr = call
    while isinstance(node, ast.Call):
        yield node
        if not isinstance(node.func, ast.Attribute):
            return
        node = node.func.value


def parents_of(source: Source) -> Statements:
    """The parent of each node of the file."""
    return statements_of(source)


def chain_end(source: Source, call: ast.Call) -> ast.Call:
    """The last call of the chain that ``call`` is part of: ``a().b().c()`` for ``a().b()``."""
    above = parents_of(source)
    node: ast.Call = call
    while True:
        attribute = above.get(node)
        outer = above.get(attribute) if isinstance(attribute, ast.Attribute) else None
        if not (isinstance(outer, ast.Call) and outer.func is attribute):
            return node
        node = outer


def enclosing_statement(source: Source, node: ast.AST) -> ast.stmt | None:
    """The innermost statement that holds ``node``."""
    above = parents_of(source)
    found: ast.AST | None = node
    while found is not None and not isinstance(found, ast.stmt):
        found = above.get(found)
    return found


def enclosing_node(source: Source, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
    """The innermost node of ``kinds`` that holds ``node``, within the same function or class."""
    above = parents_of(source)
    found = above.get(node)
    while found is not None and not isinstance(found, kinds):
        if isinstance(found, SCOPE_NODES):
            return None
        found = above.get(found)
    return found


def outermost_function(source: Source, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function around a node that no other function contains."""
    found, at = None, enclosing_function(source, node)
    while at is not None:
        found, at = at, enclosing_function(source, at)
    return found


def enclosing_function(source: Source, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost function that holds ``node``; None at module level."""
    above = parents_of(source)
    found = above.get(node)
    while found is not None and not isinstance(found, FUNCTION_NODES):
        found = above.get(found)
    return found


def function_named(source: Source, name: str, near: ast.AST | None = None) -> ast.FunctionDef | None:
    """The function called ``name``: in the scope of ``near`` if it is there, else the only one in the file."""
    found = _functions_by_name(source).get(name, [])
    inside = enclosing_function(source, near) if near is not None and len(found) > 1 else None
    close = [n for n in found if inside is not None and n in syntax_tree.walk(inside)]
    found = close or found
    return found[0] if len(found) == 1 else None


@cache_recent(16)
def _functions_by_name(source: Source) -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in statements_of(source).every:  # no expression contains a named function
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def argument_value(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """The value of the argument ``name``, given by keyword or at ``position``; None if it is not given."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is not None and position < len(call.args):
        return call.args[position]
    return None


def function_called_by_name(source: Source, call: ast.expr) -> ast.FunctionDef | None:
    """The function of this file that ``call`` calls by name."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    return function_named(source, call.func.id, call)


def length_queries(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that query a length: ``len(x)``, ``x.shape``."""
    for one in syntax_tree.walk(node):
        if (isinstance(one, ast.Call) and called_name(one) == "len") or (
            isinstance(one, ast.Attribute) and one.attr == "shape"
        ):
            yield one
