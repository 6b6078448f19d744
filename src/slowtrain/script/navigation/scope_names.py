"""Names that a piece of code reads and binds, its blocks and its loops: what an edit must know to move it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
LOOP_NODES = (ast.For, ast.AsyncFor, ast.While)
_CLOSED_NODES = syntax_tree.LEAF_NODES | frozenset(node_lookup.SCOPE_NODES)  # below them is nothing of the same scope
_BINDERS = frozenset((*COMPREHENSIONS, *FUNCTION_NODES, ast.ClassDef, ast.Import, ast.ImportFrom, ast.ExceptHandler))


def nodes_in_scope(nodes: ast.AST | Iterable[ast.AST]) -> Iterator[ast.AST]:
    """``nodes`` and the nodes below them in the same scope, without the bodies of inner functions and classes."""
    todo = [nodes] if isinstance(nodes, ast.AST) else list(nodes)[::-1]
    while todo:
        node = todo.pop()
        yield node
        if type(node) not in _CLOSED_NODES:
            todo += syntax_tree.child_nodes(node)[::-1]


def scope_body(scope: ast.AST) -> list[ast.AST]:
    """The statements of a module or a function; the expression of a lambda."""
    found = getattr(scope, "body", [])
    return list(found) if isinstance(found, list) else [found]  # a lambda's body is one expression


def bound_names(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Names that ``nodes`` bind in their own scope."""
    return (
        set(_names_bound_by(nodes))
        if isinstance(nodes, ast.AST)
        else {name for node in nodes for name in _names_bound_by(node)}
    )


