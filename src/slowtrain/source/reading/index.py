"""All calls of a name and all nodes of a class in a file: the first question of every lint rule.

A file whose text does not contain the name is not parsed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import field

from slowtrain.source import Source, edits, kept
from slowtrain.source.reading import finding, statements
from slowtrain.values import dataclass

GAP = r"(?:[\s\\)]|#[^\r\n]*[\r\n])*"  # what may stand between a name and the parenthesis or dot after it


@dataclass(frozen=True, eq=False)
class Index:
    """The calls of one file by name, looked up on demand."""

    source: Source
    _calls: dict[str, list[ast.Call]] = field(default_factory=dict)

    def called(self, *names: str) -> list[ast.Call]:
        """Calls whose callee's last name is one of ``names``, in the order of the text."""
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
        """Offsets at which the name is followed by a parenthesis and is not a definition."""
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
    """The index of a file, cached."""
    return Index(source)


_OPENED = re.compile(rf"{GAP}\(")
_LONGER = re.compile(r"\w\Z")


def whole(name: str) -> str:
    r"""A pattern for this name if it is not part of a longer one.

    It begins with the name's own letters, which are found quickly; ``\b`` is tried at every character.
    """
    return rf"{re.escape(name)}(?!\w)(?<!\w{re.escape(name)})"


def written(source: Source, pattern: re.Pattern[str], kind: type[ast.AST]) -> list[ast.AST]:
    """Nodes of exactly this class in statements whose text matches ``pattern``, in the order of the text."""
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
    """Start and end of ``map(f)`` in ``ds.map(f)``; of the whole call if the callee is not a method."""
    if not isinstance(call.func, ast.Attribute):
        return edits.start(call), edits.end(call)
    line, column = edits.end(call.func)
    return (line, column - len(call.func.attr.encode())), edits.end(call)
