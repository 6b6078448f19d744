"""Side effects of a loop's turns apart from one call: whether they preserve the call's arguments."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from slowtrain.script.evaluators import value_kinds
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent

# Statements that always continue with the next one and change only what they store.
PLAIN_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.Pass)
LEAVING_EXPRESSIONS = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
# Functions of NumPy that write into their arguments.
WRITING_FUNCTIONS = frozenset("at copyto fill_diagonal nan_to_num place put put_along_axis putmask shuffle".split())
READING_BUILTINS = frozenset(
    "abs all any bool dict divmod enumerate float format int isinstance len list max min pow print range repr reversed "
    "round set sorted str sum tuple zip".split()
)
READING_METHODS = frozenset(
    "all any argmax argmin argsort astype clip copy count cumsum dot endswith flatten format get index item items join "
    "keys lower max mean min numpy ravel replace reshape round split squeeze startswith std strip sum tolist transpose "
    "upper values var".split()
)
ADDING_METHODS = frozenset("append extend".split())
FILLING_METHODS = frozenset("add update".split())  # of sets and mappings only; other objects may do anything
ARRAY_MAKERS = frozenset("zeros ones empty full zeros_like ones_like empty_like full_like".split())
CONTAINER_MAKERS = frozenset("dict list set int float Counter defaultdict deque".split())
# Results computed from an array that do not share its memory.
NUMBER_ATTRIBUTES = frozenset("shape size ndim dtype".split())
FRESH_FUNCTIONS = frozenset(
    "argmax argmin argsort concatenate copy float int len max mean min round stack std sum var".split()
)
COMPUTED_NODES = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant)
LITERAL_NODES = (
    ast.Constant,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.BinOp,
    ast.Compare,
)


def preserves_arguments(
    source: Source, body: Sequence[ast.AST], call: ast.Call, used: Collection[str], made: str = ""
) -> bool:
    """Whether ``body``, which holds ``call``, surely changes nothing that the names ``used`` hold, in every turn.

    Nor what ``made`` holds, which the body assigns itself. The body runs to its end, calls only functions that read or
    add to lists, and stores only into objects that the script created for this and that share no memory with ``used``.
    """
    if set(used) & scope_names.bound_names(body) or set(used) & _aliases_of(source, _changed_names(body)):
        return False
    used = {*used, made}
    return all(_node_preserves(source, node, call, used) for one in body for node in syntax_tree.walk(one))


def _node_preserves(source: Source, node: ast.AST, call: ast.Call, used: Collection[str]) -> bool:
    if isinstance(node, ast.stmt) and not isinstance(node, PLAIN_STATEMENTS):
        return False
    if isinstance(node, ast.Call):
        return node is call or _call_only_reads(source, node, used)
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return _owns_memory(source, node.target, call)
    if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
        base = node.value
        mine = isinstance(node, ast.Subscript) and isinstance(base, ast.Name) and base.id not in used
        return mine and isinstance(base, ast.Name) and _owns_memory(source, base, call)
    return not isinstance(node, LEAVING_EXPRESSIONS)


def _changed_names(body: Sequence[ast.AST]) -> set[str]:
    """Names whose objects are changed in place: ``out[i] = y``, ``out += y``."""
    every = [node for one in body for node in syntax_tree.walk(one)]
    targets = [n.value for n in every if isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load)]
    targets += [n.target for n in every if isinstance(n, ast.AugAssign)]
    return {one.id for one in targets if isinstance(one, ast.Name)}


def _aliases_of(source: Source, names: Collection[str]) -> set[str]:
    """Names that may share memory with these: ``past`` of ``past = series[:-1]``."""
    makes = _alias_map(source)
    found, todo = set(names), list(names)
    while todo:
        more = makes.get(todo.pop(), set()) - found
        found |= more
        todo += more
    return found - set(names)


@cache_recent(4)
def _alias_map(source: Source) -> dict[str, set[str]]:
    """For each name, the names that are assigned from it anywhere in the file."""
    found: dict[str, set[str]] = {}
    for node in call_index.nodes_of_kind(source, ast.Assign, ast.AnnAssign, ast.For):
        given = node.iter if isinstance(node, ast.For) else getattr(node, "value", None)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = {name for one in targets if one is not None for name in _target_roots(one)}
        for read in _aliased_names(given) if given is not None else ():
            found.setdefault(read, set()).update(names)
    return found


def _target_roots(target: ast.expr) -> set[str]:
    """Names that a target assigns or stores into: ``a`` and ``b`` of ``a, b[i] = ...``."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return {name for one in target.elts for name in _target_roots(one)}
    while isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
        target = target.value
    return {target.id} if isinstance(target, ast.Name) else set()


