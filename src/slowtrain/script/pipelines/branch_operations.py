"""Operations on a data set, and branches and loops that apply one."""

from __future__ import annotations

import ast

from slowtrain.script.navigation import node_lookup, scope_names

DATASET_OPERATIONS = frozenset(
    "apply batch bucket_by_sequence_length cache concatenate enumerate filter flat_map group_by_window ignore_errors "
    "interleave map padded_batch prefetch ragged_batch rebatch repeat scan shard shuffle skip snapshot "
    "sparse_batch take take_while unbatch unique window with_options".split()
)


def is_operation(call: ast.Call) -> bool:
    """Whether ``call`` may be an operation on a data set: a method of such a name."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in DATASET_OPERATIONS


def repeated_operation(block: ast.stmt, name: str) -> ast.Assign | None:
    """The statement of a branch or loop that rebinds ``name`` with operations on itself; None if it does otherwise."""
    if isinstance(block, ast.For) and name in scope_names.bound_names(block.target):
        return None
    body = [s for s in getattr(block, "body", ()) if name in scope_names.bound_names(s)]
    other = [s for s in getattr(block, "orelse", ()) if name in scope_names.bound_names(s)]
    if len(body) > 1 or len(other) > 1:
        return None
    found = [_own_operation(one, name) for one in (*body, *other)]
    known = [one for one in found if one is not None]
    alike = len({_operation_names(one) for one in known}) == 1
    return known[0] if alike and len(known) == len(found) else None


def _own_operation(statement: ast.stmt, name: str) -> ast.Assign | None:
    """``ds = ds.shuffle(n)``, also in an ``if`` or a loop inside; else None."""
    if isinstance(statement, (ast.If, ast.For)):
        return repeated_operation(statement, name)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    calls = list(node_lookup.chain_calls(statement.value))
    root = calls[-1].func if calls and all(is_operation(c) for c in calls) else None
    itself = isinstance(root, ast.Attribute) and isinstance(root.value, ast.Name) and root.value.id == name
    return statement if itself and isinstance(statement.targets[0], ast.Name) else None


def _operation_names(statement: ast.Assign) -> tuple[str, ...]:
    return tuple(node_lookup.called_name(c) for c in node_lookup.chain_calls(statement.value))