@cache_recent(4096)
def _names_bound_by(top: ast.AST) -> frozenset[str]:
    found: set[str] = set()
    hidden: set[int] = set()
    for node in nodes_in_scope(top):
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load) and id(node) not in hidden:
                found.add(node.id)
        elif type(node) not in _BINDERS:
            continue
        elif isinstance(node, COMPREHENSIONS):  # their targets are local to them
            hidden |= {id(n) for g in node.generators for n in syntax_tree.walk(g.target)}
        elif isinstance(node, (*FUNCTION_NODES, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
    return frozenset(found)


def parameter_names(function: ast.AST) -> list[str]:
    """All parameters of a function in order, with ``*args`` and ``**kwargs``, without the stars."""
    args = getattr(function, "args", None)
    if not isinstance(args, ast.arguments):
        return []
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
    return [a.arg for a in every]


def read_names(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Names that ``nodes`` read, without those bound in an inner scope (functions, lambdas, comprehensions)."""
    found: set[str] = set()
    for node in [nodes] if isinstance(nodes, ast.AST) else list(nodes):
        found |= _names_read_by(node)
    return found


def _names_read_by(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return {node.target.id} | _names_read_by(node.value)
    children: set[str] = set()
    for child in syntax_tree.child_nodes(node):
        children |= _names_read_by(child)
    if isinstance(node, COMPREHENSIONS):
        return children - {n.id for g in node.generators for n in syntax_tree.walk(g.target) if isinstance(n, ast.Name)}
    if isinstance(node, (*FUNCTION_NODES, ast.Lambda)):
        inner = node.body if isinstance(node, FUNCTION_NODES) else [node.body]
        return children - set(parameter_names(node)) - (bound_names(inner) - declared_outer_names(node))
    return children


@cache_recent(1024)
def declared_outer_names(function: ast.AST) -> frozenset[str]:
    """Names that a function declares ``global`` or ``nonlocal``."""
    declared = (n for n in nodes_in_scope(scope_body(function)) if isinstance(n, (ast.Global, ast.Nonlocal)))
    return frozenset(name for node in declared for name in node.names)


def enclosing_scope(source: Source, node: ast.AST) -> ast.AST:
    """The function that holds ``node``, or the module."""
    return node_lookup.enclosing_function(source, node) or source.tree


def binding_statements(source: Source, name: str, inside: ast.AST) -> list[ast.AST]:
    """Statements of the scope ``inside`` that bind ``name``, and functions that declare it global."""
    found = list(_binding_statements_by_name(inside).get(name, ()))
    if isinstance(inside, ast.Module) and "global" in source.text:
        functions = call_index.nodes_of_kind(source, *FUNCTION_NODES)
        found += [function for function in functions if name in declared_outer_names(function)]
    return found


@cache_recent(512)
def _binding_statements_by_name(inside: ast.AST) -> dict[str, list[ast.AST]]:
    found: dict[str, list[ast.AST]] = {}
    todo = scope_body(inside)[::-1]
    while todo:
        node = todo.pop()
        for name in _names_bound_at(node):
            found.setdefault(name, []).append(node)
        if type(node) not in _CLOSED_NODES:
            todo += syntax_tree.block_statements(node)[::-1]
    return found


def _names_bound_at(node: ast.AST) -> Iterable[str]:
    """The names that a statement itself binds, without the statements inside it."""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return _names_bound_by(node.target)
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return bound_names(item.optional_vars for item in node.items if item.optional_vars is not None)
    if isinstance(node, (ast.If, ast.While, ast.Try)) or not isinstance(node, ast.stmt):
        return ()
    return _names_bound_by(node)


def enclosing_loops(source: Source, node: ast.AST) -> list[ast.For | ast.While]:
    """The loops around ``node`` within its function, the innermost first."""
    above = node_lookup.parents_of(source)
    found: list[ast.For | ast.While] = []
    at = above.get(node)
    while at is not None and not isinstance(at, node_lookup.SCOPE_NODES):
        if isinstance(at, (ast.For, ast.While)):
            found.append(at)
        at = above.get(at)
    return found


def is_rebound(source: Source, name: str, inside: ast.AST) -> bool:
    """Whether ``name`` of the scope ``inside`` may be bound again while the script's loops run."""
    found = binding_statements(source, name, inside)
    again = [
        n
        for n in found
        if isinstance(n, (ast.AugAssign, *FUNCTION_NODES, *LOOP_NODES)) and name not in _defined_name(n)
    ]
    return bool(again) or any(enclosing_loops(source, n) for n in found)


def _defined_name(node: ast.AST) -> set[str]:
    return {node.name} if isinstance(node, FUNCTION_NODES) else set()


def statement_block(source: Source, statement: ast.stmt) -> list[ast.stmt]:
    """The list of statements that contains ``statement``."""
    parent = node_lookup.parents_of(source).get(statement)
    for field in ("body", "orelse", "finalbody"):
        found = getattr(parent, field, None)
        if isinstance(found, list) and statement in found:
            return found
    return [statement]


def dotted_name(node: ast.AST) -> str:
    """``tf.keras.layers.Dense`` for such an expression, "" for any other."""
    after = ""
    while isinstance(node, ast.Attribute):
        after = f".{node.attr}{after}"
        node = node.value
    return f"{node.id}{after}" if isinstance(node, ast.Name) else ""


def resolved_name(source: Source, node: ast.AST) -> str:
    """The dotted name with the file's import aliases resolved: ``tensorflow.keras.layers.Dense``.

    A name that is not imported stays as it is.
    """
    name = dotted_name(node)
    first, _, rest = name.partition(".")
    known = import_aliases(source).get(first, first)
    return f"{known}.{rest}" if rest else known


def module_alias(source: Source, module: str) -> str:
    """The name by which the file imports a module at its top level, e.g. ``tf``; "" if it does not."""
    every = (alias for node in source.tree.body if isinstance(node, ast.Import) for alias in node.names)
    return next((alias.asname or alias.name for alias in every if alias.name == module), "")


def is_name(node: ast.AST, name: str) -> bool:
    """Whether a node is this name."""
    return isinstance(node, ast.Name) and node.id == name


@cache_recent(16)
def import_aliases(source: Source) -> dict[str, str]:
    """Full names of modules, and of what is imported from them, by the name in the file."""
    found: dict[str, str] = {}
    for node in call_index.nodes_of_kind(source, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in source.tree.body:  # layers = tf.keras.layers
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            first, _, rest = dotted_name(node.value).partition(".")
            if rest and first in found:
                found.setdefault(node.targets[0].id, f"{found[first]}.{rest}")
    return found


def returned_values(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    """The values that a function returns or yields."""
    found = [n for n in nodes_in_scope(scope_body(function)) if isinstance(n, (ast.Return, ast.Yield))]
    return [n.value for n in found if n.value is not None]


def single_return(function: ast.AST) -> ast.expr | None:
    """The value of a function's only ``return``; None if it has none or several."""
    found = [n.value for n in nodes_in_scope(scope_body(function)) if isinstance(n, ast.Return)]
    return found[0] if len(found) == 1 else None


def is_literal_loop(loop: ast.AST) -> bool:
    """Whether a loop iterates a list literal, i.e. settings."""
    return isinstance(loop, ast.For) and isinstance(loop.iter, (ast.List, ast.Tuple, ast.Dict, ast.Set))


def loops_and_comprehensions(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    """Loops and comprehensions around ``node`` in its function that repeat it, the innermost first."""
    above = node_lookup.parents_of(source)
    child, at = node, above.get(node)
    while at is not None and not isinstance(at, node_lookup.SCOPE_NODES):
        match at:
            case ast.While():
                yield at
            case ast.For(body=parts) | ast.AsyncFor(body=parts) | ast.comprehension(ifs=parts) if child in parts:
                yield at
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                yield from (g for g in at.generators if child is not g)
        child, at = at, above.get(at)
