"""Loops that train another model, or the same one from the start, in every turn."""

from __future__ import annotations

import ast

from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

WEIGHT_RESTORERS = frozenset({"set_weights", "load_weights", "clone_model", "restore"})


def resets_weights(source: Source, step_line: int, line: int) -> bool:
    """Whether the loop around ``line`` resets the weights before it comes to the step at ``step_line``.

    All weights of a model at once, or each in a loop over a list. Assigning a learning rate does not count.
    """
    loop, _ = source.loop_at_line(line)
    if loop is None or not loop.lineno < step_line <= (loop.end_lineno or 0):
        return False
    inner, _ = source.loop_at_line(step_line)
    begins = inner.lineno if inner is not None and inner is not loop else step_line
    before = [node for node in syntax_tree.walk(loop) if loop.lineno < getattr(node, "lineno", 0) < begins]
    if any(isinstance(node, ast.Call) and node_lookup.called_name(node) in WEIGHT_RESTORERS for node in before):
        return True
    return any(_assigns_each(node) for node in before if isinstance(node, ast.For))


def _assigns_each(loop: ast.For) -> bool:
    """Whether it is ``for v, w in zip(variables, begun): v.assign(w)``."""
    names = {node.id for node in syntax_tree.walk(loop.target) if isinstance(node, ast.Name)}
    calls = [node for node in syntax_tree.walk(loop) if isinstance(node, ast.Call)]
    return any(scope_names.dotted_name(call.func) in {f"{name}.assign" for name in names} for call in calls)
