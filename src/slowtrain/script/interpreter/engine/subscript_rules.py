"""The interpreter's subscripts: items, slices and masks."""

from __future__ import annotations

import ast

from slowtrain.script.interpreter.domain import operators, shape_rules
from slowtrain.script.interpreter.domain.abstract_values import EACH_ITEM, NO_VALUE, NOT_KNOWN, Value
from slowtrain.script.interpreter.domain.run_context import RunContext, Scope
from slowtrain.script.interpreter.library import data_calls


def subscript_value(machine: RunContext, node: ast.Subscript, scope: Scope) -> Value:
    held = machine.value(node.value, scope)
    cut = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not any(isinstance(one, ast.Slice) or _adds_axis(one, held) for one in cut):
        key = machine.value(node.slice, scope)
        part = data_calls.table_subscript(held, key) if data_calls.is_pandas(held) else None
        if part is not None:
            return part.varying_in(v for one in key.inside(1) for v in one.varies)
        found = operators.item_value(held, NOT_KNOWN if key.varies else key.known)
        if held.kind == "array" and key.kind == "array":  # rows by index, or by a mask
            masked = key.dtype == "bool"
            rows = (None,) if masked or key.shape is None else key.shape
            taken = len(key.shape) if masked and key.shape else 1  # the axes of a mask
            shape = (*rows, *held.shape[taken:]) if held.shape else None
            found = found.with_fields(ragged=key.varies if masked else key.ragged, shape=shape)
        elif (
            found.shape is not None and held.kind != "dict" and key.kind != "number"
        ):  # a slice under a name, or indices on several axes
            single = key.kind == "tuple" and all(one.kind == "number" for one in key.items.values())
            found = found.with_fields(shape=held.shape[len(cut) :] if single and held.shape else None)
        ended = found.ragged - set(machine.depth()) if held.kind in ("list", "tuple") else frozenset[int]()
        if not all(map(machine.has_few_turns, ended)):  # made in turns of a loop that has ended
            found = found.with_fields(ragged=found.ragged | key.varies)
        return found.varying_in(v for one in key.inside(1) for v in one.varies)
    parts = [machine.value(p, scope) for one in cut if isinstance(one, ast.Slice)
             for p in (one.lower, one.upper, one.step) if p is not None]  # fmt: skip
    varies = frozenset(v for p in parts for v in p.varies)
    if held.kind in ("list", "tuple"):
        whole = (operators.known_length(held),)
        shape = shape_rules.sliced_shape(whole, cut, lambda one, rows: _sliced_rows(machine, one, rows, scope))
        return held.with_fields(known=NOT_KNOWN, data="open", shape=None if shape == (None,) else shape).varying_in(
            varies
        )
    ragged = frozenset(v for one in cut if isinstance(one, ast.Slice) for v in _uneven_loops(machine, one, scope))
    shape = shape_rules.sliced_shape(held.shape, cut, lambda one, rows: _sliced_rows(machine, one, rows, scope))
    column = len(cut) > 1 and any(isinstance(one, (ast.Constant, ast.UnaryOp)) for one in cut[1:])
    kept = held.ragged - {EACH_ITEM} if column else held.ragged  # a column of padded rows
    return operators.item_value(held, NOT_KNOWN).varying_in(varies).with_fields(ragged=kept | ragged, shape=shape)


def _adds_axis(one: ast.expr, held: Value) -> bool:
    """Whether it is ``...``, or ``None`` as a new axis; no key."""
    plain = isinstance(one, ast.Constant) and one.value is None and held.kind in ("array", "tensor", "variable")
    return plain or (isinstance(one, ast.Constant) and one.value is ...)


def _sliced_rows(machine: RunContext, cut: ast.Slice, rows: int | None, scope: Scope) -> int | None:
    """The number of rows that a slice takes of ``rows``; None if unknown."""
    low, high = cut.lower, cut.upper
    if low is None and high is None and cut.step is None:
        return rows
    apart = _window_length_node(low, high) if cut.step is None else None
    if apart is not None:
        wide = machine.value(apart, scope)
        return wide.known if isinstance(wide.known, int) and not wide.varies else None
    ends = [machine.value(one, scope) if one is not None else NO_VALUE for one in (low, high, cut.step)]
    known = [one.known for one in ends]
    if any(one.varies or not isinstance(one.known, int | None) for one in ends) or known[2] == 0:
        return None
    if rows is None:  # an upper bound
        ahead = known[2] is None and isinstance(known[1], int) and known[1] > 0 <= (known[0] or 0)
        return max(known[1] - (known[0] or 0), 0) if ahead else None
    return len(range(rows)[slice(*known)])


def slice_length_node(cut: ast.Slice) -> ast.expr | None:
    """What the length of a slice is at most: ``n`` of ``x[:n]`` and ``x[i : i + n]``."""
    if cut.step is not None:
        return None
    return cut.upper if cut.lower is None else _window_length_node(cut.lower, cut.upper)


def _window_length_node(low: ast.expr | None, high: ast.expr | None) -> ast.expr | None:
    """The length of a slice whose ends move together: ``n`` of ``x[i : i + n]`` and ``x[i * n : (i + 1) * n]``."""
    if low is None or not isinstance(high, ast.BinOp):
        return None
    if isinstance(high.op, ast.Add) and ast.dump(high.left) == ast.dump(low):
        return high.right
    if not isinstance(high.op, ast.Mult) or not isinstance(low, ast.BinOp) or not isinstance(low.op, ast.Mult):
        return None
    next_ = high.left if isinstance(high.left, ast.BinOp) and isinstance(high.left.op, ast.Add) else None
    one = next_ is not None and isinstance(next_.right, ast.Constant) and next_.right.value == 1
    if next_ is None or not one or ast.dump(next_.left) != ast.dump(low.left):
        return None
    return high.right if ast.dump(high.right) == ast.dump(low.right) else None


def _uneven_loops(machine: RunContext, cut: ast.Slice, scope: Scope) -> frozenset[int]:
    """The loops in whose turns a slice's length changes, since its ends do not move together."""
    low = machine.value(cut.lower, scope).varies if cut.lower is not None else frozenset()
    high = machine.value(cut.upper, scope).varies if cut.upper is not None else frozenset()
    if cut.upper is None or not high:
        return frozenset()  # the remainder: one turn in many, as with batches
    if cut.lower is None:
        return high
    apart = isinstance(cut.lower, ast.Subscript) and isinstance(cut.upper, ast.Subscript)  # x[ends[i] : ends[i + 1]]
    return high if apart and low & high else frozenset()
