"""Convolutions written as sums over shifted windows."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import name_bindings
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.values import dataclass

CONVOLUTIONS = {1: "{0}.nn.conv1d({1}, {2}, stride=1, padding='VALID')",
                2: "{0}.nn.conv2d({1}, {2}, strides=1, padding='VALID')"}  # fmt: skip


@dataclass(frozen=True)
class Axis:
    """One loop over shifts: its variable, how many, and how long the window is."""

    name: str
    count: ast.expr
    length: ast.expr | None = None


@dataclass(frozen=True)
class Sum:
    """``total += window * kernel`` over ``axes``; ``filters`` is the loop variable over filters, "" for all at once."""

    nest: ast.For
    total: str
    padded: ast.expr
    kernel: ast.expr
    axes: tuple[Axis, ...]
    filters: str


def convolved(source: Source, line: int) -> tuple[Edit, ...]:
    """One convolution instead of the loops around ``line``; nothing where they are not certain to be one."""
    found = _sum(source, line)
    if found is None:
        return ()
    tf, more = edits.ensure_import(source, "tensorflow", "tf")
    sides = []
    for axis in found.axes:
        if axis.length is None:
            return ()
        sides.append(f":{_term(source, axis.length)} + {_term(source, axis.count)} - 1")
    padded = f"{edits.node_text(source, found.padded)}[:, {', '.join(sides)}]"
    if not found.filters:
        kernel = _whole_kernel(source, found, None)
        if kernel is None:
            return ()
        text = CONVOLUTIONS[len(sides)].format(tf, padded, kernel)
        return (edits.replace_node(source, found.nest, f"{found.total} += {like(source, text)}"), *more)
    return _stacked(source, found, tf, padded, more)


def _stacked(source: Source, found: Sum, tf: str, padded: str, more: list[Edit]) -> tuple[Edit, ...]:
    """A loop over filters around the sum, whose results are stacked along the last axis."""
    outer = find.parents_of(source).get(found.nest)
    if not isinstance(outer, ast.For) or outer.orelse or len(outer.body) != 3 or outer.body[1] is not found.nest:
        return ()
    filters = counted(outer)
    begun, ended = outer.body[0], outer.body[2]
    maps = _appended(ended, found.total)
    if filters is None or filters.name != found.filters or maps is None or not _zero(begun, found.total):
        return ()
    kernel = _whole_kernel(source, found, filters.count)
    read = [n for n in name_bindings.reads_of(source, maps) if n.lineno > (outer.end_lineno or 0)]
    within = find.enclosing_function(source, outer)
    starts = [s for s in _body(source, outer) if isinstance(s, ast.Assign) and ast.unparse(s) == f"{maps} = []"]
    if kernel is None or len(starts) != 1 or len(read) != 1 or find.enclosing_function(source, read[0]) is not within:
        return ()
    stack = find.parents_of(source).get(read[0])
    last = ("-1", str(len(found.axes) + 1))
    axis = find.argument_value(stack, "axis", 1) if isinstance(stack, ast.Call) else None
    if (
        not isinstance(stack, ast.Call)
        or name_bindings.qualified_name(source, stack.func)
        not in ("tensorflow.stack", "keras.ops.stack", "keras.backend.stack")
        or axis is None
        or ast.unparse(axis) not in last
    ):
        return ()
    text = like(source, CONVOLUTIONS[len(found.axes)].format(tf, padded, kernel))
    return (
        edits.remove_statement(source, starts[0]),
        edits.replace_node(source, outer, f"{maps} = {text}"),
        edits.replace_node(source, stack, maps),
        *more,
    )


def _sum(source: Source, line: int) -> Sum | None:
    """The loops over shifts around ``line``, if that is what they are."""
    loops = [
        n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.For) and n.lineno <= line <= (n.end_lineno or 0)
    ]
    loops.sort(key=lambda n: -n.lineno)
    axes: list[Axis] = []
    nest: ast.For | None = None
    for loop in loops:  # from the innermost
        axis = counted(loop)
        if axis is None or loop.orelse or (nest is not None and loop.body != [nest]):
            break
        axes.insert(0, axis)
        nest = loop
    if nest is None or not axes or len(axes) > 2:
        return None
    inner = loops[0].body
    window = inner[0] if len(inner) == 2 and isinstance(inner[0], ast.Assign) else None
    total, product = _added(inner[-1])
    if product is None or len(inner) > (2 if window is not None else 1):
        return None
    return _matched(source, nest, axes, window, total, product)


def _matched(
    source: Source, nest: ast.For, axes: list[Axis], window: ast.Assign | None, total: str, product: ast.expr
) -> Sum | None:
    parts = _factors(source, product)
    if parts is None:
        return None
    left, kernel, summed = parts
    if isinstance(left, ast.Name) and window is not None and ast.unparse(window.targets[0]) == left.id:
        if len(name_bindings.reads_of(source, left.id)) != 1:
            return None
        left = window.value
    elif window is not None:
        return None
    lengths = _window(left, [a.name for a in axes])
    index = _index(kernel, [a.name for a in axes], summed)
    if lengths is None or index is None or not isinstance(left, ast.Subscript) or not isinstance(kernel, ast.Subscript):
        return None
    known = tuple(Axis(a.name, a.count, length) for a, length in zip(axes, lengths, strict=True))
    names = {a.name for a in axes} | {total}
    if any(
        isinstance(n, ast.Name) and n.id in names for part in (left.value, kernel.value) for n in syntax_tree.walk(part)
    ):
        return None
    return Sum(nest, total, left.value, kernel.value, known, index)


def _factors(source: Source, product: ast.expr) -> tuple[ast.expr, ast.expr, bool] | None:
    """Window and kernel of a product over channels, and whether the kernel is of one filter."""
    if isinstance(product, ast.BinOp) and isinstance(product.op, ast.MatMult):
        return product.left, product.right, False
    if not isinstance(product, ast.Call) or not name_bindings.qualified_name(source, product.func).startswith(
        ("tensorflow.", "keras.")
    ):
        return None
    name, given = find.called_name(product), product.args
    if name in ("matmul", "dot") and len(given) == 2 and not product.keywords:
        return given[0], given[1], False
    if name == "tensordot" and len(given) == 3 and ast.unparse(given[2]) == "1" and not product.keywords:
        return given[0], given[1], len(_indices(given[1])) > 2
    if (
        name in ("reduce_sum", "sum")
        and given
        and isinstance(given[0], ast.BinOp)
        and isinstance(given[0].op, ast.Mult)
    ):
        axis = find.argument_value(product, "axis", 1)
        if (
            axis is not None
            and ast.unparse(axis) in ("-1", "[-1]")
            and find.argument_value(product, "keepdims") is None
        ):
            return given[0].left, given[0].right, True
    return None


def _window(node: ast.expr, names: list[str]) -> list[ast.expr] | None:
    """``x[:, i:i + h, j:j + w, :]``: the lengths ``h`` and ``w``."""
    indices = _indices(node)
    whole = [n for n in (indices[:1] + indices[len(names) + 1 :]) if not everything(n)]
    if len(indices) not in (len(names) + 1, len(names) + 2) or whole:
        return None
    lengths = []
    for name, index in zip(names, indices[1:], strict=False):
        if not isinstance(index, ast.Slice) or index.step is not None or not _is(index.lower, name):
            return None
        end = index.upper
        if not isinstance(end, ast.BinOp) or not isinstance(end.op, ast.Add):
            return None
        length = end.right if _is(end.left, name) else end.left if _is(end.right, name) else None
        if length is None or any(isinstance(n, ast.Name) and n.id in names for n in syntax_tree.walk(length)):
            return None
        lengths.append(length)
    return lengths


def _index(node: ast.expr, names: list[str], one_filter: bool) -> str | None:
    """``kernel[i, j, :, f]`` gives ``f``, ``kernel[i, j]`` gives ""; None for anything else."""
    indices = _indices(node)
    if [ast.unparse(n) for n in indices[: len(names)]] != names:
        return None
    rest = indices[len(names) :]
    if one_filter:
        plain = len(rest) == 2 and everything(rest[0]) and isinstance(rest[1], ast.Name)
        return ast.unparse(rest[1]) if plain else None
    return "" if all(everything(n) for n in rest) and len(rest) in (0, 2) else None


def _whole_kernel(source: Source, found: Sum, filters: ast.expr | None) -> str | None:
    """The kernel, of which the loops read all: as its shape says where it is made. None: it is not known."""
    shape = _shape(source, found.kernel)
    counts = [a.count for a in found.axes]
    if shape is None or len(shape) != len(counts) + 2:
        return None
    read = [*zip(shape, counts, strict=False), *([(shape[-1], filters)] if filters is not None else [])]
    if any(ast.unparse(size) != ast.unparse(count) for size, count in read):
        return None
    return edits.node_text(source, found.kernel)


def _shape(source: Source, node: ast.expr) -> list[ast.expr] | None:
    made = []
    for one in syntax_tree.walk(source.tree):
        if isinstance(one, (ast.Assign, ast.AnnAssign)) and one.value is not None:
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            if any(ast.unparse(t) == ast.unparse(node) for t in targets):
                made.append(one.value)
    if len(made) != 1:
        return None
    shapes = [
        s for c in syntax_tree.walk(made[0]) if isinstance(c, ast.Call)
        for s in (*c.args, *(k.value for k in c.keywords if k.arg in ("shape", "size")))
        if isinstance(s, (ast.Tuple, ast.List)) and len(s.elts) >= 3
    ]  # fmt: skip
    return list(shapes[0].elts) if len(shapes) == 1 else None


def counted(loop: ast.For) -> Axis | None:
    """``for i in range(n)``."""
    call = loop.iter
    if isinstance(loop.target, ast.Name) and isinstance(call, ast.Call) and find.called_name(call) == "range":
        return Axis(loop.target.id, call.args[0]) if len(call.args) == 1 else None
    return None


def _added(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    """``total += product``, ``total = total + product``."""
    if (
        isinstance(statement, ast.AugAssign)
        and isinstance(statement.op, ast.Add)
        and isinstance(statement.target, ast.Name)
    ):
        return statement.target.id, statement.value
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        name, value = statement.targets[0].id, statement.value
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and _is(value.left, name):
            return name, value.right
    return "", None


def _appended(statement: ast.stmt, name: str) -> str | None:
    """The list to which ``name`` is appended."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if (
        isinstance(call, ast.Call)
        and find.called_name(call) == "append"
        and len(call.args) == 1
        and _is(call.args[0], name)
    ):
        base = call.func.value if isinstance(call.func, ast.Attribute) else None
        return base.id if isinstance(base, ast.Name) else None
    return None


def _zero(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement) in (f"{name} = 0", f"{name} = 0.0")


def _body(source: Source, statement: ast.stmt) -> list[ast.stmt]:
    holder = find.parents_of(source).get(statement)
    return list(getattr(holder, "body", []))


def _indices(node: ast.expr) -> list[ast.expr]:
    if not isinstance(node, ast.Subscript):
        return []
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def everything(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) and node.lower is None and node.upper is None and node.step is None


def _is(node: ast.expr | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _term(source: Source, node: ast.expr) -> str:
    text = edits.node_text(source, node)
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.Call)) else f"({text})"


def like(source: Source, text: str) -> str:
    """In the quotes that the file uses."""
    return text.replace("'", '"') if source.text.count('"') > source.text.count("'") else text
