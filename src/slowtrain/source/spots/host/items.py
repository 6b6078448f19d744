"""What Python's own lists, ranges and dictionaries hold that a loop takes out of them, or a call hands over."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from slowtrain.source import Source, trees
from slowtrain.source.reading import finding, following, objects, scopes, settings, values, visible

NUMBER, LIST = "number", "list"
DEPTH = 6
PAIR = 2  # what enumerate gives
SAME = frozenset({"list", "tuple", "sorted", "reversed", "iter", "tqdm", "cycle", "deque", "set"})
DRAWN_FROM = frozenset({"sample", "choices"})
FLAT = frozenset({"arange", "linspace", "logspace", "geomspace"})  # arrays of one axis, however long
Number = Callable[[ast.expr], bool]


def item(source: Source, loop: ast.For | ast.comprehension, name: str, number: Number) -> str | None:
    """Whether a target of a loop is surely a number of Python's own in each turn, or a list of such."""
    return _of(source, loop.iter, loop.target, name, number, DEPTH)


def _of(source: Source, over: ast.expr, target: ast.expr, name: str, number: Number, depth: int) -> str | None:
    """What the part ``name`` of ``target`` gets, one item of ``over`` after another."""
    if not depth:
        return None
    called = finding.called(over) if isinstance(over, ast.Call) else ""
    if isinstance(target, (ast.Tuple, ast.List)):
        parts = _parts(over, len(target.elts)) if isinstance(over, ast.Call) else None
        for at, one in enumerate(target.elts):
            if parts is None or name not in scopes.bound(one):
                continue
            given = parts[at]
            return NUMBER if given is None else _of(source, given, one, name, number, depth - 1)
        return None
    if not isinstance(target, ast.Name) or target.id != name:
        return None
    if isinstance(over, ast.Call):
        return _of_call(source, over, called, target, number, depth)
    if isinstance(over, (ast.List, ast.Tuple)):
        return NUMBER if over.elts and all(number(e) for e in over.elts) else None
    if isinstance(over, (ast.ListComp, ast.GeneratorExp)):
        return NUMBER if number(over.elt) else None
    written = settings.written(source, over) if isinstance(over, (ast.Name, ast.Attribute, ast.Subscript)) else None
    if written is None or written is over or _stored_into(source, over):
        return None
    return _of(source, written, target, name, number, depth - 1)


def indexed(source: Source, node: ast.Subscript, number: Number) -> bool:
    """Whether one place of a list of the file's is a number: ``rates[k]``; of a mapping, what is written there."""
    if isinstance(node.slice, (ast.Slice, ast.Tuple)):
        return False
    written = settings.literal(source, node)
    if written is not None:
        return isinstance(written.value, (int, float)) and not isinstance(written.value, bool)
    target = ast.Name("_", ast.Store())
    return _of(source, node.value, target, target.id, number, DEPTH) == NUMBER


def _parts(over: ast.Call, count: int) -> list[ast.expr | None] | None:
    """Over what each part of a target goes, None for what ``enumerate`` counts; None: nobody can tell."""
    if not isinstance(over.func, ast.Name) or any(isinstance(a, ast.Starred) for a in over.args):
        return None
    if over.func.id == "enumerate" and over.args and count == PAIR:
        return [None, over.args[0]]
    if over.func.id == "zip" and len(over.args) == count:
        return list(over.args)
    if over.func.id in ("tqdm", "list", "iter") and over.args and isinstance(over.args[0], ast.Call):
        return _parts(over.args[0], count)
    return None


def _of_call(source: Source, over: ast.Call, called: str, target: ast.Name, number: Number, depth: int) -> str | None:
    whole = values.qualified(source, over.func)
    if called == "range" and isinstance(over.func, ast.Name):
        return NUMBER
    if called == "tolist" and isinstance(over.func, ast.Attribute) and not over.args:
        axes = _axes(source, over.func.value, number)
        return None if axes is None or of_few(source, over.func.value) else NUMBER if axes == 1 else LIST
    if whole == "itertools.count":
        return NUMBER
    passed = called in SAME and not whole.startswith(("tensorflow.", "numpy.", "keras."))
    if over.args and (passed or (whole.startswith("random.") and called in DRAWN_FROM)):
        return _of(source, over.args[0], target, target.id, number, depth - 1)
    made = following.function(source, over)
    if made is None or made.decorator_list:
        return None
    back = following.returned(made)
    if any(isinstance(n, ast.Yield) for n in scopes.own(scopes.body(made))):
        return NUMBER if back and all(number(one) for one in back) else None
    found = {_of(source, one, target, target.id, number, depth - 1) for one in back}
    return found.pop() if len(found) == 1 else None


