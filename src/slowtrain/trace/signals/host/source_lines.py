"""The user's source: functions, loops and calls at a line, indexed once per syntax tree; and what a line does.

Many lines of one file are looked up. Walking the whole tree for each would take longer than everything else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from slowtrain.model import Place
from slowtrain.trace import Trace

LOOP_NODES = (ast.For, ast.While, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_Node = TypeVar("_Node", bound=ast.AST)
GLOBAL_NORM_FUNCTIONS = frozenset({"clip_by_global_norm", "global_norm"})  # with an op or two for each gradient
ASSIGN_PREFIXES = ("assign", "scatter_")
SAVE_FUNCTIONS = frozenset(
    "save save_weights save_model save_checkpoint write_checkpoint export savez savez_compressed savetxt tofile dump "
    "to_pickle to_hdf".split()
)
SUMMARY_WRITERS = frozenset({"summary", "writer"})  # tf.summary.histogram, writer.add_scalar
DRAW_FUNCTIONS = frozenset({"savefig", "imsave"})
PRINTS = frozenset({"print", "pprint"})
LOGS = frozenset("debug info warning error critical exception log".split())
LOGGERS = frozenset({"logging", "logger", "log"})  # names, also with underscores around them or in capitals
WRITES = frozenset({"write", "writelines"})  # text if text stands in what is given, else perhaps data
WRITES_TEXT = frozenset("writerow writerows flush set_postfix set_postfix_str set_description".split())
# Calls that make text of values. What else stands in a line that prints may be what takes the time.
MAKES_TEXT = frozenset("format str repr len round int float bool join strftime time perf_counter ljust rjust".split())


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
    named = _source_index(tree).calls_by_name
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
    def calls_by_name(self) -> dict[str, list[tuple[int, ast.Call]]]:
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


@lru_cache(maxsize=32)
def _parse_source(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def source_tree(trace: Trace, file: str) -> ast.Module | None:
    """Return the syntax tree of a user's file; None if it is missing or does not parse."""
    text = trace.fact("source", file) or trace.fact("sources", file)  # from a drawn trace, or from the recording
    if isinstance(text, str):
        return _parse_source(text)
    try:
        return _parse_source(Path(trace.root, file).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def writes_checkpoint(trace: Trace, place: Place) -> bool:
    """Return whether a line of the user writes a checkpoint."""
    return any(called_name(c) in SAVE_FUNCTIONS for c in _calls_at_place(trace, place))


def writes_log(trace: Trace, place: Place) -> bool:
    """Return whether a line of the user writes summaries or draws pictures."""
    functions = [(called_name(c), c.func) for c in _calls_at_place(trace, place)]
    return any(
        name in DRAW_FUNCTIONS or (isinstance(f, ast.Attribute) and last_name(f.value) in SUMMARY_WRITERS)
        for name, f in functions
    )


def prints(trace: Trace, place: Place) -> bool:
    """Whether all that a line of the user's does is to print, log or write text."""
    calls = _calls_at_place(trace, place)
    printing = [c for c in calls if _prints(c)]
    return bool(printing) and all(c in printing or called_name(c) in MAKES_TEXT for c in calls)


def _prints(call: ast.Call) -> bool:
    name, function = called_name(call), call.func
    if not isinstance(function, ast.Attribute):
        return name in PRINTS
    on = last_name(function.value).strip("_").lower()
    if name in LOGS:
        return on in LOGGERS
    return name in PRINTS | WRITES_TEXT or (name in WRITES and on not in SUMMARY_WRITERS and _gives_text(call))


def _gives_text(call: ast.Call) -> bool:
    return any(isinstance(n, ast.Constant) and isinstance(n.value, str) for a in call.args for n in ast.walk(a))


def _calls_at_place(trace: Trace, place: Place) -> list[ast.Call]:
    tree = source_tree(trace, place.file)
    return calls_at(tree, place.line) if tree is not None else []


def changes_variables(trace: Trace, place: Place) -> bool:
    """Return whether a line is in a loop that changes one variable per iteration, as optimizers do.

    No single op changes all variables, or takes all gradients for the norm of TensorFlow's own functions.
    """
    tree = source_tree(trace, place.file)
    if tree is not None and GLOBAL_NORM_FUNCTIONS & set(map(called_name, calls_at(tree, place.line))):
        return True
    loops = [n for n in loops_around(tree, place.line) if isinstance(n, ast.For)] if tree is not None else []
    for loop in loops:
        turned = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
        changes = (n.func for n in ast.walk(loop) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
        if any(
            f.attr.startswith(ASSIGN_PREFIXES) and isinstance(f.value, ast.Name) and f.value.id in turned
            for f in changes
        ):
            return True
    return False
