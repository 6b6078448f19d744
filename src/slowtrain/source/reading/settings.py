"""Where a setting is written that reaches its use through dictionaries, objects, parameters and ``**`` of a call.

Answers only where the file leaves one way: every call gives the same, and nothing else puts that setting in.
"""

from __future__ import annotations

import ast

from slowtrain.source import FUNCTIONS, Source
from slowtrain.source.reading import finding, index, objects, scopes, values

DEPTH = 10  # of names, parameters and mappings on the way
COPIES = frozenset({"copy", "deepcopy"})
NAMESPACES = frozenset({"SimpleNamespace", "Namespace"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


def written(source: Source, node: ast.expr, depth: int = DEPTH) -> ast.expr | None:
    """The expression that gives ``node`` its value: a literal, a call, a dictionary; None where several may."""
    if depth <= 0:
        return None
    if isinstance(node, ast.Name):
        return _of_name(source, node, depth)
    if isinstance(node, ast.Attribute):
        return _of_attribute(source, node, depth)
    if isinstance(node, ast.Subscript):
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return entry(source, node.value, key, depth - 1) if isinstance(key, str) else None
    return node


def entry(source: Source, mapping: ast.expr, key: str, depth: int = DEPTH) -> ast.expr | None:
    """What stands under ``key`` in a mapping, through copies and mappings put together."""
    found = written(source, mapping, depth) if depth > 0 else None
    if found is None or _put_in(source, key):
        return None
    if isinstance(found, ast.Dict):
        for name, value in reversed(list(zip(found.keys, found.values, strict=True))):
            if name is None:  # **another
                inner = entry(source, value, key, depth - 1)
                if inner is not None or not _lacks(source, value, key, depth - 1):
                    return inner
            elif not isinstance(name, ast.Constant):
                return None
            elif name.value == key:
                return written(source, value, depth - 1)
        return None
    if not isinstance(found, ast.Call):
        return None
    if finding.called(found) == "dict" and isinstance(found.func, ast.Name):
        return _of_dict(source, found, key, depth)
    if finding.called(found) in COPIES:
        owner = found.args[0] if found.args else found.func.value if isinstance(found.func, ast.Attribute) else None
        return entry(source, owner, key, depth - 1) if owner is not None else None
    return None


def forwarded(source: Source, call: ast.Call, name: str) -> ast.expr | None:
    """What the call is given for ``name``: by keyword, or in the one mapping that ``**`` hands over."""
    given = finding.keyword(call, name)
    if given is not None:
        return written(source, given)
    stars = [k.value for k in call.keywords if k.arg is None]
    return entry(source, stars[0], name) if len(stars) == 1 else None


def whole(source: Source, node: ast.expr) -> int | None:
    """The integer that ``node`` has its value from."""
    found = written(source, node)
    value = found.value if isinstance(found, ast.Constant) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def class_of(source: Source, node: ast.AST) -> ast.ClassDef | None:
    """The class in whose body ``node`` stands, in a method or not."""
    above = finding.parents(source)
    found = above.get(node)
    while found is not None and not isinstance(found, ast.ClassDef):
        found = above.get(found)
    return found


def instance_of(source: Source, node: ast.expr) -> ast.ClassDef | None:
    """The class of this file of which ``node`` holds an object."""
    if isinstance(node, ast.Name) and node.id in ("self", "cls"):
        return class_of(source, node)
    made = written(source, node)
    return _class(source, finding.called(made)) if isinstance(made, ast.Call) else None


def _of_dict(source: Source, call: ast.Call, key: str, depth: int) -> ast.expr | None:
    """``dict(other, key=value)``."""
    for given in reversed(call.keywords):
        if given.arg == key:
            return written(source, given.value, depth - 1)
        if given.arg is None:
            return None
    return entry(source, call.args[0], key, depth - 1) if len(call.args) == 1 else None


def _lacks(source: Source, mapping: ast.expr, key: str, depth: int) -> bool:
    """Whether a mapping is known not to have ``key``."""
    found = written(source, mapping, depth)
    if not isinstance(found, ast.Dict):
        return False
    return all(isinstance(k, ast.Constant) and k.value != key for k in found.keys)


def _put_in(source: Source, key: str) -> bool:
    """Whether the file puts something under ``key`` after a mapping was made, or may do so."""
    for node in index.nodes(source, ast.Subscript):
        stored = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
        if stored and getattr(getattr(node, "slice", None), "value", None) == key:
            return True
    for call in index.of(source).called("update", "setdefault", "pop"):
        named = any(k.arg == key for k in call.keywords)
        first = call.args[0] if call.args else None
        if isinstance(first, ast.Dict):
            named = named or any(not isinstance(k, ast.Constant) or k.value == key for k in first.keys)
        if named or (isinstance(first, ast.Constant) and first.value == key):
            return True
    return False


def _of_name(source: Source, node: ast.Name, depth: int) -> ast.expr | None:
    where = values.scope(source, node, node.id)
    bound = list(values.stores(where, node.id))
    if len(bound) == 1 and isinstance(bound[0], ast.arg) and isinstance(where, FUNCTIONS):
        return _of_parameter(source, where, node.id, depth)
    value = values.assigned(source, node)
    if value is None and len(bound) == 1 and isinstance(bound[0], ast.Name):
        value = _unpacked(source, bound[0])
    return written(source, value, depth - 1) if value is not None else None


def _unpacked(source: Source, target: ast.Name) -> ast.expr | None:
    """What ``target`` gets of the tuple that a function of this file returns: ``x, y = make()``."""
    above = finding.parents(source)
    holder = above.get(target)
    assign = above.get(holder) if isinstance(holder, ast.Tuple) else None
    if not isinstance(assign, ast.Assign) or holder not in assign.targets or not isinstance(assign.value, ast.Call):
        return None
    made = finding.defined(source, finding.called(assign.value), assign)
    back = [n.value for n in scopes.own(made.body) if isinstance(n, ast.Return)] if made is not None else []
    given = back[0] if len(back) == 1 else None
    if not isinstance(given, ast.Tuple) or not isinstance(holder, ast.Tuple) or len(given.elts) != len(holder.elts):
        return None
    plain = not any(isinstance(e, ast.Starred) for e in (*given.elts, *holder.elts))
    return given.elts[holder.elts.index(target)] if plain else None


def _of_parameter(source: Source, function: Function, name: str, depth: int) -> ast.expr | None:
    """What all calls in the file give a parameter; its default where one leaves it out."""
    holder = finding.parents(source).get(function)
    made = holder.name if isinstance(holder, ast.ClassDef) and function.name == "__init__" else function.name
    method = isinstance(holder, ast.ClassDef)
    if method and any("staticmethod" in ast.dump(d) for d in function.decorator_list):
        method = False
    places = [a.arg for a in (*function.args.posonlyargs, *function.args.args)][1 if method else 0 :]
    found: dict[int, ast.expr | None] = {}
    for call in index.of(source).called(made):
        if any(isinstance(a, ast.Starred) for a in call.args):
            return None
        given = finding.keyword(call, name, places.index(name) if name in places else None)
        if given is None:
            stars = [k.value for k in call.keywords if k.arg is None]
            if len(stars) > 1:
                return None
            one = entry(source, stars[0], name, depth - 1) if stars else None
            one = one if one is not None or stars else objects.defaults(function).get(name)
        else:
            one = given
        one = written(source, one, depth - 1) if one is not None else None
        found[id(one)] = one
    return next(iter(found.values())) if len(found) == 1 else None


def _of_attribute(source: Source, node: ast.Attribute, depth: int) -> ast.expr | None:
    stored = objects.stores(source, node.attr)
    base = node.value
    if isinstance(base, ast.Name) and base.id in ("self", "cls"):
        holder = class_of(source, node)
        return _member(source, holder, node.attr, stored, None, depth) if holder is not None else None
    made = written(source, base, depth - 1)
    if not isinstance(made, ast.Call):
        return None
    if finding.called(made) in NAMESPACES:
        return forwarded(source, made, node.attr) if not stored else None
    found = _class(source, finding.called(made))
    return _member(source, found, node.attr, stored, made, depth) if found is not None else None


def _class(source: Source, name: str) -> ast.ClassDef | None:
    found = [n for n in index.nodes(source, ast.ClassDef) if isinstance(n, ast.ClassDef) and n.name == name]
    return found[0] if len(found) == 1 else None


def _member(
    source: Source, holder: ast.ClassDef, name: str, stored: list[ast.Attribute], made: ast.Call | None, depth: int
) -> ast.expr | None:
    """An attribute of a class's objects: set once in its constructor, or a data class's field."""
    mine = [n for n in stored if class_of(source, n) is holder and scopes.dotted(n.value) in ("self", "cls")]
    if any(n not in mine and scopes.dotted(n.value) not in ("self", "cls") for n in stored):
        return None  # put into an object from outside, this one perhaps
    if not mine:
        return _field(source, holder, name, made, depth)
    function = finding.function(source, mine[0])
    if len(mine) != 1 or function is None or function.name != "__init__" or scopes.loops(source, mine[0]):
        return None
    value = _assigned_to(source, mine[0])
    return written(source, value, depth - 1) if value is not None else None


def _assigned_to(source: Source, target: ast.expr) -> ast.expr | None:
    """What an assignment gives to ``target``, through tuples as well."""
    above = finding.parents(source)
    holder = above.get(target)
    if isinstance(holder, ast.Assign) and target in holder.targets:
        return holder.value
    if isinstance(holder, ast.AnnAssign):
        return holder.value
    assign = above.get(holder) if isinstance(holder, (ast.Tuple, ast.List)) else None
    if isinstance(assign, ast.Assign) and isinstance(holder, (ast.Tuple, ast.List)) and holder in assign.targets:
        given = assign.value
        if not isinstance(given, (ast.Tuple, ast.List)) or len(given.elts) != len(holder.elts):
            return None
        if not any(isinstance(e, ast.Starred) for e in (*given.elts, *holder.elts)):
            return given.elts[holder.elts.index(target)]
    return None


def _field(source: Source, holder: ast.ClassDef, name: str, made: ast.Call | None, depth: int) -> ast.expr | None:
    """A class's own value, which no call that makes an object overrides by another one."""
    fields = [n.target.id for n in holder.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    place = fields.index(name) if name in fields else None
    calls = [made] if made is not None else index.of(source).called(holder.name)
    if any(k.arg is None for c in calls for k in c.keywords) or any(
        isinstance(a, ast.Starred) for c in calls for a in c.args
    ):
        return None
    given = [g for c in calls if (g := finding.keyword(c, name, place)) is not None]
    if given:
        return written(source, given[0], depth - 1) if len(calls) == 1 else None
    found = [n.value for n in holder.body if isinstance(n, ast.AnnAssign) and scopes.dotted(n.target) == name]
    found += [n.value for n in holder.body if isinstance(n, ast.Assign) and name in scopes.bound(n)]
    return written(source, found[0], depth - 1) if len(found) == 1 and found[0] is not None else None
