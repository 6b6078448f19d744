"""Finds the function that a data set calls and the values of the names that it reads, for :mod:`.elementwise`."""

from __future__ import annotations

import ast

from slowtrain.script.fixes.elementwise.known_operations import (
    BATCH_SAFE_LAYERS,
    ConstantValue,
    NotProvenError,
    ObjectValue,
    ReadFunction,
    Value,
)
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

Function = ast.FunctionDef | ast.Lambda
NUMBER_EXPRESSIONS = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)


def mapped_function(source: Source, given: ast.expr, near: ast.AST) -> tuple[Function, tuple[Value, ...]]:
    """Return the function that ``given`` names, and the arguments before the element, such as ``self``."""
    if isinstance(given, ast.Lambda):
        return given, ()
    found = None
    if isinstance(given, ast.Name):
        found = node_lookup.function_named(source, given.id, near)
    elif isinstance(given, ast.Attribute) and not name_bindings.qualified_name(source, given):
        found = node_lookup.function_named(source, given.attr, near)
    owner = node_lookup.parents_of(source).get(found) if found is not None else None
    decorators = {scope_names.dotted_name(d) for d in found.decorator_list} if found is not None else {""}
    if found is None or isinstance(owner, ast.ClassDef) != isinstance(given, ast.Attribute):
        raise NotProvenError("not a function of this file")
    if isinstance(owner, ast.ClassDef) and "staticmethod" not in decorators:
        if decorators - {"tf.function"} or _has_special_base(owner, found.name):
            raise NotProvenError("a method of another kind")
        return found, (ObjectValue(owner),)
    if decorators - {"tf.function", "staticmethod"}:
        raise NotProvenError("a decorated function")
    return found, ()


def _has_special_base(owner: ast.ClassDef, name: str) -> bool:
    """Whether the class has a base whose methods a library calls, or is abstract."""
    calls = {"call", "__call__", "build", "forward"}
    return name in calls or any(
        scope_names.dotted_name(b).rpartition(".")[2] in ("ABC", "Protocol") for b in owner.bases
    )


def is_used_once(source: Source, called: str) -> bool:
    """Whether a function is used in one place only."""
    used = [
        n for n in syntax_tree.walk(source.tree)
        if (isinstance(n, ast.Name) and n.id == called) or (isinstance(n, ast.Attribute) and n.attr == called)
    ]  # fmt: skip
    return len(used) == 1


def is_only_mapped(source: Source, found: ReadFunction) -> bool:
    """Whether only data sets, or each other, call the functions that are changed."""
    above = node_lookup.parents_of(source)
    entered = [f for name in set(found.entered) if (f := node_lookup.function_named(source, name)) is not None]
    inside = {id(n) for f in entered for n in syntax_tree.walk(f)}
    for one in entered:
        begun, stop = edits.node_start(one), edits.node_end(one)
        if not any(begun <= change.start <= stop for change in found.changes):
            continue
        for node in syntax_tree.walk(source.tree):
            named = isinstance(node, ast.Name) and node.id == one.name
            if (named or (isinstance(node, ast.Attribute) and node.attr == one.name)) and id(node) not in inside:
                user = above.get(node)
                if not isinstance(user, ast.Call) or user.func is node or node_lookup.called_name(user) != "map":
                    return False
    return True


def attribute_value(source: Source, owner: ast.ClassDef, name: str) -> Value:
    """Return the value of ``self.name``: a number if the class defines it and nothing assigns it."""
    stored = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Attribute) and n.attr == name]
    plain = [n.value for n in owner.body if isinstance(n, ast.Assign) and scope_names.dotted_name(n.targets[0]) == name]
    plain += [n.value for n in owner.body
              if isinstance(n, ast.AnnAssign) and n.value is not None
              and scope_names.dotted_name(n.target) == name]  # fmt: skip
    if any(not isinstance(n.ctx, ast.Load) for n in stored) or len(plain) != 1:
        return ConstantValue()
    return (
        ConstantValue(0)
        if all(isinstance(n, NUMBER_EXPRESSIONS) for n in syntax_tree.walk(plain[0]))
        else ConstantValue()
    )


def constant_value(source: Source, name: ast.Name) -> Value:
    """Return the value of a global name: a number if the file assigns one."""
    found = scope_names.binding_statements(source, name.id, source.tree)
    made = [f.value for f in found if isinstance(f, ast.Assign) and isinstance(f.targets[0], ast.Name)]
    if len(found) != 1 or len(made) != 1:
        return ConstantValue()
    if all(isinstance(n, NUMBER_EXPRESSIONS) for n in syntax_tree.walk(made[0])):
        return ConstantValue(0)
    return ConstantValue()


def layer_kinds(source: Source, name: str) -> list[str]:
    """Return the layer classes of a layer or Sequential of the file, if all of them accept batches and elements."""
    found = scope_names.binding_statements(source, name, source.tree)
    made = [f.value for f in found if isinstance(f, ast.Assign) and isinstance(f.value, ast.Call)]
    if (
        len(found) != 1
        or len(made) != 1
        or ".layers" not in f".{scope_names.resolved_name(source, made[0].func)}.layers"
    ):
        return []
    calls = [made[0]]
    if (
        node_lookup.called_name(made[0]) == "Sequential"
        and len(made[0].args) == 1
        and isinstance(made[0].args[0], ast.List)
    ):
        if not all(isinstance(e, ast.Call) for e in made[0].args[0].elts):
            return []
        calls = [e for e in made[0].args[0].elts if isinstance(e, ast.Call)]
    names = [node_lookup.called_name(c) for c in calls]
    return names if all(n in BATCH_SAFE_LAYERS for n in names) else []
