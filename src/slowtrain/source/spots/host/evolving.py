"""Python numbers, objects of them, and shapes that are others from turn to turn: followed to where they are made."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slowtrain.source import FUNCTIONS, Source, trees
from slowtrain.source.reading import finding, following, kinds, objects, scopes, sizes, values, visible
from slowtrain.source.spots.host import items

Seen = frozenset[tuple[str, ast.AST | None]]  # names, each with the scope that binds it, taken for numbers
DEPTH = 6
MADE_NUMBERS = frozenset({"float", "int", "round", "abs", "min", "max"})
TYPES = frozenset({"float", "int"})
# Of Python's own ``random`` and of NumPy's, which without a size gives such numbers as well; not its whole ones.
DRAWS = frozenset("random uniform normal gauss betavariate triangular standard_normal random_sample rand randn".split())
WHOLE_DRAWS = frozenset({"randint", "randrange", "integers"})


@dataclass(frozen=True)
class Given:
    """What a call gives a parameter: the expression, and where in the call it stands."""

    parameter: str
    value: ast.expr
    place: ast.expr


def arguments(source: Source, function: ast.FunctionDef, call: ast.Call) -> Iterator[Given]:
    """The arguments of a call, those behind one star and in a dictionary that a function returns as well."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    if names[:1] in (["self"], ["cls"]) and isinstance(call.func, ast.Attribute):
        names = names[1:]
    stars = [n for n, a in enumerate(call.args) if isinstance(a, ast.Starred)]
    if len(stars) > 1 or function.args.vararg is not None:
        return
    front = call.args[: stars[0]] if stars else call.args
    yield from (Given(name, one, one) for name, one in zip(names, front, strict=False))
    plain = {k.arg for k in call.keywords}
    if stars and not function.args.defaults and None not in plain:
        last = [n for n in names if n not in plain]
        behind = call.args[stars[0] + 1 :]
        yield from (Given(name, one, one) for name, one in zip(last[::-1], behind[::-1], strict=False))
    for named in call.keywords:
        if named.arg is not None:
            yield Given(named.arg, named.value, named.value)
            continue
        for made in _returned(source, named.value):
            if isinstance(made, ast.Dict):
                pairs = zip(made.keys, made.values, strict=True)
                yield from (Given(str(k.value), v, named.value) for k, v in pairs if isinstance(k, ast.Constant))


def _returned(source: Source, node: ast.expr) -> list[ast.expr]:
    value = values.assigned(source, node) if isinstance(node, ast.Name) else node
    made = following.function(source, value) if isinstance(value, ast.Call) else None
    return following.returned(made) if made is not None and not made.decorator_list else []


def kind(source: Source, node: ast.expr, moving: set[str]) -> str | None:
    """``float`` or ``object`` where it is surely a Python number, or an object of such, that ``moving`` changes."""
    if not moves(source, node, moving):
        return None
    if number(source, node):
        return "float"
    value = values.assigned(source, node) if isinstance(node, ast.Name) else node
    for made in _returned(source, node):
        thing = sizes.value(source, made.func) if isinstance(made, ast.Call) else None
        fields = [k.value for k in made.keywords] if isinstance(made, ast.Call) else []
        plain = isinstance(thing, ast.ClassDef) and isinstance(made, ast.Call) and not made.args
        if plain and fields and all(number(source, f) for f in fields):
            return "object"
    return "float" if value is not node and value is not None and number(source, value) else None


def number(source: Source, node: ast.expr | None, seen: Seen = frozenset(), depth: int = DEPTH) -> bool:
    """Whether it is surely a number of Python's own."""
    if node is None or not depth:
        return False
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if isinstance(node, ast.BinOp):
        return number(source, node.left, seen, depth) and number(source, node.right, seen, depth)
    if isinstance(node, ast.UnaryOp):
        return number(source, node.operand, seen, depth)
    if isinstance(node, ast.IfExp):
        return number(source, node.body, seen, depth) and number(source, node.orelse, seen, depth)
    if isinstance(node, ast.Name):
        return _name(source, node, seen, depth)
    if isinstance(node, ast.Attribute):
        return _attribute(source, node, seen, depth)
    if isinstance(node, ast.Subscript):
        return items.indexed(source, node, lambda n: number(source, n, seen, depth - 1))
    return isinstance(node, ast.Call) and not node.keywords and _of_call(source, node, seen, depth)


