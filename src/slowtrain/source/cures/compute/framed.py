"""A loop over overlapping windows, each multiplied by the same kernel, whose results are stacked: one convolution."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, name_bindings, scope_names
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.compute.windows import counted, everything, like

EINSUMS = ("tensorflow.einsum", "keras.ops.einsum")
STACKS = ("tensorflow.stack", "keras.ops.stack", "keras.backend.stack")
# Of each number by itself: the same of all rows at once.
BY_NUMBER = frozenset("relu relu6 leaky_relu tanh sigmoid elu selu gelu silu swish softplus softsign".split())


def convolved(source: Source, line: int) -> tuple[Edit, ...]:
    """``for t in range(n): outs.append(tf.einsum("bkd,kdu->bu", x[:, t : t + k], w))`` around ``line`` by ``conv1d``.

    Nothing where the loop does more, or its list is more than stacked along the second axis.
    """
    loops = [n for n in call_index.nodes_of_kind(source, ast.For) if n.lineno <= line <= (n.end_lineno or 0)]  # type: ignore[attr-defined]
    loop = max(loops, key=lambda n: n.lineno, default=None)  # type: ignore[attr-defined]
    axis = counted(loop) if isinstance(loop, ast.For) and not loop.orelse else None
    if not isinstance(loop, ast.For) or axis is None or len(loop.body) > 2:
        return ()
    last = loop.body[-1]
    call = last.value if isinstance(last, ast.Expr) else None
    if not isinstance(call, ast.Call) or find.called_name(call) != "append" or len(call.args) != 1 or call.keywords:
        return ()
    outs = call.func.value if isinstance(call.func, ast.Attribute) else None
    product = _product(source, call.args[0])
    if not isinstance(outs, ast.Name) or product is None:
        return ()
    window, kernel = product.args[1:]
    held = _assigned(source, loop, window)
    cut = _cut(held, axis.name) if held is not None else None
    turn = {axis.name, *scope_names.bound_names(loop.body)}
    if cut is None or turn & (
        scope_names.read_names(kernel) | scope_names.read_names(cut[0]) | scope_names.read_names(cut[1])
    ):
        return ()
    if turn & _around(call.args[0], product):
        return ()
    return _edited(source, loop, outs.id, call.args[0], product, cut, kernel, axis.count)


def _edited(
    source: Source, loop: ast.For, outs: str, each: ast.expr, product: ast.Call, cut: tuple[ast.expr, ast.expr],
    kernel: ast.expr, count: ast.expr,
) -> tuple[Edit, ...]:  # fmt: skip
    scope = scope_names.enclosing_scope(source, loop)
    own = list(scope_names.nodes_in_scope(scope_names.scope_body(scope)))
    begun = [n for n in own if isinstance(n, ast.Assign) and ast.unparse(n) == f"{outs} = []"]
    read = [n for n in own if isinstance(n, ast.Name) and n.id == outs and n.lineno > (loop.end_lineno or 0)]
    stack = find.parents_of(source).get(read[0]) if len(read) == 1 else None
    if (
        len(begun) != 1
        or not isinstance(stack, ast.Call)
        or name_bindings.qualified_name(source, stack.func) not in STACKS
    ):
        return ()
    axis = find.argument_value(stack, "axis", 1)
    if axis is None or ast.unparse(axis) != "1" or stack.args[:1] != read:
        return ()
    tf, more = edits.ensure_import(source, "tensorflow", "tf")
    rows = (
        f"{edits.node_text(source, cut[0])}[:, :{edits.node_text(source, count)} + "
        f"{edits.node_text(source, cut[1])} - 1]"
    )
    one = like(source, f"{tf}.nn.conv1d({rows}, {edits.node_text(source, kernel)}, stride=1, padding='VALID')")
    whole = edits.node_text(source, each).replace(edits.node_text(source, product), one, 1)
    return (
        edits.remove_statement(source, begun[0]),
        edits.replace_node(source, loop, f"{outs} = {whole}"),
        edits.replace_node(source, stack, outs),
        *more,
    )


def _product(source: Source, node: ast.expr) -> ast.Call | None:
    """The product in what a turn appends: by itself, with a bias added, or an activation of that."""
    while True:
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            node = node.left if isinstance(node.left, (ast.Call, ast.BinOp)) else node.right
        elif isinstance(node, ast.Call) and find.called_name(node) in BY_NUMBER and len(node.args) == 1:
            node = node.args[0]
        else:
            break
    if not isinstance(node, ast.Call) or node.keywords or len(node.args) != 3:
        return None
    named = name_bindings.qualified_name(source, node.func) in EINSUMS
    return node if named and isinstance(node.args[0], ast.Constant) and _over_windows(node.args[0].value) else None


def _over_windows(says: object) -> bool:
    """``bkd,kdu->bu`` by whatever letters."""
    if not isinstance(says, str):
        return False
    sides, _, left = says.replace(" ", "").partition("->")
    first, _, second = sides.partition(",")
    return len(first) == 3 and len(second) == 3 and second[:2] == first[1:] and left == first[0] + second[2]


def _assigned(source: Source, loop: ast.For, window: ast.expr) -> ast.expr | None:
    """What is cut out, written in the product or in the statement in front of it, which nothing else needs."""
    first = loop.body[0] if len(loop.body) == 2 else None
    if first is None:
        return window
    if not isinstance(first, ast.Assign) or not isinstance(window, ast.Name):
        return None
    once = ast.unparse(first.targets[0]) == window.id and len(name_bindings.reads_of(source, window.id)) == 1
    return first.value if once else None


def _cut(node: ast.expr, name: str) -> tuple[ast.expr, ast.expr] | None:
    """``x`` and ``k`` of ``x[:, t : t + k]``, ``x[:, t : t + k, :]``."""
    parts = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
    if not isinstance(node, ast.Subscript) or len(parts) not in (2, 3):
        return None
    part, rest = parts[1], (parts[0], *parts[2:])
    end = part.upper if isinstance(part, ast.Slice) and part.step is None else None
    begins = isinstance(part, ast.Slice) and isinstance(part.lower, ast.Name) and part.lower.id == name
    if (
        not begins
        or not all(map(everything, rest))
        or not isinstance(end, ast.BinOp)
        or not isinstance(end.op, ast.Add)
    ):
        return None
    return (node.value, end.right) if isinstance(end.left, ast.Name) and end.left.id == name else None


def _around(each: ast.expr, product: ast.Call) -> set[str]:
    """What is read in ``each`` beside the product."""
    within = {id(n) for n in syntax_tree.walk(product)}
    return {n.id for n in syntax_tree.walk(each) if isinstance(n, ast.Name) and id(n) not in within}
