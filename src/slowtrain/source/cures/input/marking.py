"""Loops that set elements of arrays at places out of a list, one by one: all places of the list at once."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.evaluators import setting_origins
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.input import feeding_by_hand
from slowtrain.values import dataclass

SIMPLE = (ast.Name, ast.Constant, ast.Attribute, ast.expr_context, ast.UnaryOp, ast.USub)
COMPARED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
GENERATORS = ("numpy.random.default_rng", "numpy.random.RandomState")


@dataclass(frozen=True)
class Mark:
    """``array[row, item] = number``, and the draw that decides about it, if one does."""

    target: ast.Subscript
    array: str
    value: ast.expr
    drawn: ast.Compare | None


def marked(source: Source, line: int) -> list[Edit]:
    """The innermost loop around ``line``, or in its function, that only sets elements at the places of a list."""
    function = source.function_at(line)
    loops = [n for n in syntax_tree.walk(function) if isinstance(n, ast.For)] if function is not None else []
    made = [m for loop in loops if (m := _marked(source, loop))]
    return [edit for one in made for edit in one]


def _marked(source: Source, loop: ast.For) -> list[Edit]:
    if not isinstance(loop.target, ast.Name) or loop.orelse or _counted(loop.iter):
        return []
    item = loop.target.id
    marks = [m for s in loop.body for m in _marks(source, s, item)]
    arrays = {m.array for m in marks}
    if len(marks) != sum(_size(s) for s in loop.body) or len(arrays) != len(marks) or not marks:
        return []  # something else, or one array twice: then the order counts
    if arrays & scope_names.read_names(loop.iter) or len({id(m.drawn) for m in marks if m.drawn is not None}) > 1:
        return []
    if _read_behind(source, loop, item) or any(
        arrays & scope_names.read_names(m.drawn) for m in marks if m.drawn is not None
    ):
        return []
    return _written(source, loop, marks)


def _counted(over: ast.expr) -> bool:
    return isinstance(over, ast.Call) and scope_names.dotted_name(over.func) in ("range", "enumerate", "zip")


def _size(statement: ast.stmt) -> int:
    return len(statement.body) if isinstance(statement, ast.If) else 1


def _marks(source: Source, statement: ast.stmt, item: str, drawn: ast.Compare | None = None) -> list[Mark]:
    if isinstance(statement, ast.If) and drawn is None and not statement.orelse:
        test = statement.test
        if not isinstance(test, ast.Compare) or not _draw(source, test, item):
            return []
        return [m for s in statement.body for m in _marks(source, s, item, test)]
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return []
    target, number = statement.targets[0], statement.value
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        return []
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    places = [p for p in parts if isinstance(p, ast.Name) and p.id == item]
    others = [p for p in parts if p not in places]
    same = all(_one_place(source, p) for p in others) and item not in scope_names.read_names(others)
    size = number.operand if isinstance(number, ast.UnaryOp) and isinstance(number.op, ast.USub) else number
    plain = isinstance(size, ast.Constant) and isinstance(size.value, (int, float))
    if len(places) != 1 or not same or not plain or not _made_here(source, target.value):
        return []
    return [Mark(target, target.value.id, number, drawn)]


def _one_place(source: Source, node: ast.expr) -> bool:
    """A number, or what a loop over ``range`` or ``enumerate`` counts: with an array the places would go in pairs."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    bound = (
        list(name_bindings.bindings_of(name_bindings.binding_scope(source, node, node.id), node.id))
        if isinstance(node, ast.Name)
        else []
    )
    above = node_lookup.parents_of(source)
    holder = above.get(bound[0]) if len(bound) == 1 else None
    first = not isinstance(holder, ast.Tuple) or holder.elts[0] is bound[0]
    loop = above.get(holder) if isinstance(holder, ast.Tuple) else holder
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return False
    return scope_names.dotted_name(loop.iter.func) == ("enumerate" if loop is not holder else "range") and first


def _made_here(source: Source, array: ast.Name) -> bool:
    """Whether an array was made anew in the same function, so that no two names are one array."""
    made = name_bindings.single_assignment(source, array)
    last = name_bindings.qualified_name(source, made.func) if isinstance(made, ast.Call) else ""
    fresh = last in ("numpy.zeros", "numpy.ones", "numpy.empty", "numpy.full")
    return (
        fresh and node_lookup.enclosing_function(source, array) is node_lookup.enclosing_function(source, made)
        if made is not None
        else False
    )


def _draw(source: Source, test: ast.Compare, item: str) -> bool:
    """``rng.random() < share``: NumPy draws as many at once in the same order."""
    call, share = test.left, test.comparators[0]
    if len(test.ops) != 1 or not isinstance(test.ops[0], COMPARED) or not isinstance(call, ast.Call):
        return False
    if call.args or call.keywords or not isinstance(call.func, ast.Attribute) or item in scope_names.read_names(share):
        return False
    told = edits.node_text(source, test).startswith(edits.node_text(source, call))
    if not told or not all(isinstance(n, SIMPLE) for n in syntax_tree.walk(share)):
        return False
    return call.func.attr in ("random", "random_sample", "rand") and _generator(source, call.func.value)


def _generator(source: Source, owner: ast.expr) -> bool:
    made = setting_origins.written_value(source, owner)
    whole = name_bindings.qualified_name(source, made.func) if isinstance(made, ast.Call) else ""
    return whole in GENERATORS or name_bindings.qualified_name(source, owner) == "numpy.random"


def _read_behind(source: Source, loop: ast.For, item: str) -> bool:
    inside = {id(n) for n in syntax_tree.walk(loop)}
    names = (
        n
        for n in syntax_tree.walk(scope_names.enclosing_scope(source, loop))
        if isinstance(n, ast.Name) and id(n) not in inside
    )
    return any(n.id == item for n in names)


def _written(source: Source, loop: ast.For, marks: list[Mark]) -> list[Edit]:
    numpy, also = edits.ensure_import(source, "numpy", "np")
    row = source.text.split("\n")[loop.lineno - 1]
    indent = row.encode()[: loop.col_offset].decode()
    if also or indent.strip():
        return []
    all_ = feeding_by_hand.fresh(source, "places", [])
    kept = feeding_by_hand.fresh(source, "taken", [])
    # Only whole numbers may be places, so nothing is lost; of a list that is empty the format has to be said.
    rows = [f"{all_} = {numpy}.fromiter({edits.node_text(source, loop.iter)}, {numpy}.int64)"]
    drawn = next((m.drawn for m in marks if m.drawn is not None), None)
    if drawn is not None:
        call = drawn.left
        assert isinstance(call, ast.Call)
        draw = edits.node_text(source, call.func)
        rest = edits.node_text(source, drawn)[len(edits.node_text(source, call)) :]
        rows.append(f"{kept} = {all_}[{draw}(len({all_})){rest}]")
    for mark in marks:
        index = mark.target.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        item = scope_names.dotted_name(loop.target)
        used = kept if mark.drawn is not None else all_
        text = ", ".join(used if scope_names.dotted_name(p) == item else edits.node_text(source, p) for p in parts)
        rows.append(f"{mark.array}[{text}] = {edits.node_text(source, mark.value)}")
    return [edits.replace_node(source, loop, f"\n{indent}".join(rows))]
