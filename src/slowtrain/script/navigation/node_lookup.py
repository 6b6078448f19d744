"""From one node to another: the calls at a line, the statement or function around a node, an argument, a definition."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.navigation import statement_index
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent

SCOPE_NODES = (*FUNCTION_NODES, ast.Lambda, ast.ClassDef)
JIT_COMPILE_POSITION = 7  # among the positional arguments of compile(), in Keras 2 and 3


def called_name(call: ast.Call) -> str:
    """The last name of the callee: ``map`` of ``ds.map(f)``, ``sqrt`` of ``np.sqrt(x)``."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_gradient_tape(block: ast.With | ast.AsyncWith) -> bool:
    """Whether a block is a ``with tf.GradientTape()``."""
    opened = (one.context_expr for one in block.items)
    return any(isinstance(one, ast.Call) and called_name(one) == "GradientTape" for one in opened)


def calls_at_line(source: Source, line: int, *names: str) -> list[ast.Call]:
    """Calls of one of ``names`` at ``line``: those whose name is on that line, else those that span it.

    For a chain over several lines Python gives the line of the call's name or of the chain's start, by its version.
    """
    found = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and called_name(n) in names]
    exact = [n for n in found if (n.func.end_lineno or n.lineno) == line]
    around = [n for n in found if n not in exact and n.lineno <= line <= (n.end_lineno or n.lineno)]
    return exact or around


def single_call(source: Source, line: int, *names: str) -> ast.Call | None:
    """The one call of ``names`` at ``line``; None if there is none or more than one."""
    found = calls_at_line(source, line, *names)
    return found[0] if len(found) == 1 else None


def chain_calls(call: ast.expr) -> Iterator[ast.Call]:
    """The calls of a chain ``a.b().c().d()`` from the last to the first."""
    node: ast.expr = call
    while isinstance(node, ast.Call):
        yield node
        if not isinstance(node.func, ast.Attribute):
            return
        node = node.func.value


def parents_of(source: Source) -> statement_index.Statements:
    """The parent of each node of the file."""
    return statement_index.statements_of(source)


def chain_end(source: Source, call: ast.Call) -> ast.Call:
    """The last call of the chain that ``call`` is part of: ``a().b().c()`` for ``a().b()``."""
    above = parents_of(source)
    node: ast.Call = call
    while True:
        attribute = above.get(node)
        outer = above.get(attribute) if isinstance(attribute, ast.Attribute) else None
        if not (isinstance(outer, ast.Call) and outer.func is attribute):
            return node
        node = outer


def enclosing_statement(source: Source, node: ast.AST) -> ast.stmt | None:
    """The innermost statement that holds ``node``."""
    above = parents_of(source)
    found: ast.AST | None = node
    while found is not None and not isinstance(found, ast.stmt):
        found = above.get(found)
    return found


def enclosing_node(source: Source, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
    """The innermost node of ``kinds`` that holds ``node``, within the same function or class."""
    above = parents_of(source)
    found = above.get(node)
    while found is not None and not isinstance(found, kinds):
        if isinstance(found, SCOPE_NODES):
            return None
        found = above.get(found)
    return found


def outermost_function(source: Source, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function around a node that no other function contains."""
    found, at = None, enclosing_function(source, node)
    while at is not None:
        found, at = at, enclosing_function(source, at)
    return found


def enclosing_function(source: Source, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost function that holds ``node``; None at module level."""
    above = parents_of(source)
    found = above.get(node)
    while found is not None and not isinstance(found, FUNCTION_NODES):
        found = above.get(found)
    return found


def function_named(source: Source, name: str, near: ast.AST | None = None) -> ast.FunctionDef | None:
    """The function called ``name``: in the scope of ``near`` if it is there, else the only one in the file."""
    found = _functions_by_name(source).get(name, [])
    inside = enclosing_function(source, near) if near is not None and len(found) > 1 else None
    close = [n for n in found if inside is not None and n in syntax_tree.walk(inside)]
    found = close or found
    return found[0] if len(found) == 1 else None


@cache_recent(16)
def _functions_by_name(source: Source) -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in statement_index.statements_of(source).every:  # no expression contains a named function
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def argument_value(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """The value of the argument ``name``, given by keyword or at ``position``; None if it is not given."""
    for given in call.keywords:
        if given.arg == name:
            return given.value
    if position is not None and position < len(call.args):
        return call.args[position]
    return None


def function_called_by_name(source: Source, call: ast.expr) -> ast.FunctionDef | None:
    """The function of this file that ``call`` calls by name."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    return function_named(source, call.func.id, call)


def length_queries(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that query a length: ``len(x)``, ``x.shape``."""
    for one in syntax_tree.walk(node):
        if (isinstance(one, ast.Call) and called_name(one) == "len") or (
            isinstance(one, ast.Attribute) and one.attr == "shape"
        ):
            yield one
