"""What a name refers to where it is read: the module behind an alias, the scope that binds it, its assignments.

Follows one step, and only if the file leaves no doubt.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from slowtrain.script.navigation import call_index, scope_names
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent

INNER_SCOPES = (*FUNCTION_NODES, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_INNER_SCOPE_SET = frozenset(INNER_SCOPES)
_NAME_PREFIXES = (
    ("tensorflow.compat.v2.", "tensorflow."),
    ("tensorflow.python.keras.", "keras."),
    ("tensorflow.keras.", "keras."),
    ("tf_keras.", "keras."),
    ("keras_preprocessing.", "keras.preprocessing."),
)

_FROM_PATTERN = re.compile(r"from[\s\\]+([\w.]+)")
_IMPORT_PATTERN = re.compile(r"import\b((?:[^\n\\#;]|\\\s)*)")
_DOTTED_PATTERN = re.compile(r"[\w.]+")


@cache_recent(4096)
def qualified_name(source: Source, node: ast.AST) -> str:
    """``tensorflow.math.log`` for ``tf.math.log``, ``keras.layers.Dense`` for every spelling; "" if not imported."""
    written = scope_names.dotted_name(node)
    first, _, rest = written.partition(".")
    known = scope_names.import_aliases(source).get(first)
    if not known:
        return ""
    full = f"{known}.{rest}." if rest else f"{known}."
    for long, short in _NAME_PREFIXES:
        if full.startswith(long):
            full = short + full.removeprefix(long)
    return full[:-1]


def is_new_axis(source: Source, node: ast.expr) -> bool:
    """Whether a part of a subscript is ``None`` or ``np.newaxis``."""
    none = isinstance(node, ast.Constant) and node.value is None
    return none or qualified_name(source, node) in ("numpy.newaxis", "tensorflow.newaxis")


def may_name(source: Source, *names: str) -> bool:
    """Whether ``qualified_name`` may give one of these names, or one that begins so; by the text alone, before
    parsing.
    """
    return any(name.startswith(m) or m.startswith(name) for name in names for m in _imported_prefixes(source))


@cache_recent(4)
def _imported_prefixes(source: Source) -> list[str]:
    return [f"{module}." for module in imported_modules(source)]


@cache_recent(4)
def imported_modules(source: Source) -> set[str]:
    """Modules after ``from``, with leading dots, and the first parts of those after ``import``; by the text alone."""
    found = set(_FROM_PATTERN.findall(source.plain))
    found |= {
        one.partition(".")[0]
        for several in _IMPORT_PATTERN.findall(source.plain)
        for one in _DOTTED_PATTERN.findall(several)
    }
    if any(one.partition(".")[0] in ("tensorflow", "tf_keras", "keras_preprocessing") for one in found):
        found |= {"tensorflow", "keras"}  # because of _SAME
    return found


def binding_scope(source: Source, node: ast.AST, name: str) -> ast.AST:
    """The function or module that binds ``name`` as read at ``node``."""
    above = find.parents_of(source)
    inner: ast.AST | None = above.get(node)
    while inner is not None:
        if isinstance(inner, INNER_SCOPES) and not isinstance(inner, ast.ClassDef) and list(bindings_of(inner, name)):
            return inner
        inner = above.get(inner)
    return source.tree


def bindings_of(where: ast.AST, name: str) -> Sequence[ast.AST]:
    """The nodes that bind ``name`` in a scope itself, not in functions or classes inside it."""
    return _bindings_by_name(where).get(name, ())


@cache_recent(512)
def _bindings_by_name(where: ast.AST) -> dict[str, list[ast.AST]]:
    """All bindings of a scope by name."""
    found: dict[str, list[ast.AST]] = {}
    arguments = getattr(where, "args", None)
    if isinstance(arguments, ast.arguments):
        everything = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for argument in everything:
            if argument is not None:
                found.setdefault(argument.arg, []).append(argument)
    # A nested scope binds only its name here.
    children = getattr(where, "body", []) if isinstance(where, (*FUNCTION_NODES, ast.ClassDef, ast.Module)) else [where]
    todo: list[ast.AST] = list(children) if isinstance(children, list) else [children]
    while todo:
        node = todo.pop()
        kind = type(node)
        if kind is ast.Constant:
            continue
        for bound in _BINDING_RULES[kind](node) if kind in _BINDING_RULES else ():
            found.setdefault(bound, []).append(node)
        if kind is not ast.Name and (node is where or kind not in _INNER_SCOPE_SET):
            todo += syntax_tree.child_nodes(node)
    return found


_BINDING_RULES: dict[type[ast.AST], Callable[[Any], Sequence[str]]] = {
    ast.Name: lambda node: () if isinstance(node.ctx, ast.Load) else (node.id,),
    **dict.fromkeys((*FUNCTION_NODES, ast.ClassDef), lambda node: (node.name,)),
    ast.alias: lambda node: (node.asname or node.name.partition(".")[0],),
    **dict.fromkeys((ast.Global, ast.Nonlocal), lambda node: node.names),
}


def single_assignment(source: Source, node: ast.Name) -> ast.expr | None:
    """The value of a name's only assignment; None if there are several or it is bound otherwise."""
    where = binding_scope(source, node, node.id)
    found = list(bindings_of(where, node.id))
    if len(found) != 1 or not isinstance(found[0], ast.Name) or node.id in global_names(source):
        return None
    return assigned_value(source, found[0])


def latest_assignment(source: Source, node: ast.Name) -> ast.expr | None:
    """The value of a name's last assignment before ``node``, if the order of the text alone decides it."""
    where, at = binding_scope(source, node, node.id), find.enclosing_statement(source, node)
    above = find.parents_of(source)
    holders = [find.enclosing_statement(source, one) for one in bindings_of(where, node.id)]
    before = [one for one in holders if one is not None and at is not None and (one.end_lineno or 0) < at.lineno]
    last = max(before, key=lambda one: one.lineno, default=None)
    if not isinstance(last, ast.Assign) or at is None or node.id in global_names(source):
        return None
    around, outer = set[ast.AST](), above.get(at)
    while outer is not None:
        around.add(outer)
        outer = above.get(outer)
    if above.get(last) not in around or (
        len(before) < len(holders) and any(isinstance(o, scope_names.LOOP_NODES) for o in around)
    ):
        return None
    return last.value if len(last.targets) == 1 and isinstance(last.targets[0], ast.Name) else None


@cache_recent(16)
def global_names(source: Source) -> frozenset[str]:
    """Names that some function declares ``global``."""
    return frozenset(
        name for n in call_index.nodes_of_kind(source, ast.Global) if isinstance(n, ast.Global) for name in n.names
    )


def reads_of(source: Source, name: str) -> list[ast.Name]:
    """Every place in the file where ``name`` is read, in any scope."""
    every = call_index.nodes_matching(source, re.compile(re.escape(name)), ast.Name)
    return [n for n in every if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]


def assigned_value(source: Source, target: ast.expr) -> ast.expr | None:
    """The value that an assignment gives ``target``, through tuples as well."""
    above = find.parents_of(source)
    holder = above.get(target)
    match holder, above.get(holder) if holder is not None else None:
        case ast.Assign(targets=targets, value=value), _ if target in targets:
            return value
        case ast.AnnAssign(value=value), _:
            return value
        case (
            ast.Tuple(elts=names) | ast.List(elts=names),
            ast.Assign(targets=targets, value=ast.Tuple(elts=values) | ast.List(elts=values)),
        ) if holder in targets and len(values) == len(names):
            starred = any(isinstance(one, ast.Starred) for one in (*values, *names))
            return None if starred else values[names.index(target)]
    return None
