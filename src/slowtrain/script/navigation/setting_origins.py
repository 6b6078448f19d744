"""Where a setting is written, the one place to change it: through names, dictionaries, objects, parameters and ``**``.

Answers only if the file leaves one way: every call gives the same node, and nothing else stores that setting. Nothing
is computed.
"""

from __future__ import annotations

import ast

from msgspec import Struct

from slowtrain.script.navigation import class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.navigation.class_members import Function
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

MAX_DEPTH = 10  # names, parameters and mappings that are followed
COPY_FUNCTIONS = frozenset({"copy", "deepcopy"})
NAMESPACE_CLASSES = frozenset({"SimpleNamespace", "Namespace"})


class Origin(Struct, frozen=True):
    """The node that gives a value, and the names and keys that the value passes through."""

    node: ast.expr
    names: frozenset[str] = frozenset()

    @property
    def value(self) -> object:
        """The value of a literal; None for other nodes."""
        return self.node.value if isinstance(self.node, ast.Constant) else None


def written_value(source: Source, node: ast.expr) -> ast.expr | None:
    """The expression that gives ``node`` its value: a literal, a call, a dictionary. None if several may."""
    found = value_origin(source, node)
    return found.node if found is not None else None


def literal_origin(source: Source, node: ast.expr) -> Origin | None:
    """The one literal that gives ``node`` its value."""
    found = value_origin(source, node)
    return found if found is not None and isinstance(found.node, ast.Constant) else None


def literal_int(source: Source, node: ast.expr) -> int | None:
    """The int that ``node`` has from a literal."""
    found = value_origin(source, node)
    value = found.value if found is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def value_origin(source: Source, node: ast.expr, depth: int = MAX_DEPTH) -> Origin | None:
    """The node that gives ``node`` its value, and the names on the way. A change there affects all these names."""
    if depth <= 0:
        return None
    if isinstance(node, ast.Name):
        name, found = node.id, _name_origin(source, node, depth)
    elif isinstance(node, ast.Attribute):
        name, found = node.attr, _attribute_origin(source, node, depth)
    elif isinstance(node, ast.Subscript):
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        name, found = str(key), _mapping_entry(source, node.value, key, depth - 1) if isinstance(key, str) else None
    else:
        return Origin(node)
    return Origin(found.node, found.names | {name}) if found is not None else None


def _mapping_entry(source: Source, mapping: ast.expr, key: str, depth: int = MAX_DEPTH) -> Origin | None:
    """The value under ``key`` of a mapping, through copies and merged mappings."""
    whole = value_origin(source, mapping, depth)
    if whole is None or class_members.may_store_key(source, key, whole.names):
        return None
    found = whole.node
    if isinstance(found, ast.Dict):
        for name, value in reversed(list(zip(found.keys, found.values, strict=True))):
            if name is None:  # **another
                inner = _mapping_entry(source, value, key, depth - 1)
                if inner is not None or not _lacks_key(source, value, key, depth - 1):
                    return inner
            elif not isinstance(name, ast.Constant):
                return None
            elif name.value == key:
                return value_origin(source, value, depth - 1)
        return None
    if not isinstance(found, ast.Call):
        return None
    if node_lookup.called_name(found) == "dict" and isinstance(found.func, ast.Name):
        return _dict_entry(source, found, key, depth)
    if node_lookup.called_name(found) in COPY_FUNCTIONS:
        owner = found.args[0] if found.args else found.func.value if isinstance(found.func, ast.Attribute) else None
        return _mapping_entry(source, owner, key, depth - 1) if owner is not None else None
    return None


def call_argument(source: Source, call: ast.Call, name: str) -> ast.expr | None:
    """The argument ``name`` of a call: given by keyword, or in the one mapping after ``**``."""
    found = _argument_origin(source, call, name, MAX_DEPTH)
    return found.node if found is not None else None


def _argument_origin(source: Source, call: ast.Call, name: str, depth: int) -> Origin | None:
    argument = node_lookup.argument_value(call, name)
    if argument is not None:
        return value_origin(source, argument, depth)
    stars = [k.value for k in call.keywords if k.arg is None]
    return _mapping_entry(source, stars[0], name, depth) if len(stars) == 1 else None


def _dict_entry(source: Source, call: ast.Call, key: str, depth: int) -> Origin | None:
    """``dict(other, key=value)``."""
    for keyword in reversed(call.keywords):
        if keyword.arg == key:
            return value_origin(source, keyword.value, depth - 1)
        if keyword.arg is None:
            return None
    return _mapping_entry(source, call.args[0], key, depth - 1) if len(call.args) == 1 else None


def _lacks_key(source: Source, mapping: ast.expr, key: str, depth: int) -> bool:
    """Whether a mapping surely does not contain ``key``."""
    found = value_origin(source, mapping, depth)
    if found is None or not isinstance(found.node, ast.Dict):
        return False
    return all(isinstance(k, ast.Constant) and k.value != key for k in found.node.keys)


def _name_origin(source: Source, node: ast.Name, depth: int) -> Origin | None:
    where = name_bindings.binding_scope(source, node, node.id)
    bound = name_bindings.bindings_of(where, node.id)
    if len(bound) == 1 and isinstance(bound[0], ast.arg) and isinstance(where, FUNCTION_NODES):
        return _parameter_origin(source, where, node.id, depth)
    value = name_bindings.single_assignment(source, node)
    if value is None and len(bound) == 1 and isinstance(bound[0], ast.Name):
        value = _returned_item(source, bound[0])
    return value_origin(source, value, depth - 1) if value is not None else None