def _of_call(source: Source, node: ast.Call, seen: Seen, depth: int) -> bool:
    if values.qualified(source, node.func).startswith("math."):
        return True
    if _drawn(source, node):
        return all(number(source, a, seen, depth - 1) for a in node.args)
    if isinstance(node.func, ast.Name) and node.func.id in TYPES and len(node.args) == 1:
        inner = node.args[0]
        if node.func.id == "float" or (isinstance(inner, ast.Call) and finding.called(inner) in WHOLE_DRAWS):
            return True
    if isinstance(node.func, ast.Name) and node.func.id in MADE_NUMBERS:
        return bool(node.args) and all(number(source, a, seen, depth) for a in node.args)
    run = following.function(source, node)
    made = _returned(source, node)
    plain = [a for a in scopes.parameters(run) if a != "self"] if run is not None else []
    numbers = {(n, run) for n, a in zip(plain, node.args, strict=False) if number(source, a, seen, depth - 1)}
    return bool(made) and all(number(source, one, seen | numbers, depth - 1) for one in made)


def _drawn(source: Source, call: ast.Call) -> bool:
    """Whether it draws one number, which is one of Python's own."""
    name, whole = finding.called(call), values.qualified(source, call.func)
    if whole.startswith("random."):
        return name in DRAWS | WHOLE_DRAWS
    if whole.startswith("numpy.random."):
        few = len(call.args) < (1 if name in ("rand", "randn", "random", "random_sample", "standard_normal") else 3)
        return few and name in DRAWS | {"randint"}
    owner = call.func.value if isinstance(call.func, ast.Attribute) and not whole else None
    made = values.assigned(source, owner) if isinstance(owner, ast.Name) else None
    generator = isinstance(made, ast.Call) and values.qualified(source, made.func) == "numpy.random.default_rng"
    return generator and name in ("random", "uniform", "normal") and len(call.args) in (0, 2)


def either(source: Source, node: ast.expr) -> bool:
    """Whether a number may be whole or not: it is an item of a list, or drawn."""
    for one in trees.walk(node):
        if isinstance(one, ast.Call) and (_drawn(source, one) or finding.called(one) in ("int", *WHOLE_DRAWS)):
            return True
        scope = kinds.where_bound(source, one) if isinstance(one, ast.Name) else None
        if isinstance(one, ast.Subscript):
            return True
        if not isinstance(one, ast.Name):
            continue
        bound = scopes.binders(source, one.id, scope) if scope is not None else []
        given = [n.value for n in bound if isinstance(n, ast.Assign)]
        if items.bound_around(source, one) is not None or any(isinstance(n, ast.For) for n in bound):
            return True
        if any(isinstance(v, ast.Call) and either(source, v) for v in given):
            return True
    return False


def _name(source: Source, node: ast.Name, seen: Seen, depth: int) -> bool:
    around = items.bound_around(source, node)
    if around is not None:
        return items.item(source, around, node.id, lambda n: number(source, n, seen, depth - 1)) == items.NUMBER
    scope = kinds.where_bound(source, node)
    if (node.id, scope) in seen or scope is None:
        return scope is not None
    if isinstance(scope, FUNCTIONS) and node.id in scopes.parameters(scope):
        given = list(kinds.given_to(source, scope, node.id))
        return bool(given) and all(number(source, g, seen, depth - 1) for g in given)
    bound = scopes.binders(source, node.id, scope)
    return bool(bound) and all(_bound(source, one, node.id, seen | {(node.id, scope)}, depth) for one in bound)


def _bound(source: Source, one: ast.AST, name: str, seen: Seen, depth: int) -> bool:
    if isinstance(one, ast.For):
        return items.item(source, one, name, lambda n: number(source, n, seen, depth - 1)) == items.NUMBER
    if isinstance(one, ast.AugAssign):
        return number(source, one.value, seen, depth - 1)
    if not isinstance(one, ast.Assign) or len(one.targets) != 1:
        return False
    targets = [n for n in trees.walk(one.targets[0]) if isinstance(n, ast.Name) and n.id == name]
    value = values.given(source, targets[0]) if len(targets) == 1 else None
    return number(source, value, seen, depth - 1)


def _attribute(source: Source, node: ast.Attribute, seen: Seen, depth: int) -> bool:
    known = sizes.value(source, node)
    if isinstance(known, (int, float)) and not isinstance(known, bool):
        return True
    whole = scopes.dotted(node)
    if (whole, None) in seen or _declared(source, node.attr):
        return True
    if not objects.of_self(node):
        return False
    stored = objects.stores(source, node.attr)
    return bool(stored) and all(
        objects.of_self(s) and number(source, _stored(source, s), seen | {(whole, None)}, depth - 1) for s in stored
    )


