"""All calls of a name and all nodes of a kind in a file: what every detector of ``slowtrain lint`` asks for first.

A file whose text has no such name is not even parsed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import field

from slowtrain.source import Source, edits, kept
from slowtrain.source.reading import finding, statements
from slowtrain.values import dataclass

GAP = r"(?:[\s\\)]|#[^\r\n]*[\r\n])*"  # what may stand between a name and what is done with it


@dataclass(frozen=True, eq=False)
class Index:
    source: Source
    _calls: dict[str, list[ast.Call]] = field(default_factory=dict)

    def called(self, *names: str) -> list[ast.Call]:
        """Calls of any of ``names``, the last name of what is called, in the order of the text."""
        found = [call for name in names for call in self._called(name)]
        return sorted(found, key=edits.start) if len(names) > 1 else found

    def _called(self, name: str) -> list[ast.Call]:
        found = self._calls.get(name)
        if found is None and name.isascii() and name not in self.source.words:
            found = self._calls[name] = []
        if found is None:
            inside = statements.of(self.source)
            where = inside.at(self._standing(name))
            calls = (n for one in where for n in inside.own(one) if isinstance(n, ast.Call))
            found = self._calls[name] = [call for call in calls if finding.called(call) == name]
        return found

    def _standing(self, name: str) -> Iterator[int]:
        """Where in the text the name stands with a parenthesis behind it, and nothing is defined."""
        text = self.source.plain
        place = text.find(name)
        while place >= 0:
            end = place + len(name)
            before = text[max(place - 4, 0) : place]
            if before != "def " and not _LONGER.search(before) and _OPENED.match(text, end):
                yield place
            place = text.find(name, end)


@kept(4)
def of(source: Source) -> Index:
    """The index of a file; made once, when it is first asked for."""
    return Index(source)


_OPENED = re.compile(rf"{GAP}\(")
_LONGER = re.compile(r"\w\Z")


def whole(name: str) -> str:
    r"""A pattern for this name where it is not a part of a longer one.

    It begins with the name's own letters, which are looked for quickly; ``\b`` is tried at every character.
    """
    return rf"{re.escape(name)}(?!\w)(?<!\w{re.escape(name)})"


def written(source: Source, pattern: re.Pattern[str], kind: type[ast.AST]) -> list[ast.AST]:
    """Nodes of exactly this class in statements in whose text ``pattern`` is found, in the order of the text."""
    inside = statements.of(source)
    return [node for one in inside.having(pattern) for node in inside.own(one) if node.__class__ is kind]


def nodes(source: Source, *kinds: type[ast.AST]) -> Iterable[ast.AST]:
    """Nodes of exactly these classes, each class in the order of the text."""
    inside = statements.of(source)
    if all(issubclass(kind, ast.stmt) for kind in kinds):
        return [node for kind in kinds for node in inside.every if node.__class__ is kind]
    below = [node for one in inside.every for node in inside.own(one)]
    return [node for kind in kinds for node in below if node.__class__ is kind]


def operation(call: ast.Call) -> tuple[tuple[int, int], tuple[int, int]]:
    """From where to where ``map(f)`` of ``ds.map(f)`` stands; the whole call where it is no method's."""
    if not isinstance(call.func, ast.Attribute):
        return edits.start(call), edits.end(call)
    line, column = edits.end(call.func)
    return (line, column - len(call.func.attr.encode())), edits.end(call)