def _aliased_names(value: ast.expr) -> set[str]:
    """Names whose memory an expression's value may share."""
    fresh = isinstance(value, ast.Call) and node_lookup.called_name(value) in FRESH_FUNCTIONS
    inner = value
    while isinstance(inner, ast.Subscript):
        inner = inner.value
    number = isinstance(inner, ast.Attribute) and inner.attr in NUMBER_ATTRIBUTES
    return set() if fresh or number or isinstance(value, COMPUTED_NODES) else scope_names.read_names(value)


@cache_recent(16)
def _own_functions(source: Source) -> frozenset[str]:
    return frozenset(n.name for n in call_index.nodes_of_kind(source, *FUNCTION_NODES) if isinstance(n, FUNCTION_NODES))


def _call_only_reads(source: Source, call: ast.Call, used: Collection[str]) -> bool:
    """Whether a call only reads its arguments, or adds to a list, a set or a mapping."""
    name, whole = node_lookup.called_name(call), name_bindings.qualified_name(source, call.func)
    given = (*call.args, *(k.value for k in call.keywords))
    if any(k.arg in (None, "out") for k in call.keywords):
        return False
    if {name, *(scope_names.dotted_name(one).rpartition(".")[2] for one in given)} & _own_functions(source):
        return False  # the script's own functions may do anything, also when NumPy calls them
    if whole.startswith(("numpy.", "math.")):
        alone = isinstance(node_lookup.parents_of(source).get(call), ast.Expr)  # called for its effect
        return name not in WRITING_FUNCTIONS and (not alone or name.startswith("save"))
    if isinstance(call.func, ast.Name):
        return not whole and name in READING_BUILTINS and name not in scope_names.bound_names(source.tree.body)
    if not isinstance(call.func, ast.Attribute) or whole:
        return False
    owner = call.func.value
    root = scope_names.dotted_name(owner).partition(".")[0]
    filling = (
        name in FILLING_METHODS
        and isinstance(owner, ast.Name)
        and (_owns_memory(source, owner) or _is_progress_bar(source, owner))
    )
    return name in READING_METHODS or ((name in ADDING_METHODS or filling) and bool(root) and root not in used)


def _is_progress_bar(source: Source, name: ast.Name) -> bool:
    made = name_bindings.single_assignment(source, name)
    return isinstance(made, ast.Call) and name_bindings.qualified_name(source, made.func).startswith("tqdm.")


def _owns_memory(source: Source, name: ast.Name, call: ast.Call | None = None) -> bool:
    """Whether a name holds only objects that were created for it, no view of another array."""
    scope = value_kinds.binding_function(source, name)
    stored = name_bindings.bindings_of(scope, name.id) if scope is not None else []
    if not stored or name.id in name_bindings.global_names(source):
        return False
    return all(isinstance(one, ast.Name) and _is_fresh_value(source, one, call) for one in stored)


def _is_fresh_value(source: Source, target: ast.Name, call: ast.Call | None) -> bool:
    if isinstance(node_lookup.parents_of(source).get(target), ast.AugAssign):
        return True
    value = name_bindings.assigned_value(source, target)
    while isinstance(value, ast.Subscript):  # an item of this turn's prediction
        value = value.value
        if value is call:
            return True
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    if isinstance(value, ast.Call):
        whole = name_bindings.qualified_name(source, value.func)
        return value is call or node_lookup.called_name(value) in (
            ARRAY_MAKERS if whole.startswith("numpy.") else CONTAINER_MAKERS
        )
    return isinstance(value, LITERAL_NODES)
