"""Ranks of NumPy arrays, as far as the text shows them: how they are created, passed and iterated."""

from __future__ import annotations

import ast

from slowtrain.source import FUNCTIONS, Source, trees
from slowtrain.source.reading import finding, kinds, scopes, values

MAKERS = frozenset(
    "zeros ones empty full rand random randn normal uniform randint integers standard_normal poisson".split()
)
SAME_RANK = frozenset("pad zeros_like ones_like empty_like full_like copy sqrt exp abs log array asarray clip".split())

# Functions and methods that give lists.
LISTS = frozenset("tolist list tuple sorted split array_split hsplit vsplit dsplit meshgrid".split())
TEXTS = frozenset({"keras.datasets.imdb.load_data", "keras.datasets.reuters.load_data"})  # one list per sample
STORES = frozenset({"h5py", "zarr", "netCDF4", "tables"})  # packages whose arrays are in files and have a shape too

Rank = tuple[str, int]  # name of the array of unknown rank or "", and the rank relative to it
SCALAR: Rank = ("", 0)


def rank(source: Source, node: ast.AST, depth: int = 6) -> Rank | None:
    """The rank of an array: ("", n), or (name, n) relative to the unknown rank of a name. None if unknown."""
    if isinstance(node, ast.Name):
        return _of_name(source, node, depth) if depth else None
    if isinstance(node, ast.Call):
        return _of_call(source, node, depth)
    if isinstance(node, ast.BinOp):
        sides = [rank(source, s, depth) for s in (node.left, node.right) if not isinstance(s, ast.Constant)]
        return sides[0] if sides and all(s == sides[0] for s in sides) else None
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return SCALAR
    return None


def _of_name(source: Source, node: ast.Name, depth: int) -> Rank | None:
    item = _in_comprehension(source, node, depth)
    if item is not None:
        return item
    scope = kinds.where_bound(source, node)
    if scope is None:
        return None
    found = scopes.binders(source, node.id, scope)
    if isinstance(scope, FUNCTIONS) and node.id in scopes.parameters(scope):
        if found:
            return None
        given = [rank(source, g, depth - 1) for g in kinds.given_to(source, scope, node.id)]
        given += [_of_item(source, c, depth) for c in _mapped(source, scope)]
        known = bool(given) and all(g is not None and g == given[0] and not g[0] for g in given)
        return given[0] if known else (node.id, 0)
    if len(found) == 1 and isinstance(found[0], ast.Assign) and isinstance(found[0].targets[0], ast.Name):
        inner = rank(source, found[0].value, depth - 1)
        return inner if inner is not None else (node.id, 0)
    each = [n.value for n in found if isinstance(n, ast.Assign)]
    if each and len(each) == len(found) and all(kinds.of(source, v) == kinds.ARRAY for v in each):
        return (node.id, 0)  # an array, whichever assignment was last
    if len(found) == 1 and isinstance(found[0], ast.For) and isinstance(found[0].target, ast.Name):
        over = rank(source, found[0].iter, depth - 1)
        return (over[0], over[1] - 1) if over is not None else None
    return None


def _in_comprehension(source: Source, node: ast.Name, depth: int) -> Rank | None:
    """The rank of a name that a comprehension binds to the items of an array."""
    above = finding.parents(source)
    at = above.get(node)
    while at is not None and not isinstance(at, ast.stmt):
        for one in getattr(at, "generators", []):
            if isinstance(one.target, ast.Name) and one.target.id == node.id:
                over = rank(source, one.iter, depth - 1)
                return (over[0], over[1] - 1) if over is not None else None
        at = above.get(at)
    return None


def _mapped(source: Source, function: ast.AST) -> list[ast.Call]:
    """Calls that may apply the function to items: ``map(f, a)``."""
    name = getattr(function, "name", "")
    calls = (n for n in trees.walk(source.tree) if isinstance(n, ast.Call))
    return [c for c in calls if any(isinstance(a, ast.Name) and a.id == name for a in c.args)]


def _of_item(source: Source, call: ast.Call, depth: int) -> Rank | None:
    over = rank(source, call.args[1], depth - 1) if finding.called(call) == "map" and len(call.args) == 2 else None
    return (over[0], over[1] - 1) if over is not None else None