def _axes(source: Source, array: ast.expr, number: Number) -> int | None:
    """Of how many axes an array surely is."""
    shape = visible.shape(source, array)
    if shape is not None:
        return len(shape) if len(shape) > 1 or shape[0] is not None else None
    made = values.assigned(source, array) if isinstance(array, ast.Name) else array
    if not isinstance(made, ast.Call):
        return None
    if finding.called(made) in FLAT and values.qualified(source, made.func).startswith("numpy."):
        return 1
    counted = len(made.args) == 1 and (number(made.args[0]) or _length(made.args[0]))
    return 1 if finding.called(made) == "permutation" and counted else None


def of_few(source: Source, drawn: ast.expr) -> bool:
    """Whether whole numbers are drawn from so few that a graph for each is soon there: classes, sides of a coin."""
    made = values.assigned(source, drawn) if isinstance(drawn, ast.Name) else drawn
    while isinstance(made, ast.Call) and finding.called(made) == "int" and len(made.args) == 1:
        made = made.args[0]
    if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Mod):
        known = visible.number(source, made.right)
        return known is not None and known <= visible.FEW
    if not isinstance(made, ast.Call) or finding.called(made) not in ("integers", "randint", "randrange", "choice"):
        return False
    bounds = [visible.number(source, a) for a in made.args[:2]]
    low = bounds[0] if len(bounds) > 1 else 0
    high = bounds[-1] if bounds else None
    return low is not None and high is not None and high - low <= visible.FEW


def _length(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"


def _stored_into(source: Source, over: ast.expr) -> bool:
    """Whether something else may be put into a list by its name."""
    last = scopes.dotted(over).rpartition(".")[2]
    return last in objects.longer(source) or bool(objects.stored_into(source, last))


def held(source: Source, node: ast.expr, where: ast.AST | None, depth: int = 3) -> Iterator[ast.expr]:
    """What a dictionary, tuple or list holds that is made in a call or in ``where``, the loop or function around it."""
    if not depth:
        return
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            yield from held(source, value, where, depth - 1) if key is None else (value,)
    elif isinstance(node, (ast.Tuple, ast.List)):
        yield from (e for e in node.elts if not isinstance(e, ast.Starred))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        for side in (node.left, node.right):
            yield from held(source, side, where, depth - 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        yield from (k.value for k in node.keywords if k.arg is not None)
    elif isinstance(node, ast.Name) and where is not None:
        yield from _put_in(source, node, where, depth)


def _put_in(source: Source, name: ast.Name, where: ast.AST, depth: int) -> Iterator[ast.expr]:
    """``batch["beta"] = beta``, ``batch.update(beta=beta)`` and ``batch = {…}`` beside the call."""
    for one in scopes.own(scopes.body(where)):
        if isinstance(one, ast.Assign) and len(one.targets) == 1:
            target = one.targets[0]
            if isinstance(target, ast.Name) and target.id == name.id and not isinstance(one.value, ast.Name):
                yield from held(source, one.value, where, depth - 1)
            if isinstance(target, ast.Subscript) and scopes.dotted(target.value) == name.id and _text(target.slice):
                yield one.value
        elif isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) and finding.called(one.value) == "update":
            owner = one.value.func.value if isinstance(one.value.func, ast.Attribute) else None
            if isinstance(owner, ast.Name) and owner.id == name.id:
                yield from (k.value for k in one.value.keywords if k.arg is not None)
                yield from (v for a in one.value.args for v in held(source, a, where, depth - 1))


def _text(key: ast.expr) -> bool:
    return isinstance(key, ast.Constant) and isinstance(key.value, str)


def bound_around(source: Source, name: ast.Name) -> ast.comprehension | None:
    """The part of a comprehension around a name that binds it."""
    above = finding.parents(source)
    at = above.get(name)
    while at is not None and not isinstance(at, ast.stmt):
        for one in getattr(at, "generators", ()):
            if name.id in scopes.bound(one.target) and name not in set(trees.walk(one.iter)):
                return one  # type: ignore[no-any-return]
        at = above.get(at)
    return None
