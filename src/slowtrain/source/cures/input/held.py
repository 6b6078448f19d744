"""Methods of an object that is made once and never changed: they give the same each time that they are called."""

from __future__ import annotations

import ast

from slowtrain.script.evaluators import value_kinds
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.source.cures.input import generators

TRAINED = ("Variable", "layers.", "models.", "Model", "Sequential", "optimizers.", "metrics.", "lookup.")


def method(source: Source, call: ast.Call) -> ast.FunctionDef | None:
    """The method of ``graph.tensors()`` where ``graph`` is the one object of a class of this file that stays as it is.

    Whether the method itself does nothing but compute is for the caller to see.
    """
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    made = _class(source, owner) if isinstance(owner, ast.Name) else None
    if made is None or not isinstance(call.func, ast.Attribute):
        return None
    methods = {n.name: n for n in made.body if isinstance(n, ast.FunctionDef)}
    found = methods.get(call.func.attr)
    plain = all(isinstance(n, ast.FunctionDef) or _said(n) for n in made.body) and not made.bases
    if found is None or found.decorator_list or made.decorator_list or not plain or found.name.startswith("__"):
        return None
    if {"__getattr__", "__getattribute__", "__setattr__"} & set(methods) or not _of_its_own(source, methods):
        return None
    own = scope_names.parameter_names(found)[:1] == ["self"] and node_lookup.function_named(source, found.name) is found
    return found if own and not _changes(source, made) and generators.own_results(found) else None


def _of_its_own(source: Source, methods: dict[str, ast.FunctionDef]) -> bool:
    """Whether the constructor makes all that the object holds, and nothing of it is trained."""
    making = methods.get("__init__")
    if making is None:
        return True
    given = set(scope_names.parameter_names(making))
    for node in syntax_tree.walk(making):
        whole = scope_names.resolved_name(source, node.func) if isinstance(node, ast.Call) else ""
        if whole.startswith(("tensorflow.", "keras.")) and any(word in whole for word in TRAINED):
            return False
        stored = isinstance(node, ast.Assign) and any(isinstance(t, ast.Attribute) for t in node.targets)
        if stored and isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in given:
            return False
    return True


def _said(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _class(source: Source, owner: ast.Name) -> ast.ClassDef | None:
    """The class of this file whose object the name is given, once, where the loop cannot come again."""
    scope = value_kinds.binding_function(source, owner)
    found = scope_names.binding_statements(source, owner.id, scope) if scope is not None else []
    value = found[0].value if len(found) == 1 and isinstance(found[0], ast.Assign) else None
    if (
        not isinstance(value, ast.Call)
        or not isinstance(value.func, ast.Name)
        or scope_names.enclosing_loops(source, found[0])
    ):
        return None
    kind = value.func.id
    made = [n for n in source.tree.body if isinstance(n, ast.ClassDef) and n.name == kind]
    return made[0] if len(made) == 1 else None


def _changes(source: Source, made: ast.ClassDef) -> bool:
    """Whether anything but the constructor puts something into what the objects hold, or draws in a method."""
    held = {
        n.attr
        for n in syntax_tree.walk(made)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "self"
    }
    inside = [n for n in made.body if isinstance(n, FUNCTION_NODES) and n.name == "__init__"]
    constructor = {id(n) for one in inside for n in syntax_tree.walk(one)}
    for node in syntax_tree.walk(source.tree):
        if id(node) in constructor:
            continue
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            if _reaches(node, held):
                return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changing = node.func.attr in generators.CHANGING or node.func.attr in repeatable_functions.STATEFUL_METHODS
            shuffled = [a for a in node.args if _reaches(a, held)] if node.func.attr == "shuffle" else []
            if shuffled or (changing and _reaches(node.func.value, held)):
                return True
    return False


def _reaches(node: ast.AST, held: set[str]) -> bool:
    """Whether ``a.held[0].b`` goes through what the objects hold."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute) and node.attr in held:
            return True
        node = node.value
    return False
