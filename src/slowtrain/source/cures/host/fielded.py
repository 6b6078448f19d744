"""An object that every call of a ``tf.function`` is given anew, for which it is traced: its numbers, as tensors."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.evaluators import value_kinds
from slowtrain.script.navigation import class_members, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.source.cures.host import retraced


def as_fields(source: Source, line: int, parameter: str, kind: str) -> list[Edit]:
    """The function at ``line`` with the numbers of ``parameter``, an object of the class ``kind``, in its place.

    Nothing unless all that it reads of the object is written down to be floats, and meets tensors.
    """
    function = retraced.graph_function(source, line)
    if function is None or retraced.OTHER_TYPES.search(source.text) or _bound_to_signature(function, parameter):
        return []
    read = _fields(source, function, parameter)
    calls = retraced.calls_of(source, function)
    if not read or not set(read) <= _floats(source, kind) or not calls:
        return []
    tf, importing = edits.ensure_import(source, "tensorflow", "tf")
    names = {field: _fresh(function, f"{parameter}_{field}") for field in read}
    found = [*importing]
    for call in calls:
        changed = _given(source, function, call, parameter, names, tf)
        if not changed:
            return []
        found += changed
    argument = next(a for a in function.args.args if a.arg == parameter)
    found.append(edits.replace_node(source, argument, ", ".join(names.values())))
    found += [edits.replace_node(source, node, names[field]) for field, nodes in read.items() for node in nodes]
    return found


def as_structure(source: Source, line: int, parameter: str) -> list[Edit]:
    """Every call of the function at ``line`` with all numbers of ``parameter``, a tuple with names, as tensors.

    Nothing unless all that the function does with the tuple is to read items of it, and these meet tensors.
    """
    function = retraced.graph_function(source, line)
    calls = retraced.calls_of(source, function) if function is not None else []
    if function is None or not calls or parameter in scope_names.bound_names(function.body):
        return []
    above, ways = node_lookup.parents_of(source), set[str | None]()
    for node in (n for one in function.body for n in syntax_tree.walk(one)):
        if isinstance(node, ast.Name) and node.id == parameter:
            read = above.get(node)
            item = isinstance(read, ast.Attribute) or (isinstance(read, ast.Subscript) and read.value is node)
            ways.add(retraced.use(source, read, above) if item and isinstance(read, ast.expr) else None)
    if not ways or None in ways or retraced.OTHER_TYPES.search(source.text):
        return []
    tf, importing = edits.ensure_import(source, "tensorflow", "tf")
    found: list[Edit] = []
    for call in calls:
        given = value_kinds.argument_in(function, call, parameter)
        if given is None or any(isinstance(a, ast.Starred) for a in call.args):
            return []
        made = (
            f"{tf}.nest.map_structure(lambda one: {tf}.constant(one, {tf}.float32), {edits.node_text(source, given)})"
        )
        found.append(edits.replace_node(source, given, made))
    return [*importing, *found]


def _bound_to_signature(function: ast.FunctionDef, parameter: str) -> bool:
    """Whether the parameter cannot be several: it has a default, is bound anew, or the arguments are declared."""
    plain = any(a.arg == parameter for a in function.args.args)
    inner = [
        n for n in syntax_tree.walk(function) if isinstance(n, (*FUNCTION_NODES, ast.Lambda)) and n is not function
    ]
    hidden = any(parameter in scope_names.parameter_names(n) for n in inner)
    declared = any(isinstance(d, ast.Call) and (d.args or d.keywords) for d in function.decorator_list)
    given = class_members.parameter_defaults(function).get(parameter) is not None
    return not plain or hidden or declared or given or parameter in scope_names.bound_names(function.body)


def _fields(source: Source, function: ast.FunctionDef, parameter: str) -> dict[str, list[ast.Attribute]]:
    """What the function reads of the object; nothing where it does anything else with it."""
    above = node_lookup.parents_of(source)
    found: dict[str, list[ast.Attribute]] = {}
    for node in (n for one in function.body for n in syntax_tree.walk(one)):
        if not isinstance(node, ast.Name) or node.id != parameter:
            continue
        part = above.get(node)
        if not isinstance(part, ast.Attribute) or not isinstance(part.ctx, ast.Load):
            return {}
        if retraced.use(source, part, above) is None:
            return {}
        found.setdefault(part.attr, []).append(part)
    return found


def _floats(source: Source, kind: str) -> set[str]:
    """Fields of the class that are written down to be floats."""
    made = [n for n in source.tree.body if isinstance(n, ast.ClassDef) and n.name == kind]
    fields = [n for one in made if len(made) == 1 for n in one.body if isinstance(n, ast.AnnAssign)]
    texts = {n.target.id: ast.unparse(n.annotation).strip("'\"") for n in fields if isinstance(n.target, ast.Name)}
    return {name for name, text in texts.items() if text == "float"}


def _fresh(function: ast.FunctionDef, name: str) -> str:
    known = {n.id for n in syntax_tree.walk(function) if isinstance(n, ast.Name)} | set(
        scope_names.parameter_names(function)
    )
    return name if name not in known else _fresh(function, f"{name}_")


def _given(
    source: Source, function: ast.FunctionDef, call: ast.Call, parameter: str, names: dict[str, str], tf: str
) -> list[Edit]:
    """The call with the numbers; an object that is made in it is made before it."""
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return []
    given = value_kinds.argument_in(function, call, parameter)
    if given is None:
        return []
    text, before = scope_names.dotted_name(given), []
    if not text:
        statement = node_lookup.enclosing_statement(source, call)
        rest = [a for a in (*call.args, *(k.value for k in call.keywords)) if a is not given]
        alone = isinstance(statement, (ast.Assign, ast.Expr)) and statement.value is call
        if (
            statement is None
            or not alone
            or not all(isinstance(a, ast.Constant) or scope_names.dotted_name(a) for a in rest)
        ):
            return []
        text = _unused(source, call, parameter)
        before = [edits.insert_before(source, statement, f"{text} = {edits.node_text(source, given)}")]
        if given.lineno != given.end_lineno:
            return []
    made = {field: f"{tf}.constant({text}.{field}, {tf}.float32)" for field in names}
    word = next((k for k in call.keywords if k.value is given), None)
    if word is not None:
        return [*before, edits.replace_node(source, word, ", ".join(f"{names[f]}={t}" for f, t in made.items()))]
    return [*before, edits.replace_node(source, given, ", ".join(made.values()))]


def _unused(source: Source, call: ast.Call, name: str) -> str:
    """A name that is free where the call stands."""
    scope = scope_names.scope_body(scope_names.enclosing_scope(source, call))
    known = (
        scope_names.bound_names(scope)
        | scope_names.read_names(scope)
        | set(scope_names.parameter_names(scope_names.enclosing_scope(source, call)))
    )
    return name if name not in known else _unused(source, call, f"{name}_")
