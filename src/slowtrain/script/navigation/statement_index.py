"""A file's statements in the order of the text, and on demand the expressions in them.

Most nodes of a tree are expressions that no rule looks at, and visiting all of them takes as long as parsing. So the
text says where a name stands, and the tree what it means there.
"""

from __future__ import annotations

import ast
import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source, cache_recent

_STATEMENT_NODES = (ast.stmt, ast.excepthandler, ast.match_case)


@dataclass(frozen=True, eq=False)
class Statements:
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
            if node.__class__ in syntax_tree.BLOCK_FIELDS:
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
                below = syntax_tree.child_nodes(node)
                if node is statement and node.__class__ in syntax_tree.BLOCK_FIELDS:
                    below = [n for n in below if not isinstance(n, _STATEMENT_NODES)]
                if below:
                    above.update(dict.fromkeys(below, node))
                    todo += below[::-1]
        return found

    def get(self, node: ast.AST) -> ast.AST | None:
        """The parent of a node; None for the module."""
        above = self._order_and_parents[1]
        if node not in above and node is not self.source.tree:
            for place in self._at(getattr(node, "lineno", 0)):
                self.own(self.every[place])
            if node not in above:  # it has no position, or a wrong one (in f-strings of older versions)
                for statement in self.every:
                    self.own(statement)
        return above.get(node)

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
            if one.__class__ in syntax_tree.BLOCK_FIELDS:
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
