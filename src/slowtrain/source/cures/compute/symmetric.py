"""Eigenvalues of a matrix that is symmetric by the way it is made: those have an op for every device."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.source import Source, edits
from slowtrain.source.reading import finding, values

GENERAL = ("tensorflow.linalg.eigvals",)
# Around them: eigvalsh gives real numbers in order, eigvals complex ones in any.
REAL = ("tensorflow.abs", "tensorflow.math.abs", "tensorflow.math.real")
ORDERLESS = ("reduce_max", "reduce_min", "reduce_sum", "reduce_mean")
DEEPEST = 4


def real_eigenvalues(source: Source, line: int) -> list[Edit]:
    """``tf.linalg.eigvals(m)`` at ``line`` as ``tf.linalg.eigvalsh(m)``, for ``m`` made as ``x^T x`` or ``x x^T``."""
    call = finding.only(source, line, "eigvals")
    if call is None or values.qualified(source, call.func) not in GENERAL or len(call.args) != 1 or call.keywords:
        return []
    above = finding.parents(source)
    real = above.get(call)
    outer = above.get(real) if real is not None else None
    if not isinstance(real, ast.Call) or values.qualified(source, real.func) not in REAL:
        return []
    if not isinstance(outer, ast.Call) or finding.called(outer) not in ORDERLESS or len(outer.args) != 1:
        return []
    if not _symmetric(source, call.args[0]) or outer.keywords:
        return []
    assert isinstance(call.func, ast.Attribute)
    end = edits.end(call.func)
    return [Edit(source.file, (end[0], end[1] - len("eigvals")), end, "eigvalsh")]


def _symmetric(source: Source, node: ast.expr | None) -> bool:
    """Whether a matrix is a product of one by itself transposed, times or over a number."""
    for _ in range(DEEPEST):
        if isinstance(node, ast.Name):
            node = values.assigned(source, node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            if not isinstance(node.right, ast.Constant):
                return False
            node = node.left
        else:
            break
    if not isinstance(node, ast.Call) or finding.called(node) != "matmul" or len(node.args) != 2:
        return False
    turned = [k.arg for k in node.keywords if isinstance(k.value, ast.Constant) and k.value.value is True]
    same = all(isinstance(a, ast.Name) for a in node.args) and ast.dump(node.args[0]) == ast.dump(node.args[1])
    return same and len(node.keywords) == 1 and turned[:1] in (["transpose_a"], ["transpose_b"])
