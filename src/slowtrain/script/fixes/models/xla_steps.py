"""Edits that compile training steps with XLA: models of ``fit``, and functions that compute gradients."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.fixes.models.model_settings import compile_calls, set_compile_argument
from slowtrain.script.navigation import call_index, name_bindings, node_lookup
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

# Names that XLA cannot compile: data sets, Python functions, printing, and ops whose result shape depends on the
# values. With one of them in the function, the training would fail.
UNKNOWN_TO_XLA = frozenset(
    "next get_next py_function numpy_function print eig eigvals unique unique_with_counts boolean_mask".split()
)


def compile_steps_with_xla(source: Source) -> tuple[Edit, ...]:
    """Set ``jit_compile=True`` for every compiled model and every ``tf.function`` that computes a gradient."""
    eager = any(
        node_lookup.argument_value(call, "run_eagerly") is not None for call in compile_calls(source)
    )  # Keras refuses both
    models = () if eager else set_compile_argument(source, "jit_compile", "True")
    return (*models, *compile_functions_with_xla(source))


def compile_functions_with_xla(source: Source) -> tuple[Edit, ...]:
    """Set ``jit_compile=True`` for functions that compute a gradient: in the decorator or ``tf.function(step)``."""
    done: list[Edit] = []
    for node in call_index.nodes_of_kind(source, ast.FunctionDef):
        if isinstance(node, ast.FunctionDef) and _is_step_function(node):
            done += [edit for decorator in node.decorator_list for edit in _with_jit_compile(source, decorator)]
    for call in call_index.index_of(source).called("function"):
        given = node_lookup.argument_value(call, "func", 0)
        step = node_lookup.function_named(source, given.id, call) if isinstance(given, ast.Name) else None
        if step is not None and _is_step_function(step):
            done += _with_jit_compile(source, call)
    return tuple(done)


def _is_step_function(function: ast.FunctionDef) -> bool:
    called = {node_lookup.called_name(n) for n in syntax_tree.walk(function) if isinstance(n, ast.Call)}
    return bool(called & {"GradientTape", "apply_gradients"}) and not called & UNKNOWN_TO_XLA


def _with_jit_compile(source: Source, node: ast.expr) -> list[Edit]:
    """Add ``jit_compile=True`` to ``@tf.function``, ``@tf.function(…)`` or ``tf.function(step)``."""
    call = node if isinstance(node, ast.Call) else None
    if name_bindings.qualified_name(source, call.func if call is not None else node) != "tensorflow.function":
        return []
    if call is None:
        return [edits.insert_text(source, edits.node_end(node), "(jit_compile=True)")]
    given = node_lookup.argument_value(call, "jit_compile")
    plain = given is None or (isinstance(given, ast.Constant) and not given.value)
    packed = any(k.arg is None for k in call.keywords)
    return [edits.set_keyword(source, call, "jit_compile", "True")] if plain and not packed else []
