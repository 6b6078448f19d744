"""Objects that a training loop goes through: a loader of the file whose ``__iter__`` yields batches."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

from slowtrain.script.evaluators import setting_origins
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.navigation.class_members import CONSTRUCTORS
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, RANDOM_CALLS, Source

GENERATORS = ("numpy.random.default_rng", "numpy.random.RandomState", "random.Random")
KEEPING = frozenset({"append", "extend", "add", "update"})  # of a list that the method itself begins


def loops(source: Source, line: int) -> Iterator[ast.For]:
    """Loops through a loader whose classes hold ``line``, or that hold it themselves."""
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.For):
            parts = [*making(source, node), node]
            if any(p.lineno <= line <= (p.end_lineno or 0) for p in parts):
                yield node


def batches(loop: ast.For) -> ast.expr:
    """What gives the loop its batches: ``islice(loader, 9)`` of ``enumerate(islice(loader, 9))``."""
    given = loop.iter
    if isinstance(given, ast.Call) and scope_names.dotted_name(given.func) == "enumerate" and given.args:
        given = given.args[0]
    return given


def gone_through(loop: ast.For) -> ast.Name | ast.Attribute | None:
    """``loader`` of ``for x, y in loader``, of ``enumerate(loader)`` and of ``islice(loader, 9)``."""
    given = batches(loop)
    if isinstance(given, ast.Call) and node_lookup.called_name(given) == "islice" and given.args:
        given = given.args[0]
    return given if isinstance(given, (ast.Name, ast.Attribute)) else None


def making(source: Source, loop: ast.For) -> list[ast.FunctionDef]:
    """All methods but constructors of the loader and of the objects of this file that it is given."""
    given = gone_through(loop)
    objects = _objects(source, given) if given is not None else None
    if not objects:
        return []
    if not _iterates(_methods(objects[0][0])):
        return []
    if any(c.bases or c.decorator_list for c, _ in objects):
        return []  # more methods than are in sight
    return [f for c, _ in objects for f in _methods(c) if f.name not in CONSTRUCTORS]


def _iterates(methods: Sequence[ast.FunctionDef]) -> bool:
    """Whether ``__iter__`` yields, or gives the object itself, which has a ``__next__``."""
    named = {f.name: f for f in methods}
    body = named["__iter__"].body if "__iter__" in named else []
    last = body[-1] if body else None
    itself = isinstance(last, ast.Return) and isinstance(last.value, ast.Name) and last.value.id == "self"
    return any(isinstance(n, ast.Yield) for n in scope_names.nodes_in_scope(body)) or (itself and "__next__" in named)


def shared(source: Source, loop: ast.For) -> bool:
    """Whether the loop's rest has hold of the loader, or of what it was made with, but for its length."""
    given = gone_through(loop)
    objects = _objects(source, given) if given is not None else None
    if not objects or not isinstance(given, ast.Name):
        return True  # of an object's own attribute others may have hold
    parts: list[ast.AST] = [given, *(call for _, call in objects)]
    parts += [f for c, _ in objects for f in _methods(c) if f.name in CONSTRUCTORS]
    free = {n for p in parts for n in scope_names.read_names(p)}
    held = free - set(scope_names.import_aliases(source)) - name_bindings.imported_modules(source) - _defined(source)
    above = node_lookup.parents_of(source)
    for statement in loop.body:
        for part in source.called(statement):
            for node in syntax_tree.walk(part):
                if isinstance(node, ast.Name) and node.id in held and not _length(above.get(node)):
                    return True
    return False


def own_draws(source: Source, methods: Sequence[ast.FunctionDef]) -> bool:
    """Whether all that the methods draw comes from generators of the loader's own, and they change nothing else.

    Where the loader itself stands, its own attributes say.
    """
    for method in methods:
        local = scope_names.bound_names(method.body)
        for node in syntax_tree.walk(method):
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                return False
            if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
                name = node.value.id if isinstance(node.value, ast.Name) else ""
                if not (name in local if isinstance(node, ast.Subscript) else name == "self"):
                    return False
            if isinstance(node, ast.Name) and _moves(node.id):
                return False
            if not isinstance(node, ast.Attribute) or not _moves(node.attr):
                continue
            held = isinstance(node.value, ast.Name) and node.value.id in local
            own = _generator(source, node.value) or _generator(source, node)
            if not own and not (held and node.attr in KEEPING):
                return False
    return True


def _moves(name: str) -> bool:
    return (
        name.startswith(repeatable_functions.RANDOM_PREFIXES)
        or name in RANDOM_CALLS
        or name in repeatable_functions.STATEFUL_METHODS
    )


def _generator(source: Source, owner: ast.expr) -> bool:
    """Whether ``self.rng`` is one that the constructor makes."""
    made = setting_origins.written_value(source, owner) if isinstance(owner, ast.Attribute) else None
    if not isinstance(made, ast.Call) or node_lookup.enclosing_function(source, made) is None:
        return False  # one of the module's may have other users
    return name_bindings.qualified_name(source, made.func) in GENERATORS


def _objects(source: Source, node: ast.expr, depth: int = 4) -> list[tuple[ast.ClassDef, ast.Call]] | None:
    """The class of ``node`` and the call that makes it, then those of the objects that it is given."""
    made = setting_origins.written_value(source, node)
    holder = setting_origins.instance_class(source, node) if isinstance(made, ast.Call) and depth else None
    if holder is None or not isinstance(made, ast.Call):
        return None
    found = [(holder, made)]
    for one in (*made.args, *(k.value for k in made.keywords)):
        inner = _objects(source, one, depth - 1)
        if (
            inner is None
            and not isinstance(one, (ast.Name, ast.Constant))
            and setting_origins.literal_origin(source, one) is None
        ):
            return None
        found += inner or []
    return found


def _defined(source: Source) -> set[str]:
    """Functions and classes of the file, and the names that are always there."""
    names = {n.name for n in syntax_tree.walk(source.tree) if isinstance(n, (*FUNCTION_NODES, ast.ClassDef))}
    return names | set(dir(builtins))


def _methods(holder: ast.ClassDef) -> list[ast.FunctionDef]:
    return [f for f in holder.body if isinstance(f, ast.FunctionDef)]


def _length(holder: ast.AST | None) -> bool:
    return isinstance(holder, ast.Call) and scope_names.dotted_name(holder.func) == "len"
