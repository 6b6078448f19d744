"""A ``tf.function`` made anew in each turn of a loop for another number: made once, for a variable."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.interpreter.engine import interpreter
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import extracting
from slowtrain.source.cures.host import factories, retraced


def numbered(source: Source, line: int) -> list[Edit]:
    """``step = make_step(model, rate(epoch))`` in a loop, out of it, with a variable that each turn assigns.

    Of a function that does no more than to make the ``tf.function`` at ``line``, in which the number is one side of
    an addition or a multiplication and decides nothing.
    """
    made = retraced.graph_function(source, line)
    holder = node_lookup.enclosing_function(source, made) if made is not None else None
    if made is None or not isinstance(holder, ast.FunctionDef) or not _only_makes(source, holder, made):
        return []
    calls = call_index.index_of(source).called(holder.name)
    statement = node_lookup.enclosing_statement(source, calls[0]) if len(calls) == 1 else None
    if not isinstance(statement, ast.Assign) or statement.value is not calls[0] or "float64" in source.text:
        return []
    loop = node_lookup.parents_of(source).get(statement)
    target = statement.targets[0]
    if not isinstance(loop, ast.For) or statement not in loop.body or not isinstance(target, ast.Name):
        return []
    if (
        len(scope_names.binding_statements(source, target.id, scope_names.enclosing_scope(source, statement))) != 1
        or len(statement.targets) > 1
    ):
        return []
    number = _number(source, calls[0], loop)
    if number is None or not _arithmetic(source, holder, made, number[0]):
        return []
    tf, importing = edits.ensure_import(source, "tensorflow", "tf")
    name = extracting.free_name(source, f"{number[0]}_now", f"{number[0]}_variable")
    written, given = edits.node_text(source, statement), edits.node_text(source, number[1])
    once = written.replace(given, name, 1) if written.count(given) == 1 else ""
    if not once:
        return []
    return [
        *importing,
        edits.insert_before(source, loop, f"{name} = {tf}.Variable(0.0, trainable=False)\n{once}"),
        edits.replace_node(source, statement, f"{name}.assign({given})"),
    ]


def _only_makes(source: Source, holder: ast.FunctionDef, made: ast.FunctionDef) -> bool:
    """Whether a function of the file makes this ``tf.function`` and returns it, and does nothing else."""
    told = ast.get_docstring(holder) is not None
    plain = isinstance(node_lookup.parents_of(source).get(holder), ast.Module) and not holder.decorator_list
    alone = len(holder.body) == 2 + told and factories.only_makes(holder, made, since=told)
    return plain and alone and graph_obstacles.is_graph_function(source, made)


def _number(source: Source, call: ast.Call, loop: ast.For) -> tuple[str, ast.expr] | None:
    """The one argument that is another in each turn, a float, and the parameter that it is given for."""
    function = node_lookup.function_named(source, node_lookup.called_name(call))
    names = scope_names.parameter_names(function) if function is not None else []
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return None
    given = [*zip(names, call.args, strict=False), *((k.arg or "", k.value) for k in call.keywords)]
    moving = [(name, one) for name, one in given if scope_names.read_names(one) & scope_names.bound_names(loop)]
    still = [one for name, one in given if (name, one) not in moving]
    if len(moving) != 1 or not all(isinstance(one, (ast.Name, ast.Attribute, ast.Constant)) for one in still):
        return None
    value = interpreter.value_at(source, moving[0][1])
    return moving[0] if value.kind == "number" and value.name == "float" else None


def _arithmetic(source: Source, holder: ast.FunctionDef, made: ast.FunctionDef, name: str) -> bool:
    """Whether a parameter is used in the graph alone, and there as a number that meets tensors."""
    above = node_lookup.parents_of(source)
    uses = [n for n in syntax_tree.walk(holder) if isinstance(n, ast.Name) and n.id == name]
    inside = {id(n) for n in syntax_tree.walk(made)}
    return bool(uses) and all(id(n) in inside and retraced.use(source, n, above) == "number" for n in uses)
