"""Classes, objects, mappings and command-line options of a script: where they are defined, stored and changed.

Facts of the text; no value is followed here.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent

Function = ast.FunctionDef | ast.AsyncFunctionDef
CONSTRUCTORS = ("__init__", "__post_init__")
UNKNOWN_KEY = object()  # a computed key
_ALL_ATTRIBUTES_SET = re.compile(r"(?:\b__dict__|\bvars\s*\([^()]*\))\s*(?:\.\s*update\b|\[|\|?=(?!=))")


def own_method(kind: ast.ClassDef, name: str) -> Function | None:
    """The method of this name in a class's own body; None if there is none or more than one."""
    found = [n for n in kind.body if isinstance(n, FUNCTION_NODES) and n.name == name]
    return found[0] if len(found) == 1 else None


def parameter_defaults(function: Function) -> dict[str, ast.expr]:
    """The default values of a function's parameters, by name."""
    parameters = function.args
    positional = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    found = dict(zip(positional[len(positional) - len(parameters.defaults) :], parameters.defaults, strict=True))
    named = zip((a.arg for a in parameters.kwonlyargs), parameters.kw_defaults, strict=True)
    return found | {name: value for name, value in named if value is not None}


def is_stored_outside_init(source: Source, names: Collection[str]) -> bool:
    """Whether an attribute of one of these names is assigned outside a constructor."""
    for node in call_index.nodes_of_kind(source, ast.Attribute):
        if isinstance(node, ast.Attribute) and node.attr in names and not isinstance(node.ctx, ast.Load):
            function = node_lookup.enclosing_function(source, node)
            if function is None or function.name not in CONSTRUCTORS:
                return True
    return False


@cache_recent(16)
def extended_names(source: Source) -> frozenset[str]:
    """Names of lists and mappings that the file extends."""
    added = (n.target for n in call_index.nodes_of_kind(source, ast.AugAssign) if isinstance(n, ast.AugAssign))
    return _method_owners(source, "append", "extend", "insert", "update", "setdefault") | {
        str(_last_name(t)) for t in added
    }


@cache_recent(16)
def reduced_names(source: Source) -> frozenset[str]:
    """Names of lists and mappings that the file takes items out of, or reorders."""
    return _method_owners(source, "pop", "popitem", "remove", "clear", "sort", "reverse")


def _method_owners(source: Source, *methods: str) -> frozenset[str]:
    calls = call_index.index_of(source).calls_of(*methods)
    return frozenset(str(_last_name(c.func.value)) for c in calls if isinstance(c.func, ast.Attribute))


def may_store_key(source: Source, key: object, names: Iterable[str]) -> bool:
    """Whether the file may store under ``key`` into a list or mapping called by one of ``names`` after its creation."""
    stored = isinstance(key, str) and _is_key_stored(source, key)
    return stored or any(k is UNKNOWN_KEY or k == key for name in names for k in stored_keys(source, name))


@cache_recent(64)
def _is_key_stored(source: Source, key: str) -> bool:
    """Whether a value is stored under this key into any existing mapping."""
    quoted = re.compile(rf"[\"']{re.escape(unicodedata.normalize('NFKC', key))}[\"']")
    found = call_index.nodes_matching(source, quoted, ast.Subscript)
    return any(_store_keys(n) == [key] for n in found) or any(
        any(k.arg == key for k in call.keywords)
        or any(key in (getattr(a, "value", None), *_mapping_keys(a)) for a in call.args[:1])
        for call in call_index.index_of(source).calls_of("update", "setdefault", "pop")
    )


@cache_recent(64)
def stored_keys(source: Source, name: str) -> list[Any]:
    """The keys under which values are stored into the object of this name; a marker object for a computed key."""
    if not name:
        return []
    found = call_index.nodes_matching(
        source, re.compile(rf"{call_index.whole_word_pattern(name)}[\"'\]\s]*\["), ast.Subscript
    )
    keys = [k for n in found if isinstance(n, ast.Subscript) and _last_name(n.value) == name for k in _store_keys(n)]
    for call in call_index.index_of(source).calls_of("update"):
        mapping_keys = [k for a in call.args for k in (_mapping_keys(a) if isinstance(a, ast.Dict) else [UNKNOWN_KEY])]
        if isinstance(call.func, ast.Attribute) and _last_name(call.func.value) == name:
            keys += mapping_keys + [k.arg or UNKNOWN_KEY for k in call.keywords]
    return keys


