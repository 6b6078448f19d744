"""Side effects of a loop's turns apart from one call: whether they preserve the call's arguments."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from slowtrain.source import FUNCTIONS, Source, kept, trees
from slowtrain.source.reading import finding, index, kinds, scopes, values

# Statements that always continue with the next one and change only what they store.
PLAIN = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.Pass)
LEAVING = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
# Functions of NumPy that write into their arguments.
WRITING = frozenset("at copyto fill_diagonal nan_to_num place put put_along_axis putmask shuffle".split())
BUILTINS = frozenset(
    "abs all any bool dict divmod enumerate float format int isinstance len list max min pow print range repr reversed "
    "round set sorted str sum tuple zip".split()
)
READING = frozenset(
    "all any argmax argmin argsort astype clip copy count cumsum dot endswith flatten format get index item items join "
    "keys lower max mean min numpy ravel replace reshape round split squeeze startswith std strip sum tolist transpose "
    "upper values var".split()
)
ADDING = frozenset("append extend".split())
FILLING = frozenset("add update".split())  # of sets and mappings only; other objects may do anything
EMPTY = frozenset("zeros ones empty full zeros_like ones_like empty_like full_like".split())
MADE = frozenset("dict list set int float Counter defaultdict deque".split())
# Results computed from an array that do not share its memory.
NUMBERS = frozenset("shape size ndim dtype".split())
FRESH = frozenset("argmax argmin argsort concatenate copy float int len max mean min round stack std sum var".split())
COMPUTED = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant)
LITERALS = (ast.Constant, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.BinOp, ast.Compare)


def leaves(source: Source, body: Sequence[ast.AST], call: ast.Call, used: Collection[str], made: str = "") -> bool:
    """Whether ``body``, which holds ``call``, surely changes nothing that the names ``used`` hold, in every turn.

    Nor what ``made`` holds, which the body assigns itself. The body runs to its end, calls only functions that read or
    add to lists, and stores only into objects that the script created for this and that share no memory with ``used``.
    """
    if set(used) & scopes.bound(body) or set(used) & _parts(source, _stored(body)):
        return False
    used = {*used, made}
    return all(_leaves(source, node, call, used) for one in body for node in trees.walk(one))


def _leaves(source: Source, node: ast.AST, call: ast.Call, used: Collection[str]) -> bool:
    if isinstance(node, ast.stmt) and not isinstance(node, PLAIN):
        return False
    if isinstance(node, ast.Call):
        return node is call or _reads(source, node, used)
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return _own(source, node.target, call)
    if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
        base = node.value
        mine = isinstance(node, ast.Subscript) and isinstance(base, ast.Name) and base.id not in used
        return mine and isinstance(base, ast.Name) and _own(source, base, call)
    return not isinstance(node, LEAVING)


def _stored(body: Sequence[ast.AST]) -> set[str]:
    """Names whose objects are changed in place: ``out[i] = y``, ``out += y``."""
    every = [node for one in body for node in trees.walk(one)]
    targets = [n.value for n in every if isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load)]
    targets += [n.target for n in every if isinstance(n, ast.AugAssign)]
    return {one.id for one in targets if isinstance(one, ast.Name)}


def _parts(source: Source, names: Collection[str]) -> set[str]:
    """Names that may share memory with these: ``past`` of ``past = series[:-1]``."""
    makes = _shares(source)
    found, todo = set(names), list(names)
    while todo:
        more = makes.get(todo.pop(), set()) - found
        found |= more
        todo += more
    return found - set(names)


@kept(4)
def _shares(source: Source) -> dict[str, set[str]]:
    """For each name, the names that are assigned from it anywhere in the file."""
    found: dict[str, set[str]] = {}
    for node in index.nodes(source, ast.Assign, ast.AnnAssign, ast.For):
        given = node.iter if isinstance(node, ast.For) else getattr(node, "value", None)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = {name for one in targets if one is not None for name in _roots(one)}
        for read in _memory(given) if given is not None else ():
            found.setdefault(read, set()).update(names)
    return found


def _roots(target: ast.expr) -> set[str]:
    """Names that a target assigns or stores into: ``a`` and ``b`` of ``a, b[i] = ...``."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return {name for one in target.elts for name in _roots(one)}
    while isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
        target = target.value
    return {target.id} if isinstance(target, ast.Name) else set()


def _memory(value: ast.expr) -> set[str]:
    """Names whose memory an expression's value may share."""
    fresh = isinstance(value, ast.Call) and finding.called(value) in FRESH
    inner = value
    while isinstance(inner, ast.Subscript):
        inner = inner.value
    number = isinstance(inner, ast.Attribute) and inner.attr in NUMBERS
    return set() if fresh or number or isinstance(value, COMPUTED) else scopes.read(value)


@kept(16)
def _own_functions(source: Source) -> frozenset[str]:
    return frozenset(n.name for n in index.nodes(source, *FUNCTIONS) if isinstance(n, FUNCTIONS))


def _reads(source: Source, call: ast.Call, used: Collection[str]) -> bool:
    """Whether a call only reads its arguments, or adds to a list, a set or a mapping."""
    name, whole = finding.called(call), values.qualified(source, call.func)
    given = (*call.args, *(k.value for k in call.keywords))
    if any(k.arg in (None, "out") for k in call.keywords):
        return False
    if {name, *(scopes.dotted(one).rpartition(".")[2] for one in given)} & _own_functions(source):
        return False  # the script's own functions may do anything, also when NumPy calls them
    if whole.startswith(("numpy.", "math.")):
        alone = isinstance(finding.parents(source).get(call), ast.Expr)  # called for its effect
        return name not in WRITING and (not alone or name.startswith("save"))
    if isinstance(call.func, ast.Name):
        return not whole and name in BUILTINS and name not in scopes.bound(source.tree.body)
    if not isinstance(call.func, ast.Attribute) or whole:
        return False
    owner = call.func.value
    root = scopes.dotted(owner).partition(".")[0]
    filling = name in FILLING and isinstance(owner, ast.Name) and (_own(source, owner) or _bar(source, owner))
    return name in READING or ((name in ADDING or filling) and bool(root) and root not in used)


def _bar(source: Source, name: ast.Name) -> bool:
    made = values.assigned(source, name)
    return isinstance(made, ast.Call) and values.qualified(source, made.func).startswith("tqdm.")


def _own(source: Source, name: ast.Name, call: ast.Call | None = None) -> bool:
    """Whether a name holds only objects that were created for it, no view of another array."""
    scope = kinds.where_bound(source, name)
    stored = values.stores(scope, name.id) if scope is not None else []
    if not stored or name.id in values.shared(source):
        return False
    return all(isinstance(one, ast.Name) and _made(source, one, call) for one in stored)


def _made(source: Source, target: ast.Name, call: ast.Call | None) -> bool:
    if isinstance(finding.parents(source).get(target), ast.AugAssign):
        return True
    value = values.given(source, target)
    while isinstance(value, ast.Subscript):  # an item of this turn's prediction
        value = value.value
        if value is call:
            return True
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    if isinstance(value, ast.Call):
        whole = values.qualified(source, value.func)
        return value is call or finding.called(value) in (EMPTY if whole.startswith("numpy.") else MADE)
    return isinstance(value, LITERALS)
