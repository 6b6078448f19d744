"""How often a line of a file runs: the loops around it, and around the calls of its function."""

from __future__ import annotations

import ast
from collections.abc import Collection
from math import prod

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace.signals.host.source_lines import (
    called_name,
    calls_of_names,
    function_around,
    last_name,
    loops_around,
)

APPLYING_FUNCTIONS = frozenset("map vectorize apply_along_axis apply applymap fromiter frompyfunc".split())


def calling_lines(tree: ast.Module, line: int) -> list[int]:
    """Lines of calls in loops of the function around ``line``, or of calls that apply it to each element."""
    return [call.lineno for call in _looped_calls(tree, line)]


def line_runs(source: Source, line: int) -> int | None:
    """How often a line runs; None unless all loops around it and around its function's calls say their turns."""
    total = 0
    calls = _looped_calls(source.tree, line)
    if any(called_name(call) in APPLYING_FUNCTIONS for call in calls):
        return None
    for outer in [loops_around(source.tree, call.lineno) for call in calls] or [[]]:
        heads = [
            head for loop in (*loops_around(source.tree, line), *outer) for head in getattr(loop, "generators", [loop])
        ]
        every = [queries.loop_turns(source, head) for head in heads]
        if None in every:
            return None
        total += prod(n for n in every if n is not None)
    return total


def line_and_inner_loops(tree: ast.Module, line: int) -> Collection[int]:
    """A line, and the first lines of the loops in its function."""
    function = function_around(tree, line)
    inner = (
        [n for n in syntax_tree.walk(function) if isinstance(n, ast.For | ast.While)] if function is not None else []
    )
    return dict.fromkeys((line, *(loop.body[0].lineno for loop in inner)))


def _looped_calls(tree: ast.Module, line: int) -> list[ast.Call]:
    function = function_around(tree, line)
    if function is None:
        return []
    found = []
    for call in calls_of_names(tree, {function.name, *APPLYING_FUNCTIONS}):
        in_loop = called_name(call) == function.name and loops_around(tree, call.lineno)
        if in_loop or (
            called_name(call) in APPLYING_FUNCTIONS and any(last_name(a) == function.name for a in call.args)
        ):
            found.append(call)
    return found
