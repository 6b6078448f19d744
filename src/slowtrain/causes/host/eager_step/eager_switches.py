"""Takes back the switches that make steps run eagerly."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from slowtrain.causes.host.eager_step.fix import body_without_docstring
from slowtrain.model import Edit
from slowtrain.script.navigation import node_lookup, scope_names, setting_origins
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

SWITCHES = ("run_functions_eagerly", "experimental_run_functions_eagerly")


def without_eager_compile(source: Source, line: int) -> list[Edit]:
    """Removes ``run_eagerly`` from ``compile()`` at ``line`` if nothing in the file's models needs it.

    Keras leaves the batch size open, so ``x.shape[0]`` in a shape becomes ``tf.shape(x)[0]``.
    """
    call = node_lookup.single_call(source, line, "compile")
    given = node_lookup.argument_value(call, "run_eagerly") if call is not None else None
    if call is None or not isinstance(given, (ast.Constant, ast.Name, ast.Attribute)):
        return []
    sizes = _open_batch_sizes(source)
    if _needs_eager_mode(source, sizes):
        return []
    return [*edits.remove_keyword(source, call, "run_eagerly"), *(_dynamic_size_edit(source, s) for s in sizes)]


def without_eager_option(source: Source, given: ast.expr) -> list[Edit]:
    """Replaces True by False in a mapping passed to ``compile()`` if nothing in the file's models needs it."""
    if not isinstance(given, ast.Constant):
        return []
    sizes = _open_batch_sizes(source)
    if _needs_eager_mode(source, sizes):
        return []
    return [edits.replace_node(source, given, "False"), *(_dynamic_size_edit(source, s) for s in sizes)]


def without_eager_switch(source: Source) -> list[Edit]:
    """Turns ``tf.config.run_functions_eagerly(True)`` off if nothing in the file needs it.

    If the True is a setting that only this call reads, the setting is changed instead.
    """
    calls = [
        n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and node_lookup.called_name(n) in SWITCHES
    ]
    given = [value for c in calls if (value := node_lookup.argument_value(c, "run_eagerly", 0)) is not None]
    on = [v for v in given if getattr(setting_origins.written_value(source, v), "value", None) is not False]
    true = [v for v in on if getattr(setting_origins.written_value(source, v), "value", None) is True]
    if len(on) != 1 or len(given) != len(calls) or not true:
        return []
    sizes = _open_batch_sizes(source)
    if _needs_eager_mode(source, sizes):
        return []
    return [
        edits.replace_node(source, _only_setting_literal(source, on[0]), "False"),
        *(_dynamic_size_edit(source, s) for s in sizes),
    ]


def _only_setting_literal(source: Source, value: ast.expr) -> ast.expr:
    """The literal of a setting if nothing but ``value`` reads that setting; else ``value`` itself."""
    found = setting_origins.written_value(source, value)
    if found is None or not isinstance(value, (ast.Subscript, ast.Attribute)):
        return value
    key = value.attr if isinstance(value, ast.Attribute) else getattr(value.slice, "value", None)
    asked = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Attribute) and n.attr == key]
    words = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Constant) and n.value == key]
    names = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.keyword) and n.arg == key]
    return found if len(asked) + len(words) + len(names) <= 2 else value


def _open_batch_sizes(source: Source) -> list[ast.Subscript]:
    """Batch sizes in the models' ``call`` that must not be read while tracing."""
    if scope_names.module_alias(source, "tensorflow") != "tf":
        return []
    methods = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.FunctionDef) and n.name == "call"]
    return [size for method in methods for size in graph_obstacles.batch_size_nodes(method)]


def _dynamic_size_edit(source: Source, size: ast.Subscript) -> Edit:
    owner = size.value.value if isinstance(size.value, ast.Attribute) else size.value
    return edits.replace_node(source, size, f"tf.shape({edits.node_text(source, owner)})[0]")


def _needs_eager_mode(source: Source, sizes: Sequence[ast.AST]) -> bool:
    """Whether code that would become a graph reads values or keeps state in Python."""
    for node in syntax_tree.walk(source.tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        above = node_lookup.parents_of(source).get(node)
        method = isinstance(above, ast.ClassDef) and node.name in ("call", "train_step", "test_step", "update_state")
        loss = any(p in ("y_true", "y_pred") for p in scope_names.parameter_names(node))
        graphed = graph_obstacles.is_graph_function(source, node)
        if not (method or loss or graphed):
            continue
        tensors, body = graph_obstacles.tensor_parameters(node), body_without_docstring(node.body)
        if graph_obstacles.outside_obstacle(source, node) or graph_obstacles.graph_obstacle(
            source, body, tensors, graphed, sizes
        ):
            return True
    return False