def _store_keys(node: ast.AST) -> list[Any]:
    """The key of a subscript that is stored to; empty if it is read."""
    if not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Load):
        return []
    return [node.slice.value if isinstance(node.slice, ast.Constant) else UNKNOWN_KEY]


def _last_name(node: ast.AST) -> object:
    """The last name of an expression: of ``CFG``, ``self.cfg``, ``CFG["train"]``."""
    if isinstance(node, ast.Subscript):
        return getattr(node.slice, "value", None)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _mapping_keys(mapping: ast.expr) -> list[Any]:
    keys = mapping.keys if isinstance(mapping, ast.Dict) else ()
    return [k.value if isinstance(k, ast.Constant) else UNKNOWN_KEY for k in keys]


@cache_recent(256)
def attribute_stores(source: Source, name: str) -> list[ast.Attribute]:
    """Where an attribute of this name is assigned, on any object."""
    found = call_index.nodes_matching(source, re.compile(rf"\.\s*{name}\b"), ast.Attribute)
    named = [n for n in found if isinstance(n, ast.Attribute) and n.attr == name]
    return [n for n in named if not isinstance(n.ctx, ast.Load)]


def is_attribute_assigned(source: Source, name: str) -> bool:
    """Whether the file may assign an attribute of this name, on any object."""
    return bool(attribute_stores(source, name)) or may_set_by_name(source, name)


def is_namespace_attribute_set(source: Source, name: str) -> bool:
    """Whether the file may assign this attribute to a namespace, i.e. not to an object of a class of its own."""
    return may_set_by_name(source, name) or any(not _is_self_store(source, n) for n in attribute_stores(source, name))


def _is_self_store(source: Source, node: ast.Attribute) -> bool:
    """Whether it is ``self.x`` in a class that is not a namespace."""
    kind = enclosing_class(source, node) if isinstance(node.value, ast.Name) and node.value.id == "self" else None
    return kind is not None and not any(
        "Namespace" in scope_names.dotted_name(b) for c in class_ancestry(source, kind) for b in c.bases
    )


@cache_recent(256)
def may_set_by_name(source: Source, name: str) -> bool:
    """Whether an attribute may be set by ``setattr``, or together with all others (``__dict__``, ``vars``)."""
    named = [node_lookup.argument_value(call, "name", 1) for call in call_index.index_of(source).calls_of("setattr")]
    return any(getattr(n, "value", name) == name for n in named) or bool(_ALL_ATTRIBUTES_SET.search(source.plain))


def class_attribute_stores(source: Source, kind: ast.ClassDef, name: str) -> list[ast.Attribute]:
    """Where an attribute of a class's objects may be assigned: in the class or its relatives, or from outside."""
    family = {*class_ancestry(source, kind), *class_descendants(source, kind)}
    return [
        n for n in attribute_stores(source, name) if not is_self_attribute(n) or enclosing_class(source, n) in family
    ]


def single_store(source: Source, kind: ast.ClassDef, stored: Sequence[ast.Attribute]) -> ast.Attribute | None:
    """The one assignment that gives an attribute to all objects of a class: in its constructor, or of a literal."""
    function = node_lookup.enclosing_function(source, stored[0]) if len(stored) == 1 else None
    if function is None or enclosing_class(source, stored[0]) is not kind or may_set_by_name(source, stored[0].attr):
        return None
    literal = isinstance(
        name_bindings.assigned_value(source, stored[0]), ast.Constant
    ) and not name_bindings.bindings_of(kind, stored[0].attr)
    once = function.name == "__init__" and function in kind.body and not scope_names.enclosing_loops(source, stored[0])
    return stored[0] if is_self_attribute(stored[0]) and (once or literal) else None


def class_level_store(source: Source, kind: ast.ClassDef, name: str, surely: bool) -> ast.Name | None:
    """Where the class body gives its objects an attribute. ``surely``: the object's class is not a subclass."""
    own = name_bindings.bindings_of(kind, name)
    found = own or [n for c in class_ancestry(source, kind) for n in name_bindings.bindings_of(c, name)]
    below = () if surely else class_descendants(source, kind)[1:]
    one = found[0] if len(found) == 1 and not any(name_bindings.bindings_of(h, name) for h in below) else None
    return one if isinstance(one, ast.Name) and not may_set_by_name(source, name) else None


def dataclass_fields(source: Source, kind: ast.ClassDef) -> list[str]:
    """The parameters of a data class's constructor in order; empty if a class has a constructor of its own."""
    family = class_ancestry(source, kind)
    if any(own_method(c, "__init__") is not None for c in family):
        return []
    named = (n.target for c in family for n in c.body if isinstance(n, ast.AnnAssign))
    return list(dict.fromkeys(n.id for n in named if isinstance(n, ast.Name)))


