"""TensorFlow called from Python that makes input: op by op, for one element after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Effect, Prescription
from slowtrain.source import Source, kept, trees
from slowtrain.source.reading import finding, index, scopes, values
from slowtrain.source.reading.input import chains, pipelines
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
        for call in pipelines.calls(pipelines.reached(source, maker.function)):
            name = values.qualified(source, call.func)
            made = name.startswith(OPS) and not name.startswith("keras.layers.")
            if (made or scopes.dotted(call.func) in _layers(source)) and scopes.loops(source, call):
                says = f"{scopes.dotted(call.func)} runs op by op from Python for one element after the other"
                yield Eager(call, says)
                break
    for call in index.of(source).called("py_function"):
        function = _function(source, call)
        if function is not None and call.args and _only_ops(source, function):
            yield Eager(call.args[0], "py_function runs only TensorFlow's ops: a map may call them without Python")


@kept(4)
def _layers(source: Source) -> set[str]:
    """Names of the module that hold one of Keras's layers."""
    found: set[str] = set()
    for node in source.tree.body:
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Call) and values.qualified(source, value.func).startswith("keras.layers."):
            found |= scopes.bound(node)
    return found


def _function(source: Source, call: ast.Call) -> ast.FunctionDef | ast.Lambda | None:
    if not values.qualified(source, call.func).startswith("tensorflow."):
        return None
    if not any(pipelines.function(source, c) is not None for c in index.of(source).called("map") if chains.operates(c)):
        return None
    given = finding.keyword(call, "func", 0)
    if isinstance(given, ast.Lambda):
        return given
    return finding.defined(source, given.id, call) if isinstance(given, ast.Name) else None


def _only_ops(source: Source, function: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether a function calls ops alone: nothing of Python's, no value read back, no branch on one."""
    statements = pipelines.reached(source, function)
    for node in (n for s in statements for n in trees.walk(s)):
        if isinstance(node, (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.IfExp, ast.Global, ast.Nonlocal)):
            return False
        if isinstance(node, ast.Attribute) and node.attr in PRINTS:
            return False
    found = pipelines.calls(statements)
    names = [values.qualified(source, c.func) for c in found]
    if not all(n.startswith("tensorflow.") for n in names):
        return False
    # What it is given are tensors: to multiply them is an op as well.
    computed = any(isinstance(n, ast.BinOp) for s in statements for n in trees.walk(s))
    return computed or any(not n.startswith(CONVERTING) for n in names)