def _declared(source: Source, name: str) -> bool:
    """Whether every class of the file that has such an attribute declares it a number, and nothing gives it another."""
    if objects.assigned(source, name):
        return False
    own = [n for kind in objects.classes(source) for n in kind.body if _binds(n, name)]
    return bool(own) and all(
        isinstance(n, ast.AnnAssign) and isinstance(n.annotation, ast.Name) and n.annotation.id in TYPES for n in own
    )


def _binds(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and node.target.id == name
    return isinstance(node, (*FUNCTIONS, ast.Assign)) and name in scopes.bound(node)


def _stored(source: Source, target: ast.Attribute) -> ast.expr | None:
    above = finding.parents(source)
    holder = above.get(target)
    if isinstance(holder, (ast.Assign, ast.AugAssign)):
        return holder.value
    outer = above.get(holder) if isinstance(holder, ast.Tuple) else None
    if isinstance(outer, ast.Assign) and isinstance(outer.value, ast.Tuple) and isinstance(holder, ast.Tuple):
        pairs = zip(holder.elts, outer.value.elts, strict=False)
        return next((value for one, value in pairs if one is target), None)
    return None


def moves(source: Source, node: ast.expr, moving: set[str], depth: int = DEPTH) -> bool:
    """Whether it reads what ``moving`` changes, or a number of an object that is counted on outside its constructor."""
    if isinstance(node, ast.Call) and finding.called(node) == "len":
        return False
    if isinstance(node, ast.Call) and (_drawn(source, node) or finding.called(node) in WHOLE_DRAWS):
        return True
    if isinstance(node, ast.Name):
        if node.id in moving:
            return True
        value = values.assigned(source, node) if depth else None
        return value is not None and moves(source, value, moving, depth - 1)
    if isinstance(node, ast.Attribute) and objects.of_self(node):
        stored = [finding.function(source, s) for s in objects.stores(source, node.attr)]
        return any(f is not None and f.name != "__init__" for f in stored)
    below = [n for n in trees.children(node) if isinstance(n, (ast.expr, ast.keyword))]
    return any(moves(source, n.value if isinstance(n, ast.keyword) else n, moving, depth) for n in below)


def moved_parameters(source: Source, function: ast.AST | None) -> set[str]:
    """Parameters of a function that its calls in this file are given something else for in each turn of a loop."""
    if function is None:
        return set()
    found: set[str] = set()
    for call in kinds.calls_of(source, function):
        short = {at: visible.few(source, at) or visible.written_out(at) for at in scopes.loops(source, call)}
        bound = {n for at, few in short.items() if not few for n in scopes.bound(at)}
        bound -= {n for at, few in short.items() if few and isinstance(at, ast.For) for n in scopes.bound(at.target)}
        for name in scopes.parameters(function) if bound else ():
            given = kinds.given_in(function, call, name)
            if given is not None and moves(source, given, bound):
                found.add(name)
    return found


def element(source: Source, value: ast.expr, path: Sequence[int]) -> tuple[ast.expr, ast.AST | None] | None:
    """What stands in one place of what a function of this file returns or yields, and that function."""
    return _element(source, value, tuple(path), None, DEPTH)


def _element(
    source: Source, value: ast.expr, path: tuple[int, ...], where: ast.AST | None, depth: int
) -> tuple[ast.expr, ast.AST | None] | None:
    if not depth:
        return None
    if isinstance(value, ast.Tuple) and path:
        inside = path[0] < len(value.elts) and not any(isinstance(e, ast.Starred) for e in value.elts)
        return _element(source, value.elts[path[0]], path[1:], where, depth) if inside else None
    made = following.function(source, value) if isinstance(value, ast.Call) else None
    given = following.returned(made) if made is not None else []
    if made is not None and len(given) == 1:
        return _element(source, given[0], path, made, depth - 1)
    return (value, where) if not path and where is not None else None


def place_of(source: Source, name: str, holder: ast.expr) -> tuple[int, ...] | None:
    """Where a name stands in the target of an assignment or a loop."""
    if isinstance(holder, ast.Name):
        return () if holder.id == name else None
    if isinstance(holder, (ast.Tuple, ast.List)):
        for at, one in enumerate(holder.elts):
            found = place_of(source, name, one)
            if found is not None:
                return at, *found
    return None