def constructor_calls(source: Source, kind: ast.ClassDef) -> list[ast.Call]:
    """The calls that create objects of a class or its subclasses, ``cls()`` too; empty if subclasses override it."""
    several = class_descendants(source, kind)
    if any(own_method(h, "__init__") is not None for h in several[1:]):
        return []
    own = (c for c in call_index.index_of(source).calls_of("cls") if enclosing_class(source, c) in several)
    return [*call_index.index_of(source).calls_of(*(h.name for h in several)), *own]


@cache_recent(64)
def class_ancestry(source: Source, kind: ast.ClassDef) -> list[ast.ClassDef]:
    """A class and its base classes in this file, the first base first."""
    found = [c for c in class_definitions(source) if kind in class_descendants(source, c)]
    return sorted(found, key=lambda c: -len(class_descendants(source, c)))


@cache_recent(256)
def class_descendants(source: Source, kind: ast.ClassDef) -> list[ast.ClassDef]:
    """A class and its subclasses in this file."""
    found = [kind]
    for one in found:
        of_it = (
            c
            for c in class_definitions(source)
            if any(scope_names.dotted_name(b).rpartition(".")[2] == one.name for b in c.bases)
        )
        found += [c for c in of_it if c not in found]
    return found


@cache_recent(16)
def class_definitions(source: Source) -> list[ast.ClassDef]:
    return [n for n in call_index.nodes_of_kind(source, ast.ClassDef) if isinstance(n, ast.ClassDef)]


def enclosing_class(source: Source, node: ast.AST) -> ast.ClassDef | None:
    """The class whose body contains ``node``, in a method or not."""
    above = node_lookup.parents_of(source)
    found = above.get(node)
    while found is not None and not isinstance(found, ast.ClassDef):
        found = above.get(found)
    return found


def is_method(source: Source, function: Function) -> bool:
    """Whether the function's parent is a class."""
    return isinstance(node_lookup.parents_of(source).get(function), ast.ClassDef)


def uncalled_references(source: Source, function: Function) -> list[ast.expr]:
    """Where a function's name is read and not called."""
    name = function.name
    if source.text.count(name) == source.text.count(f"{name}("):  # true of most functions; saves the pattern
        return []
    method = is_method(source, function)
    before = r"\.\s*" if method else r"(?<!def )(?<!\.)\b"
    pattern = re.compile(rf"{before}{name}\b(?!\s*[(=])")
    above = node_lookup.parents_of(source)
    return [
        node for node in call_index.nodes_matching(source, pattern, ast.Attribute if method else ast.Name)
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
        and _last_name(node) == name and getattr(above.get(node), "func", None) is not node
    ]  # fmt: skip


@cache_recent(64)
def running_calls(source: Source, function: Function) -> list[ast.Call]:
    """The calls that run a function; empty if the function is also passed on, so that other callers are possible."""
    kind = node_lookup.parents_of(source).get(function)
    if uncalled_references(source, function):
        return []
    if isinstance(kind, ast.ClassDef) and function.name == "__init__":
        return constructor_calls(source, kind)
    return call_index.index_of(source).calls_of(function.name)


def positional_parameters(source: Source, function: Function) -> list[str]:
    """The parameters that a call gives by position, without a method's ``self``."""
    found = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    static = any(scope_names.dotted_name(d) == "staticmethod" for d in function.decorator_list)
    return found[1:] if is_method(source, function) and not static else found


def is_self_attribute(node: ast.Attribute) -> bool:
    """Whether it is an attribute of ``self`` or ``cls``."""
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


@cache_recent(16)
def option_defaults(source: Source) -> dict[str, ast.expr]:
    """Defaults of command-line options by attribute name; only options with a default and one definition."""
    if call_index.index_of(source).calls_of("set_defaults"):
        return {}
    found: dict[str, list[ast.expr | None]] = {}
    for call in call_index.index_of(source).calls_of("add_argument"):
        flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        long = [f for f in flags if f.startswith("--")] or flags
        target = node_lookup.argument_value(call, "dest")
        flag = long[0].lstrip("-").replace("-", "_") if long else ""
        stands = target.value if isinstance(target, ast.Constant) else flag
        found.setdefault(str(stands), []).append(node_lookup.argument_value(call, "default"))
    return {name: values[0] for name, values in found.items() if len(values) == 1 and values[0] is not None}
