"""A file's syntax tree gone through once: what every detector of ``slowtrain lint`` asks for, by its kind and its name.

Walking a tree takes about as long as parsing it, so that each detector walking for itself would be most of the time.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from dataclasses import dataclass, field

from slowtrain.source import Source, edits, trees
from slowtrain.source.reading import finding

# Names and constants, half of all nodes, are left out.
_FIELDS = {kind: tuple(reversed(names)) for kind, names in trees.FIELDS.items() if kind not in (ast.Name, ast.Constant)}


@dataclass(frozen=True)
class Index:
    """``nodes`` by exact class (names and constants left out), ``calls`` by the last name of what is called.

    Both in the order of the text.
    """

    nodes: dict[type[ast.AST], list[ast.AST]] = field(default_factory=dict)
    calls: dict[str, list[ast.Call]] = field(default_factory=dict)

    def called(self, *names: str) -> list[ast.Call]:
        """Calls of any of ``names``, in the order of the text."""
        found = [call for name in names for call in self.calls.get(name, ())]
        return sorted(found, key=edits.start) if len(names) > 1 else found


@functools.lru_cache(maxsize=4)
def of(source: Source) -> Index:
    """The index of a file; made once, when it is first asked for."""
    nodes: dict[type[ast.AST], list[ast.AST]] = {}
    calls: dict[str, list[ast.Call]] = {}
    todo: list[ast.AST] = [source.tree]
    pop, push = todo.pop, todo.append
    while todo:
        node = pop()
        kind = node.__class__
        fields = _FIELDS.get(kind)
        if fields is None:
            continue
        nodes.setdefault(kind, []).append(node)
        if kind is ast.Call:
            calls.setdefault(finding.called(node), []).append(node)  # type: ignore[arg-type]
        for name in fields:
            value = getattr(node, name, None)
            if value.__class__ is list:
                todo += [n for n in value[::-1] if isinstance(n, ast.AST)]
            elif isinstance(value, ast.AST):
                push(value)
    return Index(nodes, calls)


def nodes(source: Source, *kinds: type[ast.AST]) -> Iterable[ast.AST]:
    """Nodes of exactly these classes, each class in the order of the text."""
    found = of(source).nodes
    return [node for kind in kinds for node in found.get(kind, ())]


def operation(call: ast.Call) -> tuple[tuple[int, int], tuple[int, int]]:
    """From where to where ``map(f)`` of ``ds.map(f)`` stands; the whole call where it is no method's."""
    if not isinstance(call.func, ast.Attribute):
        return edits.start(call), edits.end(call)
    line, column = edits.end(call.func)
    return (line, column - len(call.func.attr.encode())), edits.end(call)