def _returned_item(source: Source, target: ast.Name) -> ast.expr | None:
    """The item that ``target`` receives of a tuple returned by a function of this file: ``x, y = make()``."""
    above = node_lookup.parents_of(source)
    holder = above.get(target)
    assign = above.get(holder) if isinstance(holder, ast.Tuple) else None
    if not isinstance(assign, ast.Assign) or holder not in assign.targets or not isinstance(assign.value, ast.Call):
        return None
    function = node_lookup.function_named(source, node_lookup.called_name(assign.value), assign)
    value = scope_names.single_return(function) if function is not None else None
    if not isinstance(value, ast.Tuple) or not isinstance(holder, ast.Tuple) or len(value.elts) != len(holder.elts):
        return None
    plain = not any(isinstance(e, ast.Starred) for e in (*value.elts, *holder.elts))
    return value.elts[holder.elts.index(target)] if plain else None


def _parameter_origin(source: Source, function: Function, name: str, depth: int) -> Origin | None:
    """The value that all calls in the file give a parameter; the default if they omit it."""
    places = class_members.positional_parameters(source, function)
    found: Origin | None = None
    for call in class_members.running_calls(source, function):
        if any(isinstance(a, ast.Starred) for a in call.args):
            return None
        argument = node_lookup.argument_value(call, name, places.index(name) if name in places else None)
        if argument is None and any(k.arg is None for k in call.keywords):
            one = _argument_origin(source, call, name, depth - 1)
        else:
            argument = argument if argument is not None else class_members.parameter_defaults(function).get(name)
            one = value_origin(source, argument, depth - 1) if argument is not None else None
        if one is None or (found is not None and one.node is not found.node):
            return None
        found = one if found is None else Origin(one.node, found.names | one.names)
    return found


def _attribute_origin(source: Source, node: ast.Attribute, depth: int) -> Origin | None:
    base = node.value
    if class_members.is_self_attribute(node):
        kind = class_members.enclosing_class(source, node)
        return _member_origin(source, kind, node.attr, None, depth) if kind is not None else None
    named = (
        name_bindings.bindings_of(name_bindings.binding_scope(source, base, base.id), base.id)
        if isinstance(base, ast.Name)
        else ()
    )
    if len(named) == 1 and isinstance(named[0], ast.ClassDef):
        loose = class_members.is_attribute_assigned(source, node.attr)
        return _class_level_origin(source, named[0], node.attr, True, depth) if not loose else None
    constructor = _constructor_call(source, base, depth - 1)
    name = node_lookup.called_name(constructor) if constructor is not None else ""
    if constructor is None or (
        (name in NAMESPACE_CLASSES or name == "parse_args")
        and class_members.is_namespace_attribute_set(source, node.attr)
    ):
        return None
    if name in NAMESPACE_CLASSES:
        return _argument_origin(source, constructor, node.attr, depth - 1)
    if name == "parse_args":
        default = class_members.option_defaults(source).get(node.attr)
        return value_origin(source, default, depth - 1) if default is not None else None
    factory = node_lookup.argument_value(constructor, "default_factory") if name == "field" else None
    found = _class_named(source, scope_names.dotted_name(factory) if factory is not None else name)
    if found is None or (factory is not None and class_members.class_attribute_stores(source, found, node.attr)):
        return None
    if factory is not None:  # the factory is called without arguments
        return _class_level_origin(source, found, node.attr, True, depth)
    return _member_origin(source, found, node.attr, constructor, depth)


def _constructor_call(source: Source, node: ast.expr, depth: int) -> ast.Call | None:
    """The call that creates an object, also inside a function that only returns it."""
    found = value_origin(source, node, depth)
    call = found.node if found is not None else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return call if isinstance(call, ast.Call) else None
    function = node_lookup.function_named(source, call.func.id, call)
    if function is None:
        return call
    value = scope_names.single_return(function)
    return _constructor_call(source, value, depth - 1) if value is not None else None


def _class_named(source: Source, name: str) -> ast.ClassDef | None:
    found = [n for n in class_members.class_definitions(source) if n.name == name]
    return found[0] if len(found) == 1 else None


def _member_origin(source: Source, kind: ast.ClassDef, name: str, call: ast.Call | None, depth: int) -> Origin | None:
    """An attribute of a class's objects: set once in its constructor, or a data class's field."""
    stored = class_members.class_attribute_stores(source, kind, name)
    if not stored:
        return _field_origin(source, kind, name, call, depth)
    one = class_members.single_store(source, kind, stored)
    value = name_bindings.assigned_value(source, one) if one is not None else None
    return value_origin(source, value, depth - 1) if value is not None else None


def _field_origin(source: Source, kind: ast.ClassDef, name: str, call: ast.Call | None, depth: int) -> Origin | None:
    """A class-level value that no constructor call overrides with another one."""
    fields = class_members.dataclass_fields(source, kind)
    calls = [call] if call is not None else class_members.constructor_calls(source, kind)
    if any(k.arg is None for c in calls for k in c.keywords) or any(
        isinstance(a, ast.Starred) for c in calls for a in c.args
    ):
        return None
    place = fields.index(name) if name in fields else None
    arguments = [g for c in calls if (g := node_lookup.argument_value(c, name, place)) is not None]
    if arguments:
        return value_origin(source, arguments[0], depth - 1) if len(calls) == 1 and name in fields else None
    return _class_level_origin(source, kind, name, call is not None, depth)


def _class_level_origin(source: Source, kind: ast.ClassDef, name: str, surely: bool, depth: int) -> Origin | None:
    target = class_members.class_level_store(source, kind, name, surely)
    value = name_bindings.assigned_value(source, target) if target is not None else None
    if isinstance(value, ast.Call) and node_lookup.called_name(value) == "field":
        value = node_lookup.argument_value(value, "default") or value
    return value_origin(source, value, depth - 1) if value is not None else None
