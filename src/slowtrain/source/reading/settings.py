"""Where a setting is written, the one place to change it: through names, dictionaries, objects, parameters and ``**``.

Answers only if the file leaves one way: every call gives the same node, and nothing else stores that setting. Nothing
is computed.
"""

from __future__ import annotations

import ast

from slowtrain.source import FUNCTIONS, Source
from slowtrain.source.reading import finding, objects, scopes, values
from slowtrain.source.reading.objects import Function
from slowtrain.values import dataclass

DEPTH = 10  # names, parameters and mappings that are followed
COPIES = frozenset({"copy", "deepcopy"})
NAMESPACES = frozenset({"SimpleNamespace", "Namespace"})


@dataclass(frozen=True)
class Origin:
    """The node that gives a value, and the names and keys that the value passes through."""

    node: ast.expr
    names: frozenset[str] = frozenset()

    @property
    def value(self) -> object:
        """The value of a literal; None for other nodes."""
        return self.node.value if isinstance(self.node, ast.Constant) else None


def written(source: Source, node: ast.expr) -> ast.expr | None:
    """The expression that gives ``node`` its value: a literal, a call, a dictionary. None if several may."""
    found = origin(source, node)
    return found.node if found is not None else None


def literal(source: Source, node: ast.expr) -> Origin | None:
    """The one literal that gives ``node`` its value."""
    found = origin(source, node)
    return found if found is not None and isinstance(found.node, ast.Constant) else None


def whole(source: Source, node: ast.expr) -> int | None:
    """The int that ``node`` has from a literal."""
    found = origin(source, node)
    value = found.value if found is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def origin(source: Source, node: ast.expr, depth: int = DEPTH) -> Origin | None:
    """The node that gives ``node`` its value, and the names on the way. A change there affects all these names."""
    if depth <= 0:
        return None
    if isinstance(node, ast.Name):
        name, found = node.id, _of_name(source, node, depth)
    elif isinstance(node, ast.Attribute):
        name, found = node.attr, _of_attribute(source, node, depth)
    elif isinstance(node, ast.Subscript):
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        name, found = str(key), _entry(source, node.value, key, depth - 1) if isinstance(key, str) else None
    else:
        return Origin(node)
    return Origin(found.node, found.names | {name}) if found is not None else None


def _entry(source: Source, mapping: ast.expr, key: str, depth: int = DEPTH) -> Origin | None:
    """The value under ``key`` of a mapping, through copies and merged mappings."""
    whole = origin(source, mapping, depth)
    if whole is None or objects.put_in(source, key, whole.names):
        return None
    found = whole.node
    if isinstance(found, ast.Dict):
        for name, value in reversed(list(zip(found.keys, found.values, strict=True))):
            if name is None:  # **another
                inner = _entry(source, value, key, depth - 1)
                if inner is not None or not _lacks(source, value, key, depth - 1):
                    return inner
            elif not isinstance(name, ast.Constant):
                return None
            elif name.value == key:
                return origin(source, value, depth - 1)
        return None
    if not isinstance(found, ast.Call):
        return None
    if finding.called(found) == "dict" and isinstance(found.func, ast.Name):
        return _of_dict(source, found, key, depth)
    if finding.called(found) in COPIES:
        owner = found.args[0] if found.args else found.func.value if isinstance(found.func, ast.Attribute) else None
        return _entry(source, owner, key, depth - 1) if owner is not None else None
    return None


def forwarded(source: Source, call: ast.Call, name: str) -> ast.expr | None:
    """The argument ``name`` of a call: given by keyword, or in the one mapping after ``**``."""
    found = _forwarded(source, call, name, DEPTH)
    return found.node if found is not None else None


def _forwarded(source: Source, call: ast.Call, name: str, depth: int) -> Origin | None:
    given = finding.keyword(call, name)
    if given is not None:
        return origin(source, given, depth)
    stars = [k.value for k in call.keywords if k.arg is None]
    return _entry(source, stars[0], name, depth) if len(stars) == 1 else None


def instance_of(source: Source, node: ast.expr) -> ast.ClassDef | None:
    """The class of this file whose object ``node`` holds."""
    if isinstance(node, ast.Name) and node.id in ("self", "cls"):
        return objects.class_of(source, node)
    made = written(source, node)
    return _class(source, finding.called(made)) if isinstance(made, ast.Call) else None


def called(source: Source, node: ast.expr) -> ast.FunctionDef | None:
    """The ``__call__`` of the object that ``node`` holds, if its class is in this file."""
    kind = instance_of(source, node)
    method = objects.method(kind, "__call__") if kind is not None else None
    return method if isinstance(method, ast.FunctionDef) else None


def _of_dict(source: Source, call: ast.Call, key: str, depth: int) -> Origin | None:
    """``dict(other, key=value)``."""
    for given in reversed(call.keywords):
        if given.arg == key:
            return origin(source, given.value, depth - 1)
        if given.arg is None:
            return None
    return _entry(source, call.args[0], key, depth - 1) if len(call.args) == 1 else None


def _lacks(source: Source, mapping: ast.expr, key: str, depth: int) -> bool:
    """Whether a mapping surely does not contain ``key``."""
    found = origin(source, mapping, depth)
    if found is None or not isinstance(found.node, ast.Dict):
        return False
    return all(isinstance(k, ast.Constant) and k.value != key for k in found.node.keys)


