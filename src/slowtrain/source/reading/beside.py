"""What the turns of a loop do beside one call: whether they leave as it was all that the call is given."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from slowtrain.source import Source, trees
from slowtrain.source.reading import finding, kinds, scopes, values

# Statements that always come to the next one, and change nothing but what they store.
PLAIN = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.Pass)
LEAVING = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
# Of NumPy: those that write into what they are given.
WRITING = frozenset("at copyto fill_diagonal place put put_along_axis putmask shuffle".split())
BUILTINS = frozenset(
    "abs all any bool dict divmod enumerate float format int isinstance len list max min pow print range repr reversed "
    "round set sorted str sum tuple zip".split()
)
READING = frozenset(
    "all any argmax argmin argsort astype clip copy count cumsum dot endswith flatten format get index item items join "
    "keys lower max mean min numpy ravel replace reshape round split squeeze startswith std strip sum tolist transpose "
    "upper values var".split()
)
ADDING = frozenset("append extend add update".split())
EMPTY = frozenset("zeros ones empty full zeros_like ones_like empty_like full_like".split())
MADE = frozenset("dict list set int float Counter defaultdict deque".split())
LITERALS = (ast.Constant, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.BinOp, ast.Compare)


def leaves(source: Source, body: Sequence[ast.AST], call: ast.Call, used: Collection[str], made: str = "") -> bool:
    """Whether ``body``, which holds ``call``, surely changes nothing of what the names ``used`` hold, in every turn.

    Nor of what ``made`` does, to which it gives a value itself. It runs to its end, calls only what reads or adds to
    lists, and stores only in what the script made for it.
    """
    if set(used) & scopes.bound(body):
        return False
    used = {*used, made}
    return all(_leaves(source, node, call, used) for one in body for node in trees.walk(one))


def _leaves(source: Source, node: ast.AST, call: ast.Call, used: Collection[str]) -> bool:
    if isinstance(node, ast.stmt) and not isinstance(node, PLAIN):
        return False
    if isinstance(node, ast.Call):
        return node is call or _reads(source, node, used)
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return _own(source, node.target, call)
    if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
        base = node.value
        mine = isinstance(node, ast.Subscript) and isinstance(base, ast.Name) and base.id not in used
        return mine and isinstance(base, ast.Name) and _own(source, base, call)
    return not isinstance(node, LEAVING)


def _reads(source: Source, call: ast.Call, used: Collection[str]) -> bool:
    """Whether a call only reads what it is given, or adds to a list, a set or a mapping."""
    name, whole = finding.called(call), values.qualified(source, call.func)
    if any(k.arg in (None, "out") for k in call.keywords):
        return False
    if whole.startswith(("numpy.", "math.")):
        return name not in WRITING
    if isinstance(call.func, ast.Name):
        return not whole and name in BUILTINS and name not in scopes.bound(source.tree.body)
    if not isinstance(call.func, ast.Attribute) or whole:
        return False
    root = scopes.dotted(call.func.value).partition(".")[0]
    return name in READING or (name in ADDING and bool(root) and root not in used)


def _own(source: Source, name: ast.Name, call: ast.Call) -> bool:
    """Whether a name holds nothing but what was made for it: no view of another array."""
    scope = kinds.where_bound(source, name)
    stored = values.stores(scope, name.id) if scope is not None else []
    if not stored or name.id in values.shared(source):
        return False
    return all(isinstance(one, ast.Name) and _made(source, one, call) for one in stored)


def _made(source: Source, target: ast.Name, call: ast.Call) -> bool:
    if isinstance(finding.parents(source).get(target), ast.AugAssign):
        return True
    value = values.given(source, target)
    while isinstance(value, ast.Subscript):  # of what was predicted for this turn alone
        value = value.value
        if value is call:
            return True
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    if isinstance(value, ast.Call):
        whole = values.qualified(source, value.func)
        return value is call or finding.called(value) in (EMPTY if whole.startswith("numpy.") else MADE)
    return isinstance(value, LITERALS)
