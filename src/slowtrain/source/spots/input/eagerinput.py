"""TensorFlow called from Python that makes input: op by op, for one element after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Effect, Prescription
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, whole_pipelines
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source, cache_recent
from slowtrain.source.spots.input import slowpython
from slowtrain.values import dataclass

OPS = ("tensorflow.image.", "tensorflow.signal.", "keras.layers.", "keras.applications.", "keras.ops.")
CONVERTING = (
    "tensorflow.constant",
    "tensorflow.convert_to_tensor",
    "tensorflow.cast",
    "tensorflow.io",
    "tensorflow.py",
)
INSTEAD = "write it in TensorFlow ops in a parallel map, or use worker processes"
CURE = Prescription("edit", Effect.EQUIVALENT, INSTEAD)
PRINTS = frozenset({"print", "numpy", "decode", "tolist", "item", "shape"})


@dataclass(frozen=True)
class Eager:
    node: ast.expr
    says: str


def calls(source: Source) -> Iterator[Eager]:
    """Layers and ops in generators; a ``py_function`` of ops alone, which a map might call itself."""
    seen: set[ast.AST] = set()
    for maker in slowpython.makers(source):
        if maker.single or maker.function in seen:
            continue
        seen.add(maker.function)
        for call in whole_pipelines.calls_in(whole_pipelines.reached_statements(source, maker.function)):
            name = name_bindings.qualified_name(source, call.func)
            made = name.startswith(OPS) and not name.startswith("keras.layers.")
            if (made or scope_names.dotted_name(call.func) in _layers(source)) and scope_names.enclosing_loops(
                source, call
            ):
                says = f"{scope_names.dotted_name(call.func)} runs op by op from Python for one element after the other"
                yield Eager(call, says)
                break
    for call in call_index.index_of(source).called("py_function"):
        function = _function(source, call)
        if function is not None and call.args and _only_ops(source, function):
            yield Eager(call.args[0], "py_function runs only TensorFlow's ops: a map may call them without Python")


@cache_recent(4)
def _layers(source: Source) -> set[str]:
    """Names of the module that hold one of Keras's layers."""
    found: set[str] = set()
    for node in source.tree.body:
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Call) and name_bindings.qualified_name(source, value.func).startswith("keras.layers."):
            found |= scope_names.bound_names(node)
    return found


def _function(source: Source, call: ast.Call) -> ast.FunctionDef | ast.Lambda | None:
    if not name_bindings.qualified_name(source, call.func).startswith("tensorflow."):
        return None
    if not any(
        whole_pipelines.mapped_function(source, c) is not None
        for c in call_index.index_of(source).called("map")
        if dataset_chains.is_operation(c)
    ):
        return None
    given = node_lookup.argument_value(call, "func", 0)
    if isinstance(given, ast.Lambda):
        return given
    return node_lookup.function_named(source, given.id, call) if isinstance(given, ast.Name) else None


def _only_ops(source: Source, function: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether a function calls ops alone: nothing of Python's, no value read back, no branch on one."""
    statements = whole_pipelines.reached_statements(source, function)
    for node in (n for s in statements for n in syntax_tree.walk(s)):
        if isinstance(node, (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.IfExp, ast.Global, ast.Nonlocal)):
            return False
        if isinstance(node, ast.Attribute) and node.attr in PRINTS:
            return False
    found = whole_pipelines.calls_in(statements)
    names = [name_bindings.qualified_name(source, c.func) for c in found]
    if not all(n.startswith("tensorflow.") for n in names):
        return False
    # What it is given are tensors: to multiply them is an op as well.
    computed = any(isinstance(n, ast.BinOp) for s in statements for n in syntax_tree.walk(s))
    return computed or any(not n.startswith(CONVERTING) for n in names)
