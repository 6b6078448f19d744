"""All pipelines of a file that begin in it, found once for the rules of the input causes."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from slowtrain.source import Source, kept, trees
from slowtrain.source.reading import finding, index, scopes, settings
from slowtrain.source.reading.input import chains, consumed

BATCHING = frozenset(
    {"batch", "padded_batch", "ragged_batch", "bucket_by_sequence_length", "group_by_window", "window", "sparse_batch"}
)
SEVERAL = 2  # passes; from the second one on a cache is read


@kept(4)
def of(source: Source) -> tuple[chains.Flow, ...]:
    """Each pipeline whose source is known, to its end, without parts of longer ones."""
    if not chains.may_make(source):
        return ()
    every = index.of(source)
    makers = (c for n in source.words if n in chains.MAKERS or n.endswith("Dataset") for c in every.called(n))
    if not any(chains.makes(source, c) for c in makers):
        return ()
    found = [f for f in chains.every(source) if f.whole]
    longest: dict[ast.Call, int] = {}
    for flow in found:
        for place, call in enumerate(flow.calls):
            longest[call] = max(longest.get(call, 0), len(flow.calls) - place)
    return tuple(dict.fromkeys(f for f in found if longest[f.calls[-1]] == 1))


def holding(source: Source, call: ast.Call) -> list[chains.Flow]:
    """The pipelines that contain ``call``."""
    return [f for f in of(source) if call in f.calls]


def singly(flow: chains.Flow, call: ast.Call) -> bool:
    """Whether ``call`` receives single elements that are batched later."""
    before = {finding.called(c) for c in flow.before(call)}
    after = {finding.called(c) for c in flow.after(call)}
    return bool(after & BATCHING) and not before & (BATCHING | {"flat_map", "interleave", "apply", "unbatch"})


def function(source: Source, call: ast.Call) -> ast.FunctionDef | ast.Lambda | None:
    """The function of this file that an operation calls for each element."""
    given = call.args[0] if call.args else finding.keyword(call, "map_func")
    if isinstance(given, ast.Lambda):
        return given
    if isinstance(given, (ast.Name, ast.Attribute)):
        found = finding.defined(source, given.id if isinstance(given, ast.Name) else given.attr, call)
        return found if found is not None else settings.called(source, given)
    return settings.called(source, given) if isinstance(given, ast.Call) else None


def live(node: ast.AST) -> list[ast.AST]:
    """The statements of a function up to its first unconditional ``return`` or ``raise``."""
    found = []
    for statement in scopes.body(node):
        found.append(statement)
        if isinstance(statement, (ast.Return, ast.Raise)):
            break
    return found


def reached(source: Source, start: ast.AST) -> list[ast.AST]:
    """The reachable statements of a function, and of the functions of this file that they call."""
    found: list[ast.AST] = []
    todo, seen = [start], {start}
    while todo:
        statements = live(todo.pop())
        found += statements
        for node in (n for s in statements for n in trees.walk(s)):
            name = finding.called(node) if isinstance(node, ast.Call) else ""
            inner = finding.defined(source, name, node) if name else None
            if inner is not None and inner not in seen:
                seen.add(inner)
                todo.append(inner)
    return found


def calls(statements: Sequence[ast.AST]) -> list[ast.Call]:
    """All calls in ``statements``."""
    return [n for s in statements for n in trees.walk(s) if isinstance(n, ast.Call)]


def repeated(source: Source, flow: chains.Flow) -> bool:
    """Whether training surely iterates ``flow`` more than once."""
    for fit in index.of(source).called("fit"):
        given, count = finding.keyword(fit, "x", 0), finding.keyword(fit, "epochs")
        if count is None or finding.keyword(fit, "steps_per_epoch") is not None:
            continue
        if flow in consumed.flow_of(source, given, fit) and (settings.whole(source, count) or 0) >= SEVERAL:
            return True
    for loop in index.nodes(source, ast.For):
        if (
            isinstance(loop, ast.For)
            and scopes.loops(source, loop)
            and flow in consumed.flow_of(source, loop.iter, loop)
        ):
            return True
    return False
