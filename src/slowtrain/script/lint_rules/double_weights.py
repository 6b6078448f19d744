"""Weights that are float64 because NumPy makes their first values, although the script does not ask for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source


def double_weights(source: Source) -> Iterator[ast.Call]:
    """Find float64 weights whose dtype the text does not state."""
    for event in file_events(source) if "Variable" in source.text else ():
        double = event.name == "tensorflow.Variable" and event.result.dtype == "float64"
        if not double or not isinstance(event.node, ast.Call) or _states_dtype(source, event.node):
            continue
        shape = event.given.get("initial_value", 0).shape
        if shape is None or len(shape) > 1:
            yield event.node


def _states_dtype(source: Source, made: ast.Call) -> bool:
    """Whether the text states the dtype of a weight, or a parameter of the function does."""
    if any(k.arg == "dtype" and not _is_dtype_of_data(k.value) for k in made.keywords):
        return True
    function = node_lookup.enclosing_function(source, made)
    chosen = set(scope_names.parameter_names(function)) if function is not None else set()
    inner = (k.value for n in syntax_tree.nodes_inside(made, ast.Call) for k in n.keywords if k.arg == "dtype")
    return any(isinstance(one, ast.Name) and one.id in chosen for one in inner)


def _is_dtype_of_data(dtype: ast.expr) -> bool:
    """``x.dtype``"""
    return isinstance(dtype, ast.Attribute) and dtype.attr == "dtype"