def _of_name(source: Source, node: ast.Name, depth: int) -> Origin | None:
    where = values.scope(source, node, node.id)
    bound = values.stores(where, node.id)
    if len(bound) == 1 and isinstance(bound[0], ast.arg) and isinstance(where, FUNCTIONS):
        return _of_parameter(source, where, node.id, depth)
    value = values.assigned(source, node)
    if value is None and len(bound) == 1 and isinstance(bound[0], ast.Name):
        value = _unpacked(source, bound[0])
    return origin(source, value, depth - 1) if value is not None else None


def _unpacked(source: Source, target: ast.Name) -> ast.expr | None:
    """The item that ``target`` receives of a tuple returned by a function of this file: ``x, y = make()``."""
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


def _of_parameter(source: Source, function: Function, name: str, depth: int) -> Origin | None:
    """The value that all calls in the file give a parameter; the default if they omit it."""
    places = objects.places(source, function)
    found: Origin | None = None
    for call in objects.runs(source, function):
        if any(isinstance(a, ast.Starred) for a in call.args):
            return None
        given = finding.keyword(call, name, places.index(name) if name in places else None)
        if given is None and any(k.arg is None for k in call.keywords):
            one = _forwarded(source, call, name, depth - 1)
        else:
            given = given if given is not None else objects.defaults(function).get(name)
            one = origin(source, given, depth - 1) if given is not None else None
        if one is None or (found is not None and one.node is not found.node):
            return None
        found = one if found is None else Origin(one.node, found.names | one.names)
    return found


def _of_attribute(source: Source, node: ast.Attribute, depth: int) -> Origin | None:
    base = node.value
    if objects.of_self(node):
        kind = objects.class_of(source, node)
        return _member(source, kind, node.attr, None, depth) if kind is not None else None
    named = values.stores(values.scope(source, base, base.id), base.id) if isinstance(base, ast.Name) else ()
    if len(named) == 1 and isinstance(named[0], ast.ClassDef):
        loose = objects.assigned(source, node.attr)
        return _declared(source, named[0], node.attr, True, depth) if not loose else None
    made = _made(source, base, depth - 1)
    name = finding.called(made) if made is not None else ""
    if made is None or ((name in NAMESPACES or name == "parse_args") and objects.put_on(source, node.attr)):
        return None
    if name in NAMESPACES:
        return _forwarded(source, made, node.attr, depth - 1)
    if name == "parse_args":
        default = objects.options(source).get(node.attr)
        return origin(source, default, depth - 1) if default is not None else None
    factory = finding.keyword(made, "default_factory") if name == "field" else None
    found = _class(source, scopes.dotted(factory) if factory is not None else name)
    if found is None or (factory is not None and objects.stores_of(source, found, node.attr)):
        return None
    if factory is not None:  # the factory is called without arguments
        return _declared(source, found, node.attr, True, depth)
    return _member(source, found, node.attr, made, depth)


def _made(source: Source, node: ast.expr, depth: int) -> ast.Call | None:
    """The call that creates an object, also inside a function that only returns it."""
    found = origin(source, node, depth)
    call = found.node if found is not None else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return call if isinstance(call, ast.Call) else None
    made = finding.defined(source, call.func.id, call)
    back = [n.value for n in scopes.own(made.body) if isinstance(n, ast.Return)] if made is not None else []
    return call if made is None else _made(source, back[0], depth - 1) if len(back) == 1 and back[0] else None


def _class(source: Source, name: str) -> ast.ClassDef | None:
    found = [n for n in objects.classes(source) if n.name == name]
    return found[0] if len(found) == 1 else None


def _member(source: Source, kind: ast.ClassDef, name: str, made: ast.Call | None, depth: int) -> Origin | None:
    """An attribute of a class's objects: set once in its constructor, or a data class's field."""
    stored = objects.stores_of(source, kind, name)
    if not stored:
        return _field(source, kind, name, made, depth)
    one = objects.once(source, kind, stored)
    value = values.given(source, one) if one is not None else None
    return origin(source, value, depth - 1) if value is not None else None


def _field(source: Source, kind: ast.ClassDef, name: str, made: ast.Call | None, depth: int) -> Origin | None:
    """A class-level value that no constructor call overrides with another one."""
    fields = objects.fields(source, kind)
    calls = [made] if made is not None else objects.makers(source, kind)
    if any(k.arg is None for c in calls for k in c.keywords) or any(
        isinstance(a, ast.Starred) for c in calls for a in c.args
    ):
        return None
    place = fields.index(name) if name in fields else None
    given = [g for c in calls if (g := finding.keyword(c, name, place)) is not None]
    if given:
        return origin(source, given[0], depth - 1) if len(calls) == 1 and name in fields else None
    return _declared(source, kind, name, made is not None, depth)


def _declared(source: Source, kind: ast.ClassDef, name: str, surely: bool, depth: int) -> Origin | None:
    target = objects.declared(source, kind, name, surely)
    value = values.given(source, target) if target is not None else None
    if isinstance(value, ast.Call) and finding.called(value) == "field":
        value = finding.keyword(value, "default") or value
    return origin(source, value, depth - 1) if value is not None else None
