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

from slowtrain.script.evaluators import array_rules
from slowtrain.script.evaluators.array_rules import ArrayValue, DatasetValue, TupleValue
from slowtrain.script.interpreter.engine import interpreter
from slowtrain.script.navigation import class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.navigation.class_members import Function, Thunk
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent

MAX_DEPTH = 60  # nested names, calls and expressions
MAX_PARTS = 4000  # nodes visited in one file for one question
NAMESPACE_CLASSES = frozenset({"SimpleNamespace", "Namespace", "dict"})


@dataclass(eq=False)
class Instance:
    """An object of a class of the file; ``given``: the arguments of its constructor."""

    kind: ast.ClassDef
    given: dict[str, Thunk] = field(default_factory=dict)


@dataclass(eq=False)
class CallFrame:
    """One call of a function: its arguments, and the object of a method."""

    function: Function | None
    given: dict[str, Thunk] | None = None  # None: not determined yet; then what all calls agree on
    itself: Instance | None = None


def int_value(source: Source, node: ast.expr | None) -> int | None:
    """The int that an expression is; None if unknown."""
    found = static_value(source, node)
    if found is None and node is not None:
        found = interpreter.value_at(source, node).known
    return found if array_rules.is_int(found) else None


def shape_value(source: Source, node: ast.expr | None) -> tuple[int | None, ...] | None:
    """The shape of an array or list; None if unknown."""
    found = array_rules.shape_of(static_value(source, node))
    return found if found is not None or node is None else interpreter.value_at(source, node).shape


def static_value(source: Source, node: ast.expr | None) -> Any:
    """The value of an expression: a constant, list, dictionary, array, data set or object; None if unknown."""
    return evaluator_of(source).at(node) if node is not None else None


@cache_recent(4, ended=lambda reader: vars(reader).clear())  # arguments are evaluated lazily by this reader
def evaluator_of(source: Source) -> Evaluator:
    return Evaluator(source)


