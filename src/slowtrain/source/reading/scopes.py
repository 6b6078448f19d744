"""Names that a piece of code reads and binds, its blocks and its loops: what an edit must know to move it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.source import FUNCTIONS, Source, kept, trees
from slowtrain.source.reading import finding, index

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


def own(nodes: ast.AST | Iterable[ast.AST]) -> Iterator[ast.AST]:
    """``nodes`` and the nodes below them in the same scope, without the bodies of inner functions and classes."""
    todo = [nodes] if isinstance(nodes, ast.AST) else list(nodes)[::-1]
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, finding.SCOPES):
            todo += trees.children(node)[::-1]


def body(scope: ast.AST) -> list[ast.AST]:
    """The statements of a module or a function; the expression of a lambda."""
    found = getattr(scope, "body", [])
    return list(found) if isinstance(found, list) else [found]  # a lambda's body is one expression


def bound(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Names that ``nodes`` bind in their own scope."""
    return set(_bound(nodes)) if isinstance(nodes, ast.AST) else {name for node in nodes for name in _bound(node)}


@kept(4096)
def _bound(top: ast.AST) -> frozenset[str]:
    found: set[str] = set()
    hidden: set[int] = set()
    for node in own(top):
        if isinstance(node, COMPREHENSIONS):  # their targets are local to them
            hidden |= {id(n) for g in node.generators for n in trees.walk(g.target)}
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and id(node) not in hidden:
            found.add(node.id)
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
    return frozenset(found)


def parameters(function: ast.AST) -> list[str]:
    """All parameters of a function in order, with ``*args`` and ``**kwargs``, without the stars."""
    given = getattr(function, "args", None)
    if not isinstance(given, ast.arguments):
        return []
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return [a.arg for a in every]


def read(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Names that ``nodes`` read, without those bound in an inner scope (functions, lambdas, comprehensions)."""
    found: set[str] = set()
    for node in [nodes] if isinstance(nodes, ast.AST) else list(nodes):
        found |= _read(node)
    return found


def _read(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return {node.target.id} | _read(node.value)
    children: set[str] = set()
    for child in trees.children(node):
        children |= _read(child)
    if isinstance(node, COMPREHENSIONS):
        return children - {n.id for g in node.generators for n in trees.walk(g.target) if isinstance(n, ast.Name)}
    if isinstance(node, (*FUNCTIONS, ast.Lambda)):
        inner = node.body if isinstance(node, FUNCTIONS) else [node.body]
        return children - set(parameters(node)) - (bound(inner) - outer(node))
    return children


def outer(function: ast.AST) -> set[str]:
    """Names that a function declares ``global`` or ``nonlocal``."""
    declared = (n for n in own(body(function)) if isinstance(n, (ast.Global, ast.Nonlocal)))
    return {name for node in declared for name in node.names}


def scope(source: Source, node: ast.AST) -> ast.AST:
    """The function that holds ``node``, or the module."""
    return finding.function(source, node) or source.tree


def binders(source: Source, name: str, inside: ast.AST) -> list[ast.AST]:
    """Statements of the scope ``inside`` that bind ``name``, and functions that declare it global."""
    found: list[ast.AST] = []
    for node in own(body(inside)):
        if isinstance(node, (ast.For, ast.AsyncFor)):
            bind = name in bound(node.target)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            bind = any(i.optional_vars is not None and name in bound(i.optional_vars) for i in node.items)
        elif isinstance(node, (ast.If, ast.While, ast.Try)):
            bind = False  # the walk visits their parts
        else:
            bind = isinstance(node, ast.stmt) and name in bound(node)
        if bind:
            found.append(node)
    if isinstance(inside, ast.Module) and "global" in source.text:
        found += [n for n in trees.walk(inside) if isinstance(n, FUNCTIONS) and name in outer(n)]
    return found


def loops(source: Source, node: ast.AST) -> list[ast.For | ast.While]:
    """The loops around ``node`` within its function, the innermost first."""
    above = finding.parents(source)
    found: list[ast.For | ast.While] = []
    at = above.get(node)
    while at is not None and not isinstance(at, finding.SCOPES):
        if isinstance(at, (ast.For, ast.While)):
            found.append(at)
        at = above.get(at)
    return found


def changes(source: Source, name: str, inside: ast.AST) -> bool:
    """Whether ``name`` of the scope ``inside`` may be bound again while the script's loops run."""
    found = binders(source, name, inside)
    again = [n for n in found if isinstance(n, (ast.AugAssign, *FUNCTIONS, *LOOPS)) and name not in _defined(n)]
    return bool(again) or any(loops(source, n) for n in found)


def _defined(node: ast.AST) -> set[str]:
    return {node.name} if isinstance(node, FUNCTIONS) else set()


def block(source: Source, statement: ast.stmt) -> list[ast.stmt]:
    """The list of statements that contains ``statement``."""
    parent = finding.parents(source).get(statement)
    for field in ("body", "orelse", "finalbody"):
        found = getattr(parent, field, None)
        if isinstance(found, list) and statement in found:
            return found
    return [statement]


def dotted(node: ast.AST) -> str:
    """``tf.keras.layers.Dense`` for such an expression, "" for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def full(source: Source, node: ast.AST) -> str:
    """The dotted name with the file's import aliases resolved: ``tensorflow.keras.layers.Dense``.

    A name that is not imported stays as it is.
    """
    name = dotted(node)
    first, _, rest = name.partition(".")
    known = aliases(source).get(first, first)
    return f"{known}.{rest}" if rest else known


def known_as(source: Source, module: str) -> str:
    """The name by which the file imports a module, e.g. ``tf``; "" if it does not."""
    return next((name for name, meant in aliases(source).items() if meant == module), "")


@kept(16)
def aliases(source: Source) -> dict[str, str]:
    """The full names behind the names that the file imports."""
    found: dict[str, str] = {}
    for node in sorted(index.nodes(source, ast.Import, ast.ImportFrom), key=lambda n: getattr(n, "lineno", 0)):
        if isinstance(node, ast.Import):
            found |= {a.asname: a.name for a in node.names if a.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return found