def _of_call(source: Source, call: ast.Call, depth: int) -> Rank | None:
    name, whole = finding.called(call), scopes.full(source, call.func)
    if name in ("astype", "copy") and isinstance(call.func, ast.Attribute) and not whole.startswith("numpy."):
        return rank(source, call.func.value, depth)
    if name in ("rand", "randn") and call.args:
        return ("", len(call.args))
    if name in MAKERS:
        return _of_shape(source, call, depth)
    if name in ("array", "asarray") and call.args:
        return _of_literal(source, call.args[0], depth)
    if name in SAME_RANK and whole.startswith("numpy.") and call.args:
        return rank(source, call.args[0], depth)
    return ("", 1) if whole in ("numpy.linspace", "numpy.arange") else None


def _of_shape(source: Source, call: ast.Call, depth: int) -> Rank | None:
    """The rank of an array created from a shape argument, which is first or last."""
    shape = finding.keyword(call, "size") or finding.keyword(call, "shape")
    if shape is None and call.args:
        first = finding.called(call) in ("zeros", "ones", "empty", "full", "random", "standard_normal")
        shape = call.args[0 if first else -1]
    if isinstance(shape, (ast.Tuple, ast.List)):
        return ("", len(shape.elts))
    if isinstance(shape, ast.Attribute) and shape.attr == "shape":
        return rank(source, shape.value, depth)
    counted = isinstance(shape, ast.Call) and finding.called(shape) == "len"
    counted = counted or (isinstance(shape, ast.Subscript) and isinstance(shape.value, ast.Attribute))
    return ("", 1) if counted or (isinstance(shape, ast.Constant) and isinstance(shape.value, int)) else None


def _of_literal(source: Source, node: ast.AST, depth: int) -> Rank | None:
    levels = 0
    while isinstance(node, (ast.List, ast.Tuple)) and node.elts:
        levels, node = levels + 1, node.elts[0]
    if isinstance(node, (ast.UnaryOp, ast.Constant)):
        return ("", levels)
    return rank(source, node, depth) if not levels and not isinstance(node, (ast.ListComp, ast.GeneratorExp)) else None


def isarray(source: Source, name: ast.Name) -> bool:
    """Whether ``name`` holds a NumPy array: created by NumPy, or its shape is read in the same scope."""
    if kinds.of(source, name) == kinds.ARRAY:
        return True
    found = rank(source, name)
    if found is not None and not found[0] and found[1] > 0:
        return True
    scope = kinds.where_bound(source, name)
    shapes = (
        [n for n in trees.walk(scope) if isinstance(n, ast.Attribute) and n.attr in ("shape", "ndim")] if scope else []
    )
    return any(isinstance(n.value, ast.Name) and n.value.id == name.id for n in shapes)


def regular(source: Source, name: ast.Name) -> bool:
    """Whether ``name`` holds one NumPy array with rows of equal shape; not a list of arrays, nor a file's array."""
    if not isarray(source, name) or (STORES & source.words and kinds.of(source, name) != kinds.ARRAY):
        return False
    stored = values.stores(values.scope(source, name, name.id), name.id)
    given = [one for store in stored for one in _given(source, store)]
    padded = any(isinstance(one, ast.Call) and finding.called(one) == "pad_sequences" for one in given)
    return padded or not any(_listed(source, one) for one in given)


def _given(source: Source, store: ast.AST) -> list[ast.expr]:
    """The values that an assignment or the calls of a function give a name, with names resolved once."""
    function = finding.function(source, store) if isinstance(store, ast.arg) else None
    found = list(kinds.given_to(source, function, store.arg)) if function and isinstance(store, ast.arg) else []
    statement = finding.statement(source, store) if isinstance(store, ast.Name) else None
    if isinstance(store, ast.Name) and isinstance(statement, (ast.Assign, ast.AnnAssign)):
        one = values.given(source, store) or statement.value  # (x, y), _ = load_data()
        found += [one] if one is not None else []
    return [(values.assigned(source, one) if isinstance(one, ast.Name) else None) or one for one in found]


def _listed(source: Source, node: ast.expr) -> bool:
    """Whether an expression gives a list, or an array of objects."""
    if not isinstance(node, ast.Call):
        return isinstance(node, (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp))
    kind = finding.keyword(node, "dtype", 1)
    objects = kind is not None and (scopes.dotted(kind) or getattr(kind, "value", "")) in ("object", "O", "object_")
    pickled = finding.keyword(node, "allow_pickle") is not None
    return finding.called(node) in LISTS or values.qualified(source, node.func) in TEXTS or objects or pickled
