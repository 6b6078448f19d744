"""Evaluates expressions to numbers, shapes and objects, through functions, methods, objects and dictionaries.

On demand, and per call: ``load(cfg.n_val)`` is evaluated with that call's arguments. Two calls that give 8 at two
places have one value here. A value that comes from a file, or from a branch that the text does not decide, is None; of
a command line the defaults count.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from slowtrain.source import FUNCTIONS, Source, kept
from slowtrain.source.reading import arrays, finding, objects, scopes, values
from slowtrain.source.reading.abstract import machine
from slowtrain.source.reading.arrays import Array, Data, Several
from slowtrain.source.reading.objects import Function, Thunk

DEEPEST = 60  # nested names, calls and expressions
MOST = 4000  # nodes visited in one file for one question
NAMESPACES = frozenset({"SimpleNamespace", "Namespace", "dict"})


@dataclass(eq=False)
class Thing:
    """An object of a class of the file; ``given``: the arguments of its constructor."""

    kind: ast.ClassDef
    given: dict[str, Thunk] = field(default_factory=dict)


@dataclass(eq=False)
class Frame:
    """One call of a function: its arguments, and the object of a method."""

    function: Function | None
    given: dict[str, Thunk] | None = None  # None: not determined yet; then what all calls agree on
    itself: Thing | None = None


def number(source: Source, node: ast.expr | None) -> int | None:
    """The int that an expression is; None if unknown."""
    found = value(source, node)
    if found is None and node is not None:
        found = machine.value(source, node).known
    return found if arrays.whole(found) else None


def shape(source: Source, node: ast.expr | None) -> tuple[int | None, ...] | None:
    """The shape of an array or list; None if unknown."""
    found = arrays.shape(value(source, node))
    return found if found is not None or node is None else machine.value(source, node).shape


def value(source: Source, node: ast.expr | None) -> Any:
    """The value of an expression: a constant, list, dictionary, array, data set or object; None if unknown."""
    return of(source).at(node) if node is not None else None


@kept(4, ended=lambda reader: vars(reader).clear())  # arguments are evaluated lazily by this reader
def of(source: Source) -> Reader:
    return Reader(source)


class Reader:
    """The evaluator of one file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.module = Frame(None)
        self._frames: dict[Function, Frame] = {}
        self._things: dict[ast.ClassDef, Thing] = {}
        self._known: dict[tuple[ast.AST, Frame], Any] = {}
        self._running: set[tuple[object, object]] = set()
        self._left = 0

    def at(self, node: ast.expr) -> Any:
        self._left = MOST
        return self.value(node, self.frame(finding.function(self.source, node)))

    def frame(self, function: Function | None) -> Frame:
        """The call of a function that stands for all its calls: an argument counts if they agree on it."""
        if function is None:
            return self.module
        found = self._frames.get(function)
        if found is None:
            found = self._frames[function] = Frame(function)
            kind = finding.parents(self.source).get(function)
            if isinstance(kind, ast.ClassDef):
                found.itself = self.thing(kind)
                if function.name == "__init__":
                    found.given = found.itself.given
        return found

    def thing(self, kind: ast.ClassDef) -> Thing:
        """An object of the class that stands for all: a constructor argument counts if all calls agree on it."""
        found = self._things.get(kind)
        if found is None:
            found = self._things[kind] = Thing(kind)
            made = objects.method(kind, "__init__")
            if made is not None:
                found.given = self._agreed(made)
            else:
                each = [self._fields(kind, call, None) for call in objects.makers(self.source, kind)]
                found.given = {n: objects.same([e.get(n) for e in each]) for e in each for n in e}
        return found

    def _agreed(self, function: Function) -> dict[str, Thunk]:
        each = [self.bound(function, call, None) for call in objects.runs(self.source, function)]
        return {n: objects.same([e.get(n) for e in each]) for n in scopes.parameters(function)} if each else {}

    # -- calls

    def bound(self, function: Function, call: ast.Call, frame: Frame | None) -> dict[str, Thunk]:
        """The parameters of a function in one call. ``frame`` None: evaluate in the function that contains the call."""
        found: dict[str, Thunk] = {}
        for name, default in objects.defaults(function).items():
            found[name] = self._later(default, self.module)
        self._arguments(call, objects.places(self.source, function), frame, found)
        return found

    def _arguments(self, call: ast.Call, places: Sequence[str], frame: Frame | None, found: dict[str, Thunk]) -> None:
        for place, one in enumerate(call.args):
            if isinstance(one, ast.Starred):
                for name in places[place:]:
                    found.pop(name, None)
                break
            if place < len(places):
                found[places[place]] = self._later(one, frame)
        for named in call.keywords:
            if named.arg is not None:
                found[named.arg] = self._later(named.value, frame)
                continue
            mapping = self._evaluated(named.value, frame)
            if isinstance(mapping, dict):
                found.update({k: objects.fixed(v) for k, v in mapping.items() if isinstance(k, str)})
            else:
                found.clear()
                return

    def _fields(self, kind: ast.ClassDef, call: ast.Call, frame: Frame | None) -> dict[str, Thunk]:
        """The fields given to a data class's constructor; empty if the call is not clear."""
        names = objects.fields(self.source, kind)
        found: dict[str, Thunk] = {}
        self._arguments(call, names, frame, found)
        return {name: one for name, one in found.items() if name in names}

    def _later(self, node: ast.expr, frame: Frame | None) -> Thunk:
        return lambda: self._evaluated(node, frame)

    def _evaluated(self, node: ast.expr, frame: Frame | None) -> Any:
        return self.value(node, frame if frame is not None else self.frame(finding.function(self.source, node)))

    # -- expressions

    def value(self, node: ast.expr | None, frame: Frame) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if node is None:
            return None
        key = (node, frame)
        if key in self._known:
            return self._known[key]
        if key in self._running or len(self._running) > DEEPEST or self._left <= 0:
            return None
        self._left -= 1
        self._running.add(key)
        try:
            found = self._known[key] = self._value(node, frame)
        finally:
            self._running.discard(key)
        return found

    def _value(self, node: ast.expr, frame: Frame) -> Any:
        if isinstance(node, ast.Name):
            return self._name(node, frame)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, frame)
        if isinstance(node, (ast.Tuple, ast.List)):
            if any(isinstance(e, ast.Starred) for e in node.elts):
                return None
            return (Several if isinstance(node, ast.Tuple) else list)(self.value(e, frame) for e in node.elts)
        if isinstance(node, ast.Dict):
            return self._dict(node, frame)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._listed(node, frame)
        if isinstance(node, ast.Call):
            return self._call(node, frame)
        return self._computed(node, frame)

    def _computed(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an operator, condition or subscript."""
        if isinstance(node, ast.Subscript):
            whole = self.value(node.value, frame)
            if isinstance(whole, (dict, list)) and self._put(node.value, self.value(node.slice, frame)):
                return None
            return arrays.part(whole, node.slice, lambda n: self.value(n, frame))
        if isinstance(node, ast.BinOp):
            return arrays.joined(node.op, self.value(node.left, frame), self.value(node.right, frame))
        if isinstance(node, ast.UnaryOp):
            inner = self.value(node.operand, frame)
            if isinstance(node.op, ast.USub) and isinstance(inner, (int, float)):
                return -inner
            return inner if isinstance(inner, Array) else None
        if isinstance(node, ast.Compare):
            sides = [self.value(e, frame) for e in (node.left, *node.comparators)]
            found = [s for s in sides if isinstance(s, Array)]
            return Array(found[0].shape, True) if len(found) == 1 and len(sides) == 2 else None
        if isinstance(node, ast.IfExp):
            asked = self.value(node.test, frame)
            return self.value(node.body if asked else node.orelse, frame) if isinstance(asked, (bool, int)) else None
        return None

    def _put(self, mapping: ast.expr, key: Any) -> bool:
        """Whether another value may be stored under a key of an existing list or mapping."""
        return objects.put_in(self.source, key, [scopes.dotted(mapping).rpartition(".")[2]])

    def _dict(self, node: ast.Dict, frame: Frame) -> dict[Any, Any] | None:
        found: dict[Any, Any] = {}
        for key, inner in zip(node.keys, node.values, strict=True):
            if key is None:
                more = self.value(inner, frame)
                if not isinstance(more, dict):
                    return None
                found |= more
            elif isinstance(key, ast.Constant):
                found[key.value] = self.value(inner, frame)
            else:
                return None
        return found

    def _listed(self, node: ast.ListComp | ast.GeneratorExp, frame: Frame) -> Array | None:
        one = node.generators[0]
        if len(node.generators) > 1 or one.ifs:
            return None
        over = arrays.shape(self.value(one.iter, frame))
        inner = arrays.shape(self.value(node.elt, frame))
        return Array((over[0], *(inner or ()))) if over else None

    def _name(self, node: ast.Name, frame: Frame) -> Any:
        where = values.scope(self.source, node, node.id)
        if isinstance(where, FUNCTIONS):
            inside = frame if frame.function is where else self.frame(where)
            bound = values.stores(where, node.id)
            if len(bound) == 1 and isinstance(bound[0], ast.arg):
                if node.id in ("self", "cls"):
                    return inside.itself
                if inside.given is None:
                    inside.given = self._agreed(where)
                given = inside.given.get(node.id)
                return given() if given is not None else None
            return self._stored(node, where, inside)
        if where is not self.source.tree:
            return None  # bound by a comprehension or a lambda
        kinds = [n for n in values.stores(where, node.id) if isinstance(n, ast.ClassDef)]
        return kinds[0] if len(kinds) == 1 else self._stored(node, where, self.module)

    def _stored(self, node: ast.Name, where: ast.AST, frame: Frame) -> Any:
        """The value that a name was given last, if the text decides it; else that of its only other assignment."""
        if node.id in values.shared(self.source):
            return None
        found = [s for s in values.stores(where, node.id) if isinstance(s, (ast.Name, ast.arg))]
        if len(found) != len(values.stores(where, node.id)):
            return None
        last = objects.last(self.source, node, found, lambda n: self.value(n, frame))
        known = self._of_target(last, frame) if last is not None else None
        return known if isinstance(known, (Array, Data, Thing)) or not self._changed(node.id, known) else None

    def _changed(self, name: str, known: Any) -> bool:
        """Whether the object of this name may have changed since it was made."""
        if isinstance(known, (Data, Thing)):
            return False
        if name in objects.longer(self.source) or name in objects.shorter(self.source):
            return True
        return isinstance(known, dict) and objects.UNKNOWN in objects.stored_into(self.source, name)

    def _of_target(self, target: ast.expr, frame: Frame) -> Any:
        above = finding.parents(self.source)
        path: list[int] = []
        child: ast.AST = target
        holder = above.get(target)
        while isinstance(holder, (ast.Tuple, ast.List)):
            if any(isinstance(e, ast.Starred) for e in holder.elts):
                return None
            path.insert(0, holder.elts.index(child))  # type: ignore[arg-type]
            child, holder = holder, above.get(holder)
        given = getattr(holder, "value", None) if isinstance(holder, (ast.Assign, ast.AnnAssign)) else None
        if given is None:
            return None
        if path and isinstance(given, ast.Call) and arrays.loads(self.source, given):
            return arrays.loaded(self.source, given, path)
        found = self.value(given, frame)
        for place in path:
            if isinstance(found, list) and place < len(found):
                found = found[place]
            else:
                found = Array(found.shape[1:]) if isinstance(found, Array) and len(found.shape) > 1 else None
        return found

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        base = self.value(node.value, frame)
        if isinstance(base, dict):
            return None if objects.put_on(self.source, node.attr) else base.get(node.attr)
        if isinstance(base, Array):
            return {"shape": list(base.shape), "T": Array(base.shape[::-1])}.get(node.attr)
        if isinstance(base, ast.ClassDef):
            return None if objects.assigned(self.source, node.attr) else self._of_class(base, node.attr, True)
        return self.member(base, node.attr) if isinstance(base, Thing) else None

    def _of_class(self, kind: ast.ClassDef, name: str, surely: bool) -> Any:
        found = objects.declared(self.source, kind, name, surely)
        return self._of_target(found, self.module) if found is not None else None

    def member(self, thing: Thing, name: str) -> Any:
        """An attribute of an object: a field, a value that the constructor sets once, a property."""
        known = self._member(thing, name)
        return known if not self._changed(name, known) else None

    def _member(self, thing: Thing, name: str) -> Any:
        stored = objects.stores_of(self.source, thing.kind, name)
        if stored:
            one = objects.once(self.source, thing.kind, stored)
            function = finding.function(self.source, one) if one is not None else None
            return self._of_target(one, Frame(function, thing.given, thing)) if one is not None else None
        if name in thing.given and objects.method(thing.kind, "__init__") is None:
            return thing.given[name]() if not objects.set_by_name(self.source, name) else None
        made = objects.method(thing.kind, name)
        if made is not None and any(scopes.dotted(d).endswith("property") for d in made.decorator_list):
            return self.returned(made, Frame(made, {}, thing))
        return self._of_class(thing.kind, name, thing is not self._things.get(thing.kind))

    def _call(self, call: ast.Call, frame: Frame) -> Any:
        name = finding.called(call)
        made = arrays.made(self.source, call, lambda n: self.value(n, frame))
        if made is not None:
            return made
        if isinstance(call.func, ast.Name):
            return self._plain(call, name, frame)
        assert isinstance(call.func, ast.Attribute) or not name
        if name in NAMESPACES or name == "parse_args":
            return self._plain(call, name, frame)
        if values.qualified(self.source, call.func).startswith("tensorflow.data."):
            return arrays.begun(call, lambda n: self.value(n, frame))
        base = self.value(call.func.value, frame) if isinstance(call.func, ast.Attribute) else None
        if isinstance(base, Data):
            return arrays.operated(base, call, lambda n: self.value(n, frame))
        if isinstance(base, dict):
            assert isinstance(call.func, ast.Attribute)
            key = self.value(call.args[0], frame) if name == "get" and call.args else None
            return base.get(key) if isinstance(key, (str, int)) and not self._put(call.func.value, key) else None
        if isinstance(base, Thing):
            inner = objects.method(base.kind, name)
            return self._entered(inner, call, frame, base) if inner is not None else None
        return None

    def _plain(self, call: ast.Call, name: str, frame: Frame) -> Any:
        if name in NAMESPACES:
            found = self.value(call.args[0], frame) if call.args else {}
            if not isinstance(found, dict):
                return None
            given: dict[str, Thunk] = {}
            self._arguments(ast.Call(call.func, [], call.keywords), (), frame, given)
            return found | {k: v() for k, v in given.items()}
        if name == "parse_args":
            return {k: self.value(v, self.module) for k, v in objects.options(self.source).items()}
        if name == "len" and len(call.args) == 1:
            return self._length(call.args[0], self.value(call.args[0], frame))
        kind = self.value(call.func, frame)
        if isinstance(kind, ast.ClassDef):
            made = objects.method(kind, "__init__")
            return Thing(kind, self.bound(made, call, frame) if made else self._fields(kind, call, frame))
        found = finding.defined(self.source, name, call)
        if found is None or objects.is_method(self.source, found):
            return None
        return self._entered(found, call, frame, None)

    def _length(self, node: ast.expr, found: Any) -> int | None:
        if isinstance(found, Thing):
            made = objects.method(found.kind, "__len__")
            found = self.returned(made, Frame(made, {}, found)) if made is not None else None
            return found if isinstance(found, int) else None
        if isinstance(found, dict):
            return len(found) if not objects.stored_into(self.source, scopes.dotted(node).rpartition(".")[2]) else None
        sizes = arrays.shape(found)
        return sizes[0] if sizes else None

    def _entered(self, function: Function, call: ast.Call, frame: Frame, itself: Thing | None) -> Any:
        return self.returned(function, Frame(function, self.bound(function, call, frame), itself))

    def returned(self, function: Function, frame: Frame) -> Any:
        """The return value of a function with one ``return``, outside loops."""
        if any(
            scopes.dotted(d).rpartition(".")[2] not in ("property", "staticmethod") for d in function.decorator_list
        ):
            return None
        found = [n for n in scopes.own(scopes.body(function)) if isinstance(n, (ast.Return, ast.Yield, ast.YieldFrom))]
        alone = len(found) == 1 and isinstance(found[0], ast.Return)
        return self.value(found[0].value, frame) if alone and isinstance(found[0], ast.Return) else None