class Evaluator:
    """The evaluator of one file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.module = CallFrame(None)
        self._frames: dict[Function, CallFrame] = {}
        self._things: dict[ast.ClassDef, Instance] = {}
        self._known: dict[tuple[ast.AST, CallFrame], Any] = {}
        self._running: set[tuple[object, object]] = set()
        self._left = 0

    def at(self, node: ast.expr) -> Any:
        self._left = MAX_PARTS
        return self.value(node, self.frame(node_lookup.enclosing_function(self.source, node)))

    def frame(self, function: Function | None) -> CallFrame:
        """The call of a function that stands for all its calls: an argument counts if they agree on it."""
        if function is None:
            return self.module
        found = self._frames.get(function)
        if found is None:
            found = self._frames[function] = CallFrame(function)
            kind = node_lookup.parents_of(self.source).get(function)
            if isinstance(kind, ast.ClassDef):
                found.itself = self.thing(kind)
                if function.name == "__init__":
                    found.given = found.itself.given
        return found

    def thing(self, kind: ast.ClassDef) -> Instance:
        """An object of the class that stands for all: a constructor argument counts if all calls agree on it."""
        found = self._things.get(kind)
        if found is None:
            found = self._things[kind] = Instance(kind)
            made = class_members.own_method(kind, "__init__")
            if made is not None:
                found.given = self._agreed(made)
            else:
                each = [self._fields(kind, call, None) for call in class_members.constructor_calls(self.source, kind)]
                found.given = {n: class_members.agreed_value([e.get(n) for e in each]) for e in each for n in e}
        return found

    def _agreed(self, function: Function) -> dict[str, Thunk]:
        each = [self.bound(function, call, None) for call in class_members.running_calls(self.source, function)]
        return (
            {n: class_members.agreed_value([e.get(n) for e in each]) for n in scope_names.parameter_names(function)}
            if each
            else {}
        )

    # -- calls

    def bound(self, function: Function, call: ast.Call, frame: CallFrame | None) -> dict[str, Thunk]:
        """The parameters of a function in one call. ``frame`` None: evaluate in the function that contains the call."""
        found: dict[str, Thunk] = {}
        for name, default in class_members.parameter_defaults(function).items():
            found[name] = self._deferred_value(default, self.module)
        self._arguments(call, class_members.positional_parameters(self.source, function), frame, found)
        return found

    def _arguments(
        self, call: ast.Call, places: Sequence[str], frame: CallFrame | None, found: dict[str, Thunk]
    ) -> None:
        for place, one in enumerate(call.args):
            if isinstance(one, ast.Starred):
                for name in places[place:]:
                    found.pop(name, None)
                break
            if place < len(places):
                found[places[place]] = self._deferred_value(one, frame)
        for named in call.keywords:
            if named.arg is not None:
                found[named.arg] = self._deferred_value(named.value, frame)
                continue
            mapping = self._value_in_frame(named.value, frame)
            if isinstance(mapping, dict):
                found.update({k: class_members.constant_thunk(v) for k, v in mapping.items() if isinstance(k, str)})
            else:
                found.clear()
                return

    def _fields(self, kind: ast.ClassDef, call: ast.Call, frame: CallFrame | None) -> dict[str, Thunk]:
        """The fields given to a data class's constructor; empty if the call is not clear."""
        names = class_members.dataclass_fields(self.source, kind)
        found: dict[str, Thunk] = {}
        self._arguments(call, names, frame, found)
        return {name: one for name, one in found.items() if name in names}

    def _deferred_value(self, node: ast.expr, frame: CallFrame | None) -> Thunk:
        return lambda: self._value_in_frame(node, frame)

    def _value_in_frame(self, node: ast.expr, frame: CallFrame | None) -> Any:
        return self.value(
            node, frame if frame is not None else self.frame(node_lookup.enclosing_function(self.source, node))
        )

    # -- expressions

    def value(self, node: ast.expr | None, frame: CallFrame) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if node is None:
            return None
        key = (node, frame)
        if key in self._known:
            return self._known[key]
        if key in self._running or len(self._running) > MAX_DEPTH or self._left <= 0:
            return None
        self._left -= 1
        self._running.add(key)
        try:
            found = self._known[key] = self._value(node, frame)
        finally:
            self._running.discard(key)
        return found

    def _value(self, node: ast.expr, frame: CallFrame) -> Any:
        if isinstance(node, ast.Name):
            return self._name(node, frame)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, frame)
        if isinstance(node, (ast.Tuple, ast.List)):
            if any(isinstance(e, ast.Starred) for e in node.elts):
                return None
            return (TupleValue if isinstance(node, ast.Tuple) else list)(self.value(e, frame) for e in node.elts)
        if isinstance(node, ast.Dict):
            return self._dict(node, frame)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._listed(node, frame)
        if isinstance(node, ast.Call):
            return self._call(node, frame)
        return self._computed(node, frame)

    def _computed(self, node: ast.expr, frame: CallFrame) -> Any:
        """The value of an operator, condition or subscript."""
        if isinstance(node, ast.Subscript):
            whole = self.value(node.value, frame)
            if isinstance(whole, (dict, list)) and self._put(node.value, self.value(node.slice, frame)):
                return None
            return array_rules.subscript_result(whole, node.slice, lambda n: self.value(n, frame))
        if isinstance(node, ast.BinOp):
            return array_rules.operator_result(node.op, self.value(node.left, frame), self.value(node.right, frame))
        if isinstance(node, ast.UnaryOp):
            inner = self.value(node.operand, frame)
            if isinstance(node.op, ast.USub) and isinstance(inner, (int, float)):
                return -inner
            return inner if isinstance(inner, ArrayValue) else None
        if isinstance(node, ast.Compare):
            sides = [self.value(e, frame) for e in (node.left, *node.comparators)]
            found = [s for s in sides if isinstance(s, ArrayValue)]
            return ArrayValue(found[0].shape, True) if len(found) == 1 and len(sides) == 2 else None
        if isinstance(node, ast.IfExp):
            asked = self.value(node.test, frame)
            return self.value(node.body if asked else node.orelse, frame) if isinstance(asked, (bool, int)) else None
        return None

    def _put(self, mapping: ast.expr, key: Any) -> bool:
        """Whether another value may be stored under a key of an existing list or mapping."""
        return class_members.may_store_key(self.source, key, [scope_names.dotted_name(mapping).rpartition(".")[2]])

    def _dict(self, node: ast.Dict, frame: CallFrame) -> dict[Any, Any] | None:
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

    def _listed(self, node: ast.ListComp | ast.GeneratorExp, frame: CallFrame) -> ArrayValue | None:
        one = node.generators[0]
        if len(node.generators) > 1 or one.ifs:
            return None
        over = array_rules.shape_of(self.value(one.iter, frame))
        inner = array_rules.shape_of(self.value(node.elt, frame))
        return ArrayValue((over[0], *(inner or ()))) if over else None

    def _name(self, node: ast.Name, frame: CallFrame) -> Any:
        where = name_bindings.binding_scope(self.source, node, node.id)
        if isinstance(where, FUNCTION_NODES):
            inside = frame if frame.function is where else self.frame(where)
            bound = name_bindings.bindings_of(where, node.id)
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
        kinds = [n for n in name_bindings.bindings_of(where, node.id) if isinstance(n, ast.ClassDef)]
        return kinds[0] if len(kinds) == 1 else self._stored(node, where, self.module)

    def _stored(self, node: ast.Name, where: ast.AST, frame: CallFrame) -> Any:
        """The value that a name was given last, if the text decides it; else that of its only other assignment."""
        if node.id in name_bindings.global_names(self.source):
            return None
        found = [s for s in name_bindings.bindings_of(where, node.id) if isinstance(s, (ast.Name, ast.arg))]
        if len(found) != len(name_bindings.bindings_of(where, node.id)):
            return None
        last = class_members.deciding_assignment(self.source, node, found, lambda n: self.value(n, frame))
        known = self._value_of_target(last, frame) if last is not None else None
        return (
            known
            if isinstance(known, (ArrayValue, DatasetValue, Instance)) or not self._may_have_changed(node.id, known)
            else None
        )

    def _may_have_changed(self, name: str, known: Any) -> bool:
        """Whether the object of this name may have changed since it was made."""
        if isinstance(known, (DatasetValue, Instance)):
            return False
        if name in class_members.extended_names(self.source) or name in class_members.reduced_names(self.source):
            return True
        return isinstance(known, dict) and class_members.UNKNOWN_KEY in class_members.stored_keys(self.source, name)

    def _value_of_target(self, target: ast.expr, frame: CallFrame) -> Any:
        above = node_lookup.parents_of(self.source)
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
        if path and isinstance(given, ast.Call) and array_rules.loads_keras_dataset(self.source, given):
            return array_rules.keras_dataset_array(self.source, given, path)
        found = self.value(given, frame)
        for place in path:
            if isinstance(found, list) and place < len(found):
                found = found[place]
            else:
                found = ArrayValue(found.shape[1:]) if isinstance(found, ArrayValue) and len(found.shape) > 1 else None
        return found

    def _attribute(self, node: ast.Attribute, frame: CallFrame) -> Any:
        base = self.value(node.value, frame)
        if isinstance(base, dict):
            return None if class_members.is_namespace_attribute_set(self.source, node.attr) else base.get(node.attr)
        if isinstance(base, ArrayValue):
            return {"shape": list(base.shape), "T": ArrayValue(base.shape[::-1])}.get(node.attr)
        if isinstance(base, ast.ClassDef):
            return (
                None
                if class_members.is_attribute_assigned(self.source, node.attr)
                else self._of_class(base, node.attr, True)
            )
        return self.member(base, node.attr) if isinstance(base, Instance) else None

    def _of_class(self, kind: ast.ClassDef, name: str, surely: bool) -> Any:
        found = class_members.class_level_store(self.source, kind, name, surely)
        return self._value_of_target(found, self.module) if found is not None else None

    def member(self, thing: Instance, name: str) -> Any:
        """An attribute of an object: a field, a value that the constructor sets once, a property."""
        known = self._member(thing, name)
        return known if not self._may_have_changed(name, known) else None

    def _member(self, thing: Instance, name: str) -> Any:
        stored = class_members.class_attribute_stores(self.source, thing.kind, name)
        if stored:
            one = class_members.single_store(self.source, thing.kind, stored)
            function = node_lookup.enclosing_function(self.source, one) if one is not None else None
            return self._value_of_target(one, CallFrame(function, thing.given, thing)) if one is not None else None
        if name in thing.given and class_members.own_method(thing.kind, "__init__") is None:
            return thing.given[name]() if not class_members.may_set_by_name(self.source, name) else None
        made = class_members.own_method(thing.kind, name)
        if made is not None and any(scope_names.dotted_name(d).endswith("property") for d in made.decorator_list):
            return self.returned(made, CallFrame(made, {}, thing))
        return self._of_class(thing.kind, name, thing is not self._things.get(thing.kind))

    def _call(self, call: ast.Call, frame: CallFrame) -> Any:
        name = node_lookup.called_name(call)
        made = array_rules.call_result(self.source, call, lambda n: self.value(n, frame))
        if made is not None:
            return made
        if isinstance(call.func, ast.Name):
            return self._named_call(call, name, frame)
        assert isinstance(call.func, ast.Attribute) or not name
        if name in NAMESPACE_CLASSES or name == "parse_args":
            return self._named_call(call, name, frame)
        if name_bindings.qualified_name(self.source, call.func).startswith("tensorflow.data."):
            return array_rules.new_dataset(call, lambda n: self.value(n, frame))
        base = self.value(call.func.value, frame) if isinstance(call.func, ast.Attribute) else None
        if isinstance(base, DatasetValue):
            return array_rules.dataset_operation(base, call, lambda n: self.value(n, frame))
        if isinstance(base, dict):
            assert isinstance(call.func, ast.Attribute)
            key = self.value(call.args[0], frame) if name == "get" and call.args else None
            return base.get(key) if isinstance(key, (str, int)) and not self._put(call.func.value, key) else None
        if isinstance(base, Instance):
            inner = class_members.own_method(base.kind, name)
            return self._call_function(inner, call, frame, base) if inner is not None else None
        return None

    def _named_call(self, call: ast.Call, name: str, frame: CallFrame) -> Any:
        if name in NAMESPACE_CLASSES:
            found = self.value(call.args[0], frame) if call.args else {}
            if not isinstance(found, dict):
                return None
            given: dict[str, Thunk] = {}
            self._arguments(ast.Call(call.func, [], call.keywords), (), frame, given)
            return found | {k: v() for k, v in given.items()}
        if name == "parse_args":
            return {k: self.value(v, self.module) for k, v in class_members.option_defaults(self.source).items()}
        if name == "len" and len(call.args) == 1:
            return self._length(call.args[0], self.value(call.args[0], frame))
        kind = self.value(call.func, frame)
        if isinstance(kind, ast.ClassDef):
            made = class_members.own_method(kind, "__init__")
            return Instance(kind, self.bound(made, call, frame) if made else self._fields(kind, call, frame))
        found = node_lookup.function_named(self.source, name, call)
        if found is None or class_members.is_method(self.source, found):
            return None
        return self._call_function(found, call, frame, None)

    def _length(self, node: ast.expr, found: Any) -> int | None:
        if isinstance(found, Instance):
            made = class_members.own_method(found.kind, "__len__")
            found = self.returned(made, CallFrame(made, {}, found)) if made is not None else None
            return found if isinstance(found, int) else None
        if isinstance(found, dict):
            return (
                len(found)
                if not class_members.stored_keys(self.source, scope_names.dotted_name(node).rpartition(".")[2])
                else None
            )
        sizes = array_rules.shape_of(found)
        return sizes[0] if sizes else None

    def _call_function(self, function: Function, call: ast.Call, frame: CallFrame, itself: Instance | None) -> Any:
        return self.returned(function, CallFrame(function, self.bound(function, call, frame), itself))

    def returned(self, function: Function, frame: CallFrame) -> Any:
        """The return value of a function with one ``return``, outside loops."""
        if any(
            scope_names.dotted_name(d).rpartition(".")[2] not in ("property", "staticmethod")
            for d in function.decorator_list
        ):
            return None
        found = [
            n
            for n in scope_names.nodes_in_scope(scope_names.scope_body(function))
            if isinstance(n, (ast.Return, ast.Yield, ast.YieldFrom))
        ]
        alone = len(found) == 1 and isinstance(found[0], ast.Return)
        return self.value(found[0].value, frame) if alone and isinstance(found[0], ast.Return) else None
