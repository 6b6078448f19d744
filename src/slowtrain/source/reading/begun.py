"""Loops that train another model, or the same one from the start, in every turn."""

from __future__ import annotations

import ast

from slowtrain.source import Source, trees
from slowtrain.source.reading import finding, scopes

WHOLE = frozenset({"set_weights", "load_weights", "clone_model", "restore"})


def anew(source: Source, step_line: int, line: int) -> bool:
    """Whether the loop around ``line`` resets the weights before it comes to the step at ``step_line``.

    All weights of a model at once, or each in a loop over a list. Assigning a learning rate does not count.
    """
    loop, _ = source.turning(line)
    if loop is None or not loop.lineno < step_line <= (loop.end_lineno or 0):
        return False
    inner, _ = source.turning(step_line)
    begins = inner.lineno if inner is not None and inner is not loop else step_line
    before = [node for node in trees.walk(loop) if loop.lineno < getattr(node, "lineno", 0) < begins]
    if any(isinstance(node, ast.Call) and finding.called(node) in WHOLE for node in before):
        return True
    return any(_each_assigned(node) for node in before if isinstance(node, ast.For))


def _each_assigned(loop: ast.For) -> bool:
    """Whether it is ``for v, w in zip(variables, begun): v.assign(w)``."""
    names = {node.id for node in trees.walk(loop.target) if isinstance(node, ast.Name)}
    calls = [node for node in trees.walk(loop) if isinstance(node, ast.Call)]
    return any(scopes.dotted(call.func) in {f"{name}.assign" for name in names} for call in calls)
