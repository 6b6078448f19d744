"""A row worked on in small pieces, one after another: worked on as a whole."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

MAKERS = ("numpy.zeros", "numpy.ones", "numpy.empty", "numpy.full")
# Of NumPy, each element by itself: what stands beside it in the piece does not count.
ELEMENTWISE = frozenset(
    "interp sqrt abs absolute fabs sign floor ceil rint trunc square negative clip isnan isfinite round around".split()
)


def untiled(source: Source, line: int) -> list[Edit]:
    """``for j in range(0, n, 4): out[i, j:j+4] = np.interp(at[j:j+4], x, y)`` at ``line``, or called there, at once."""
    for loop in _loops(source, line):
        found = _whole(source, loop)
        if found is not None:
            return [found]
    return []


def _loops(source: Source, line: int) -> Iterator[ast.For]:
    """The loops that hold the line, and those of functions that the innermost of them calls; the innermost first."""
    every = [n for n in call_index.nodes_of_kind(source, ast.For) if isinstance(n, ast.For)]
    holding = sorted((n for n in every if n.lineno <= line <= (n.end_lineno or 0)), key=lambda n: -n.lineno)
    inside = {id(n) for one in holding[:1] for s in one.body for f in source.called(s)[1:] for n in syntax_tree.walk(f)}
    yield from holding
    yield from sorted((n for n in every if id(n) in inside and n not in holding), key=lambda n: -n.lineno)


def _whole(source: Source, loop: ast.For) -> Edit | None:
    over, target, put = loop.iter, loop.target, loop.body[0]
    if (
        not isinstance(over, ast.Call)
        or scope_names.dotted_name(over.func) != "range"
        or len(over.args) != 3
        or loop.orelse
    ):
        return None
    first, stop, step = over.args
    if not isinstance(target, ast.Name) or not (isinstance(first, ast.Constant) and first.value == 0):
        return None
    if not isinstance(put, ast.Assign) or len(loop.body) != 1 or len(put.targets) != 1:
        return None
    size = step.value if isinstance(step, ast.Constant) else None
    if not isinstance(size, int) or size < 1 or not _plain(stop) or _used_after(source, loop, target.id):
        return None
    pieces = [n for n in syntax_tree.walk(put) if isinstance(n, ast.Slice) and _is_piece(n, target.id, size)]
    uses = [n for n in syntax_tree.walk(put) if isinstance(n, ast.Name) and n.id == target.id]
    to, value = put.targets[0], put.value
    if len(uses) != 2 * len(pieces) or not isinstance(to, ast.Subscript) or not _last(to, pieces):
        return None
    if not _by_itself(source, value, pieces, target.id) or scope_names.dotted_name(to.value) in scope_names.read_names(
        value
    ):
        return None
    if any(
        isinstance(n, ast.Call) and node_lookup.called_name(n) == "interp" for n in syntax_tree.walk(value)
    ) and not _new(source, to):
        return None  # what is put in could change the table that the next piece is looked up in
    text = edits.node_text(source, stop)
    known = stop.value if isinstance(stop, ast.Constant) else None
    end = text if isinstance(known, int) and known % size == 0 else f"-(-{text} // {size}) * {size}"
    changed = edits.edited_text(source, [Edit(source.file, _start(n), _end(n), f":{end}") for n in pieces])
    shift = len(changed.encode()) - len(source.text.encode())
    rows = changed.split("\n")
    if put.lineno != put.end_lineno:
        return None
    row = rows[put.lineno - 1].encode()[put.col_offset : (put.end_col_offset or 0) + shift].decode()
    return edits.replace_node(source, loop, row)


def _new(source: Source, to: ast.Subscript) -> bool:
    """Whether what is written to is an array of its own."""
    made = name_bindings.single_assignment(source, to.value) if isinstance(to.value, ast.Name) else None
    return isinstance(made, ast.Call) and scope_names.resolved_name(source, made.func).removesuffix("_like") in MAKERS


def _start(node: ast.Slice) -> tuple[int, int]:
    return edits.node_start(node.lower) if node.lower is not None else edits.node_start(node)


def _end(node: ast.Slice) -> tuple[int, int]:
    return edits.node_end(node.upper) if node.upper is not None else edits.node_end(node)


def _plain(stop: ast.expr) -> bool:
    """Whether the end of the row is the same however often it is asked for."""
    if isinstance(stop, ast.Call):
        return (
            scope_names.dotted_name(stop.func) == "len" and len(stop.args) == 1 and isinstance(stop.args[0], ast.Name)
        )
    return isinstance(stop, (ast.Name, ast.Constant))


def _is_piece(node: ast.Slice, name: str, size: int) -> bool:
    """``j:j + 4``."""
    upper = node.upper
    if (
        scope_names.dotted_name(node.lower or ast.Constant(0)) != name
        or node.step is not None
        or not isinstance(upper, ast.BinOp)
    ):
        return False
    sides = {ast.unparse(upper.left), ast.unparse(upper.right)}
    return isinstance(upper.op, ast.Add) and sides == {name, str(size)}


def _last(node: ast.Subscript, pieces: list[ast.Slice]) -> bool:
    """Whether the piece is of the last axis that is named, and of a name's own array."""
    given = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    others = [p for p in given[:-1] if isinstance(p, (ast.Name, ast.Constant))]
    return isinstance(node.value, ast.Name) and given[-1] in pieces and len(others) == len(given) - 1


def _by_itself(source: Source, value: ast.expr, pieces: list[ast.Slice], name: str) -> bool:
    """Whether each element of the value comes of the same element of a piece, and of what is the same in all turns."""
    if isinstance(value, ast.Subscript):
        return _last(value, pieces)
    if isinstance(value, ast.BinOp):
        sides = [s for s in (value.left, value.right) if not isinstance(s, ast.Constant)]
        plain = isinstance(value.op, (ast.Add, ast.Sub, ast.Mult, ast.Div))
        return plain and bool(sides) and all(_by_itself(source, s, pieces, name) for s in sides)
    if not isinstance(value, ast.Call) or not value.args or value.keywords:
        return False
    if (
        not scope_names.resolved_name(source, value.func).startswith("numpy.")
        or node_lookup.called_name(value) not in ELEMENTWISE
    ):
        return False
    others = value.args[1:]
    fixed = all(isinstance(a, ast.Constant) for a in others) or node_lookup.called_name(value) == "interp"
    return fixed and name not in scope_names.read_names(others) and _by_itself(source, value.args[0], pieces, name)


def _used_after(source: Source, loop: ast.For, name: str) -> bool:
    inside = {id(n) for n in syntax_tree.walk(loop)}
    nodes = scope_names.nodes_in_scope(scope_names.scope_body(scope_names.enclosing_scope(source, loop)))
    return any(isinstance(n, ast.Name) and n.id == name and id(n) not in inside for n in nodes)
