"""All calls of a name and all nodes of a class in a file: the first question of every lint rule.

A file whose text does not contain the name is not parsed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from slowtrain.script.navigation import node_lookup
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source, cache_recent
from slowtrain.script.text.syntax_tree import Node

GAP_PATTERN = r"(?:[\s\\)]|#[^\r\n]*[\r\n])*"  # what may stand between a name and the parenthesis or dot after it


class CallIndex(Struct, frozen=True, eq=False):
    """The calls of one file by name, looked up on demand."""

    source: Source
    _calls: dict[str, list[ast.Call]] = field(default_factory=dict)

    def calls_of(self, *names: str) -> list[ast.Call]:
        """Calls whose callee's last name is one of ``names``, in the order of the text."""
        words = self.source.words
        written = [name for name in names if name in words or not name.isascii()]
        found = [call for name in written for call in self._calls_by_name(name)]
        return sorted(found, key=edits.node_start) if len(written) > 1 else found

    def _calls_by_name(self, name: str) -> list[ast.Call]:
        if name not in self._calls:
            inside = node_lookup.statements_of(self.source)
            where = inside.at(self._standing(name))
            calls = (n for one in where for n in inside.own(one) if isinstance(n, ast.Call))
            self._calls[name] = [call for call in calls if node_lookup.called_name(call) == name]
        return self._calls[name]

    def _standing(self, name: str) -> Iterator[int]:
        """Offsets at which the name is followed by a parenthesis and is not a definition."""
        text = self.source.plain
        place = text.find(name)
        while place >= 0:
            end = place + len(name)
            before = text[max(place - 4, 0) : place]
            longer = before[-1:].isalnum() or before[-1:] == "_"
            if not longer and before != "def " and _OPEN_PARENTHESIS.match(text, end):
                yield place
            place = text.find(name, end)


@cache_recent(4)
def index_of(source: Source) -> CallIndex:
    """The index of a file, cached."""
    return CallIndex(source)


_OPEN_PARENTHESIS = re.compile(rf"{GAP_PATTERN}\(")


def whole_word_pattern(name: str) -> str:
    r"""A pattern for this name if it is not part of a longer one.

    It begins with the name's own letters, which are found quickly; ``\b`` is tried at every character.
    """
    return rf"{re.escape(name)}(?!\w)(?<!\w{re.escape(name)})"


def nodes_matching(source: Source, pattern: re.Pattern[str], kind: type[ast.AST]) -> list[ast.AST]:
    """Nodes of exactly this class in statements whose text matches ``pattern``, in the order of the text."""
    inside = node_lookup.statements_of(source)
    return [node for one in inside.statements_matching(pattern) for node in inside.own(one) if type(node) is kind]


def nodes_of_kind(source: Source, *kinds: type[ast.AST]) -> Iterable[ast.AST]:
    """Nodes of exactly these classes, each class in the order of the text."""
    inside = node_lookup.statements_of(source)
    if all(issubclass(kind, ast.stmt) for kind in kinds):
        return [node for kind in kinds for node in inside.every if type(node) is kind]
    return [node for kind in kinds for node in inside.by_class.get(kind, ())]


def operation_range(call: ast.Call) -> tuple[tuple[int, int], tuple[int, int]]:
    """Start and end of ``map(f)`` in ``ds.map(f)``; of the whole call if the callee is not a method."""
    if not isinstance(call.func, ast.Attribute):
        return edits.node_start(call), edits.node_end(call)
    line, column = edits.node_end(call.func)
    return (line, column - len(call.func.attr.encode())), edits.node_end(call)


TRAINING_CALLS = ("fit", "fit_generator", "train_on_batch", "GradientTape", "minimize")


def takes_training_steps(source: Source) -> bool:
    """Whether the file calls something that takes training steps."""
    return any(map(index_of(source).calls_of, TRAINING_CALLS))


STEP_CALLS = ("GradientTape", "train_on_batch")  # of one step


def reaches_training_step(source: Source, body: Iterable[ast.AST]) -> bool:
    """Whether statements, or functions of this file that they call, take a training step."""
    if not index_of(source).calls_of(*STEP_CALLS):
        return False
    return any(_contains_step_call(part) for one in body for part in source.reachable_functions(one))


@cache_recent(1024)
def _contains_step_call(node: ast.AST) -> bool:
    return any(node_lookup.called_name(call) in STEP_CALLS for call in syntax_tree.nodes_inside(node, ast.Call))


def is_compiled_loss(source: Source, name: str) -> bool:
    """Whether ``compile()`` receives the function of this name as its loss."""
    losses = (node_lookup.argument_value(c, "loss", 1) for c in index_of(source).calls_of("compile"))
    return any(isinstance(one, ast.Name) and one.id == name for one in losses)


def nodes_of_class(source: Source, kind: type[Node]) -> list[Node]:
    """Nodes of exactly this class, in the order of the text, with their type."""
    return [node for node in nodes_of_kind(source, kind) if isinstance(node, kind)]
