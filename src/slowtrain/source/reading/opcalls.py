"""Calls of a script that make a graph's op, by the op's type, and what the arguments depend on."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from slowtrain.source import Source, trees
from slowtrain.source.reading import finding, scopes, values

# Functions whose ops have other names.
NAMED_OTHERWISE = {
    "eig": ("eig", "eigvals"),
    "selfadjointeig": ("eigh", "eigvalsh", "self_adjoint_eig", "self_adjoint_eigvals"),
    "where": ("where", "boolean_mask"),
    "pyfunc": ("numpy_function", "py_func"),
    "eagerpyfunc": ("py_function",),
    "stringsplit": ("split",),
    "stringtonumber": ("to_number",),
    "lookuptablefind": ("lookup",),
}
VERSION = re.compile(r"(?:v\d+)?$")
DEEPEST = 6  # assignments that are followed


def calls_of(source: Source, line: int, kinds: Collection[str]) -> list[ast.Call]:
    """Calls that make ops of these types, in the function that begins at ``line`` and in its callees."""
    function = _begun(source, line)
    wanted = {name for kind in kinds for name in _names(kind)}
    found = source.called(function) if function is not None else []
    calls = [n for one in found for n in trees.walk(one) if isinstance(n, ast.Call)]
    return [c for c in dict.fromkeys(calls) if finding.called(c).replace("_", "").lower() in wanted]


def needs_batch_alone(source: Source, call: ast.Call) -> bool:
    """Whether the arguments of ``call`` depend only on its function's parameters, and on no model or variable."""
    function = finding.function(source, call)
    if function is None:
        return False
    parameters, todo = set(scopes.parameters(function)), [*call.args, *(k.value for k in call.keywords)]
    for _ in range(DEEPEST):
        if any(not _of_tensorflow(source, n) for one in todo for n in trees.walk(one) if isinstance(n, ast.Call)):
            return False
        reads = [n for one in todo for n in _read(source, one) if n.id not in parameters]
        assigned = [values.assigned(source, n) for n in reads]
        if any(one is None for one in assigned):
            return False
        todo = [one for one in assigned if one is not None]
        if not todo:
            return True
    return False


def _begun(source: Source, line: int) -> ast.FunctionDef | None:
    """The function whose first line, of its decorators or ``def``, is ``line``."""
    for node in trees.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and line in (node.lineno, *(d.lineno for d in node.decorator_list)):
            return node
    return None


def _names(kind: str) -> set[str]:
    plain = VERSION.sub("", kind.lower())
    return {plain, *(name.replace("_", "") for name in NAMED_OTHERWISE.get(plain, ()))}


def _of_tensorflow(source: Source, call: ast.Call) -> bool:
    return values.qualified(source, call.func).startswith("tensorflow.")


def _read(source: Source, node: ast.AST) -> Iterator[ast.Name]:
    """Names that a value is computed from, without modules."""
    modules = scopes.aliases(source)
    for one in trees.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id not in modules:
            yield one
