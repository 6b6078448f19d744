"""Functions, loops and calls at a line of the user's source, indexed once per syntax tree.

Many lines of one file are looked up. Walking the whole tree for each would take longer than everything else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Generic, TypeVar

import numpy as np

LOOP_NODES = (ast.For, ast.While, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_Node = TypeVar("_Node", bound=ast.AST)


def called_name(call: ast.Call) -> str:
    """Return the last part of the called name: ``map`` for ``ds.map(f)``."""
    return last_name(call.func)


def last_name(node: ast.AST) -> str:
    """Return the last part of a dotted name; empty for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def function_around(tree: ast.Module, line: int) -> ast.FunctionDef | None:
    """Return the innermost function that contains the line."""
    return max(_source_index(tree).functions.at(line), key=lambda n: n.lineno, default=None)


def loops_around(tree: ast.Module, line: int) -> list[ast.AST]:
    """Return loops and comprehensions that contain the line, within the innermost function around it."""
    inner = function_around(tree, line)
    return _source_index(tree).loops(inner if inner is not None else tree).at(line)


def calls_at(tree: ast.Module, line: int) -> list[ast.Call]:
    """Return calls that include the line."""
    return _source_index(tree).calls.at(line)


def calls_of_names(tree: ast.Module, names: Iterable[str]) -> list[ast.Call]:
    """Return calls of any of these names (the last part), in the order of :func:`ast.walk`."""
    named = _source_index(tree).named
    return [call for _, call in sorted((one for name in set(names) for one in named.get(name, ())), key=lambda o: o[0])]


class _NodesByLine(Generic[_Node]):
    """Nodes in the order of :func:`ast.walk`, with the first and the last line of each."""

    def __init__(self, nodes: Sequence[_Node]) -> None:
        self.nodes = nodes
        begin = [getattr(n, "lineno", 0) for n in nodes]
        self.first = np.array(begin, dtype=np.int64)
        self.last = np.array([getattr(n, "end_lineno", 0) or b for n, b in zip(nodes, begin, strict=True)], np.int64)

    def at(self, line: int) -> list[_Node]:
        return [self.nodes[i] for i in np.flatnonzero((self.first <= line) & (line <= self.last)).tolist()]


class _SourceIndex:
    """Index of one tree. Its size depends on the number of nodes, not on how many lines each covers."""

    def __init__(self, tree: ast.Module) -> None:
        functions: list[ast.FunctionDef] = []
        calls: list[ast.Call] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                functions.append(node)
            elif isinstance(node, ast.Call):
                calls.append(node)
        self.functions, self.calls = _NodesByLine(functions), _NodesByLine(calls)
        self._loops: dict[ast.AST, _NodesByLine[ast.AST]] = {}

    @cached_property
    def named(self) -> dict[str, list[tuple[int, ast.Call]]]:
        """Calls with their position in the walk, by the called name."""
        found: dict[str, list[tuple[int, ast.Call]]] = {}
        for place, call in enumerate(self.calls.nodes):
            found.setdefault(called_name(call), []).append((place, call))
        return found

    def loops(self, scope: ast.AST) -> _NodesByLine[ast.AST]:
        """Return the loops below a function or the module."""
        found = self._loops.get(scope)
        if found is None:
            found = self._loops[scope] = _NodesByLine([n for n in ast.walk(scope) if isinstance(n, LOOP_NODES)])
        return found


@lru_cache(maxsize=8)
def _source_index(tree: ast.Module) -> _SourceIndex:
    return _SourceIndex(tree)
