"""Calls of a script that make a graph's op, by the op's type, and what the arguments depend on."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

# Functions whose ops have other names.
FUNCTIONS_OF_OPS = {
    "eig": ("eig", "eigvals"),
    "selfadjointeig": ("eigh", "eigvalsh", "self_adjoint_eig", "self_adjoint_eigvals"),
    "where": ("where", "boolean_mask"),
    "pyfunc": ("numpy_function", "py_func"),
    "eagerpyfunc": ("py_function",),
    "stringsplit": ("split",),
    "stringtonumber": ("to_number",),
    "lookuptablefind": ("lookup",),
}
OP_VERSION = re.compile(r"(?:v\d+)?$")
MAX_ASSIGNMENTS = 6  # assignments that are followed


def calls_making_ops(source: Source, line: int, kinds: Collection[str]) -> list[ast.Call]:
    """Calls that make ops of these types, in the function that begins at ``line`` and in its callees."""
    function = _function_at(source, line)
    wanted = {name for kind in kinds for name in _function_names(kind)}
    found = source.called(function) if function is not None else []
    calls = [n for one in found for n in syntax_tree.walk(one) if isinstance(n, ast.Call)]
    return [c for c in dict.fromkeys(calls) if node_lookup.called_name(c).replace("_", "").lower() in wanted]


def needs_batch_alone(source: Source, call: ast.Call) -> bool:
    """Whether the arguments of ``call`` depend only on its function's parameters, and on no model or variable."""
    function = node_lookup.enclosing_function(source, call)
    if function is None:
        return False
    parameters, todo = set(scope_names.parameter_names(function)), [*call.args, *(k.value for k in call.keywords)]
    for _ in range(MAX_ASSIGNMENTS):
        if any(
            not _is_tensorflow_call(source, n) for one in todo for n in syntax_tree.walk(one) if isinstance(n, ast.Call)
        ):
            return False
        reads = [n for one in todo for n in _variable_reads(source, one) if n.id not in parameters]
        assigned = [name_bindings.single_assignment(source, n) for n in reads]
        if any(one is None for one in assigned):
            return False
        todo = [one for one in assigned if one is not None]
        if not todo:
            return True
    return False


def _function_at(source: Source, line: int) -> ast.FunctionDef | None:
    """The function whose first line, of its decorators or ``def``, is ``line``."""
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and line in (node.lineno, *(d.lineno for d in node.decorator_list)):
            return node
    return None


def _function_names(kind: str) -> set[str]:
    plain = OP_VERSION.sub("", kind.lower())
    return {plain, *(name.replace("_", "") for name in FUNCTIONS_OF_OPS.get(plain, ()))}


def _is_tensorflow_call(source: Source, call: ast.Call) -> bool:
    return name_bindings.qualified_name(source, call.func).startswith("tensorflow.")


def _variable_reads(source: Source, node: ast.AST) -> Iterator[ast.Name]:
    """Names that a value is computed from, without modules."""
    modules = scope_names.import_aliases(source)
    for one in syntax_tree.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id not in modules:
            yield one
