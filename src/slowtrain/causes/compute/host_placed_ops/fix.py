"""Eigenvalues of a matrix that is symmetric by construction. Their op has a kernel for every device."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import name_bindings, node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

GENERAL_OPS = ("tensorflow.linalg.eigvals",)
# The ops around them: eigvalsh returns sorted real numbers, eigvals complex ones in any order.
REAL_OPS = ("tensorflow.abs", "tensorflow.math.abs", "tensorflow.math.real")
REDUCING_OPS = ("reduce_max", "reduce_min", "reduce_sum", "reduce_mean")
MAX_ASSIGNMENTS = 4  # followed back to the product


def symmetric_eigenvalue_edits(source: Source, line: int) -> list[Edit]:
    """``tf.linalg.eigvals(m)`` at ``line`` as ``tf.linalg.eigvalsh(m)``, if ``m`` is ``x^T x`` or ``x x^T``."""
    call = node_lookup.single_call(source, line, "eigvals")
    if (
        call is None
        or name_bindings.qualified_name(source, call.func) not in GENERAL_OPS
        or len(call.args) != 1
        or call.keywords
    ):
        return []
    parents = node_lookup.parents_of(source)
    real = parents.get(call)
    outer = parents.get(real) if real is not None else None
    if not isinstance(real, ast.Call) or name_bindings.qualified_name(source, real.func) not in REAL_OPS:
        return []
    if not isinstance(outer, ast.Call) or node_lookup.called_name(outer) not in REDUCING_OPS or len(outer.args) != 1:
        return []
    if not _is_symmetric(source, call.args[0]) or outer.keywords:
        return []
    assert isinstance(call.func, ast.Attribute)
    end = edits.node_end(call.func)
    return [Edit(source.file, (end[0], end[1] - len("eigvals")), end, "eigvalsh")]


def _is_symmetric(source: Source, node: ast.expr | None) -> bool:
    """Whether a matrix is the product of a matrix and its transpose, possibly scaled by a number."""
    for _ in range(MAX_ASSIGNMENTS):
        if isinstance(node, ast.Name):
            node = name_bindings.single_assignment(source, node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            if not isinstance(node.right, ast.Constant):
                return False
            node = node.left
        else:
            break
    if not isinstance(node, ast.Call) or node_lookup.called_name(node) != "matmul" or len(node.args) != 2:
        return False
    transposed = [k.arg for k in node.keywords if isinstance(k.value, ast.Constant) and k.value.value is True]
    same = all(isinstance(a, ast.Name) for a in node.args) and ast.dump(node.args[0]) == ast.dump(node.args[1])
    return same and len(node.keywords) == 1 and transposed[:1] in (["transpose_a"], ["transpose_b"])
