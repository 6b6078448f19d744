"""Loops over elements that add each to a place of an array that the element itself names: ``np.add.at`` by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import Source, trees
from slowtrain.source.reading import finding, kinds, objects, ranks, scopes, values

PLAIN = frozenset("int float min max abs round bool len range enumerate zip".split())


def into_places(source: Source, loop: ast.For) -> bool:
    """Whether every turn does nothing but numbers, and stores into an array where what the loop goes through says."""
    body = [n for one in loop.body for n in trees.walk(one)]
    statements = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.If, ast.Continue, ast.For)
    if loop.orelse or not all(isinstance(n, statements) for n in body if isinstance(n, ast.stmt)):
        return False
    stored = [n for n in body if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    roots = {scopes.dotted(n.value) for n in stored}
    if not stored or not all(_array(source, n.value) for n in stored) or _carried(loop):
        return False
    of_turn = _of_turn(loop)
    if not all(scopes.read(n.slice) & of_turn and _single(n.slice) for n in stored):
        return False
    read = (n for n in body if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load))
    if any(scopes.dotted(n.value) in roots for n in read):
        return False  # a turn may need what an earlier one has stored
    return all(_numeric(source, n) for n in body if isinstance(n, ast.Call))


def _single(at: ast.expr) -> bool:
    """Whether an index is one place, and not a row: several numbers, no slice."""
    parts = at.elts if isinstance(at, ast.Tuple) else [at]
    return not any(isinstance(p, (ast.Slice, ast.Starred)) or _is_open(p) for p in parts)


def _is_open(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value in (None, Ellipsis)


def _array(source: Source, node: ast.expr) -> bool:
    """Whether it is an array of NumPy's own making, and of as many axes as the file says."""
    if isinstance(node, ast.Name):
        return kinds.of(source, node) == kinds.ARRAY and ranks.rank(source, node) is not None
    if not isinstance(node, ast.Attribute) or not objects.of_self(node):
        return False
    given = [values.given(source, one) for one in objects.stores(source, node.attr)]
    return bool(given) and all(v is not None and kinds.of(source, v) == kinds.ARRAY for v in given)


def _of_turn(loop: ast.For) -> set[str]:
    """The loop's target, inner ones, and names computed of them."""
    found = scopes.bound(loop.target)
    for _ in range(3):
        for node in _inside(loop):
            if isinstance(node, ast.Assign) and scopes.read(node.value) & found:
                found |= {n.id for t in node.targets for n in trees.walk(t) if isinstance(n, ast.Name) and _stored(n)}
            elif isinstance(node, ast.For):
                found |= scopes.bound(node.target)
    return found


def _inside(loop: ast.For) -> Iterator[ast.AST]:
    return (n for one in loop.body for n in trees.walk(one))


def _stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _carried(loop: ast.For) -> bool:
    """Whether a name takes something from one turn into the next: it is read before it is given, or added to."""
    names = scopes.bound(loop.body)
    given: set[str] = set()
    for one in loop.body:
        if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
            return True
        if isinstance(one, (ast.If, ast.For)):
            later = [n for n in trees.walk(one) if isinstance(n, ast.AugAssign)]
            if any(isinstance(n.target, ast.Name) for n in later):
                return True
            inner = scopes.bound(one.body) | (scopes.bound(one.target) if isinstance(one, ast.For) else set())
            if (scopes.read(one) - inner) & (names - given):
                return True
            given |= inner
            continue
        value = getattr(one, "value", None)
        if value is not None and scopes.read(value) & (names - given):
            return True
        given |= scopes.bound(one)
    return False


def _numeric(source: Source, call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name) and call.func.id in PLAIN:
        return finding.defined(source, call.func.id) is None
    whole = values.qualified(source, call.func)
    return whole.startswith(("numpy.", "math.")) and not whole.startswith(("numpy.random.", "numpy.load"))
