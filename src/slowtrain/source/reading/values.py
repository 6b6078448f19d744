"""What names stand for in a script: the module behind an alias, and the one place where a value is written.

Both answer only where the file leaves no doubt: one assignment, one default that no call overrides.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from slowtrain.source import FUNCTIONS, Source, kept, trees
from slowtrain.source.reading import finding as find
from slowtrain.source.reading import index, scopes

DEPTH = 6  # of names that stand for names
_INNER = frozenset((*FUNCTIONS, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
INNER = (*FUNCTIONS, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SAME = (
    ("tensorflow.compat.v2.", "tensorflow."),
    ("tensorflow.python.keras.", "keras."),
    ("tensorflow.keras.", "keras."),
    ("tf_keras.", "keras."),
)

_FROM = re.compile(r"from[\s\\]+([\w.]+)")
_IMPORT = re.compile(r"import\b((?:[^\n\\#;]|\\\s)*)")
_DOTTED = re.compile(r"[\w.]+")


@dataclass
class Origin:
    """Where a value is written, and the names that it goes through on its way."""

    constant: ast.Constant
    names: list[str] = field(default_factory=list)


def qualified(source: Source, node: ast.AST) -> str:
    """``tensorflow.math.log`` for ``tf.math.log``, ``keras.layers.Dense`` for any way to write it; "" for the rest."""
    written = scopes.dotted(node)
    first, _, rest = written.partition(".")
    known = _modules(source).get(first)
    if not known:
        return ""
    full = f"{known}.{rest}" if rest else known
    for long, short in _SAME:
        if f"{full}.".startswith(long):
            full = f"{short}{f'{full}.'.removeprefix(long)}"[:-1]
    return full


def reaches(source: Source, *names: str) -> bool:
    """Whether ``qualified`` may give one of these names, or one that begins so: by the text alone, before parsing."""
    known = [f"{module}." for module in modules(source)]
    return any(name.startswith(module) or module.startswith(name) for name in names for module in known)


@kept(4)
def modules(source: Source) -> set[str]:
    """What the text names behind ``from``, with dots in front of it, and the first parts of that behind ``import``."""
    found = set(_FROM.findall(source.plain))
    found |= {one.partition(".")[0] for several in _IMPORT.findall(source.plain) for one in _DOTTED.findall(several)}
    if any(one.partition(".")[0] in ("tensorflow", "tf_keras") for one in found):
        found |= {"tensorflow", "keras"}  # as _SAME has it
    return found


def scope(source: Source, node: ast.AST, name: str) -> ast.AST:
    """The function or module in which ``name``, as read at ``node``, is bound."""
    above = find.parents(source)
    inner: ast.AST | None = above.get(node)
    while inner is not None:
        if isinstance(inner, INNER) and not isinstance(inner, ast.ClassDef) and list(stores(inner, name)):
            return inner
        inner = above.get(inner)
    return source.tree


def stores(where: ast.AST, name: str) -> Sequence[ast.AST]:
    """What binds ``name`` in a scope itself, not in functions or classes inside it."""
    return _bindings(where).get(name, ())


@kept(512)
def _bindings(where: ast.AST) -> dict[str, list[ast.AST]]:
    """All that a scope binds, by name; gone through once."""
    found: dict[str, list[ast.AST]] = {}
    arguments = getattr(where, "args", None)
    if isinstance(arguments, ast.arguments):
        everything = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for argument in everything:
            if argument is not None:
                found.setdefault(argument.arg, []).append(argument)
    # Of a nested scope only its name is bound here.
    children = getattr(where, "body", []) if isinstance(where, (*FUNCTIONS, ast.ClassDef, ast.Module)) else [where]
    todo: list[ast.AST] = list(children) if isinstance(children, list) else [children]
    while todo:
        node = todo.pop()
        kind = node.__class__
        if kind is ast.Constant:
            continue
        for bound in _binds(node):
            found.setdefault(bound, []).append(node)
        if kind is not ast.Name and (node is where or kind not in _INNER):
            todo += trees.children(node)
    return found


def _binds(node: ast.AST) -> Sequence[str]:
    if isinstance(node, ast.Name):
        return () if isinstance(node.ctx, ast.Load) else (node.id,)
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return (node.name,)
    if isinstance(node, ast.alias):
        return (node.asname or node.name.partition(".")[0],)
    return node.names if isinstance(node, (ast.Global, ast.Nonlocal)) else ()


def assigned(source: Source, node: ast.Name) -> ast.expr | None:
    """What the one assignment of a name gives it; None where there are several, or it is something else."""
    where = scope(source, node, node.id)
    found = list(stores(where, node.id))
    if len(found) != 1 or not isinstance(found[0], ast.Name) or node.id in shared(source):
        return None
    return given(source, found[0])


@kept(16)
def shared(source: Source) -> frozenset[str]:
    """Names that some function declares ``global``."""
    return frozenset(name for n in index.nodes(source, ast.Global) if isinstance(n, ast.Global) for name in n.names)


def loads(source: Source, name: str) -> list[ast.Name]:
    """Every place in the file where ``name`` is read, in whatever scope."""
    return [
        n for n in trees.walk(source.tree) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
    ]


def origin(source: Source, node: ast.expr, depth: int = DEPTH) -> Origin | None:
    """The one literal that ``node`` has its value from."""
    if isinstance(node, ast.Constant):
        return Origin(node)
    if depth <= 0:
        return None
    found: Origin | None = None
    name = ""
    if isinstance(node, ast.Name):
        name, found = node.id, _of_name(source, node, depth)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        name, found = node.attr, _of_attribute(source, node, node.value, depth)
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        found = _of_key(source, node, node.value)
    if found is not None and name:
        found.names.append(name)
    return found


def whole(source: Source, node: ast.expr) -> int | None:
    """The integer that ``node`` has its value from."""
    found = origin(source, node)
    value = found.constant.value if found is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@kept(16)
def _modules(source: Source) -> dict[str, str]:
    """Modules, and what was imported from them, by the name that the file gives them."""
    found: dict[str, str] = {}
    for node in index.nodes(source, ast.Import, ast.ImportFrom):
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
            first, _, rest = scopes.dotted(node.value).partition(".")
            if rest and first in found:
                found.setdefault(node.targets[0].id, f"{found[first]}.{rest}")
    return found


def given(source: Source, target: ast.Name) -> ast.expr | None:
    """The value that an assignment gives ``target``, through tuples as well."""
    above = find.parents(source)
    holder = above.get(target)
    if isinstance(holder, ast.Assign) and target in holder.targets:
        return holder.value
    if isinstance(holder, ast.AnnAssign):
        return holder.value
    if isinstance(holder, (ast.Tuple, ast.List)):
        assign = above.get(holder)
        if (
            isinstance(assign, ast.Assign)
            and isinstance(assign.value, (ast.Tuple, ast.List))
            and holder in assign.targets
        ):
            values = assign.value.elts
            if len(values) == len(holder.elts) and not any(isinstance(e, ast.Starred) for e in (*values, *holder.elts)):
                return values[holder.elts.index(target)]
    return None


def _of_name(source: Source, node: ast.Name, depth: int) -> Origin | None:
    where = scope(source, node, node.id)
    bound = list(stores(where, node.id))
    if len(bound) == 1 and isinstance(bound[0], ast.arg) and isinstance(where, FUNCTIONS):
        return _of_parameter(source, where, node.id, depth)
    value = assigned(source, node)
    return origin(source, value, depth - 1) if value is not None else None


def _of_parameter(
    source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, depth: int
) -> Origin | None:
    """What all calls in the file give a parameter, or its default where none gives it."""
    holder = find.parents(source).get(function)
    called = holder.name if isinstance(holder, ast.ClassDef) and function.name == "__init__" else function.name
    bound = isinstance(holder, ast.ClassDef) and not any("staticmethod" in ast.dump(d) for d in function.decorator_list)
    positions = [a.arg for a in (*function.args.posonlyargs, *function.args.args)][1 if bound else 0 :]
    found: list[Origin] = []
    for call in index.of(source).called(called):
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            return None
        given = find.keyword(call, name, positions.index(name) if name in positions else None)
        one = origin(source, given, depth - 1) if given is not None else _default(function, name)
        if one is None:
            return None
        found.append(one)
    same = {id(one.constant) for one in found}
    return found[0] if len(same) == 1 else None


def _default(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Origin | None:
    given = function.args
    positional = [a.arg for a in (*given.posonlyargs, *given.args)]
    defaults: dict[str, ast.expr | None] = dict(
        zip(positional[len(positional) - len(given.defaults) :], given.defaults, strict=True)
    )
    defaults.update(zip((a.arg for a in given.kwonlyargs), given.kw_defaults, strict=True))
    value = defaults.get(name)
    return Origin(value) if isinstance(value, ast.Constant) else None


def _of_attribute(source: Source, node: ast.Attribute, base: ast.Name, depth: int) -> Origin | None:
    stored = [
        n for n in index.nodes(source, ast.Attribute)
        if isinstance(n, ast.Attribute) and n.attr == node.attr and isinstance(n.ctx, ast.Store)
    ]  # fmt: skip
    holder = _class(source, node) if base.id in ("self", "cls") else None
    if holder is not None:
        mine = [n for n in stored if _class(source, n) is holder]
        if len(mine) == 1:
            assign = find.parents(source).get(mine[0])
            if isinstance(assign, ast.Assign) and len(assign.targets) == 1:
                return origin(source, assign.value, depth - 1)
        return _of_class(source, holder, node.attr) if not mine else None
    if stored:
        return None
    value = assigned(source, base)
    if _options(source, base):
        return _of_option(source, node.attr)
    named = find.called(value) if isinstance(value, ast.Call) else base.id
    classes = [n for n in index.nodes(source, ast.ClassDef) if isinstance(n, ast.ClassDef) and n.name == named]
    if len(classes) != 1 or (isinstance(value, ast.Call) and find.keyword(value, node.attr) is not None):
        return None
    return _of_class(source, classes[0], node.attr)


def _class(source: Source, node: ast.AST) -> ast.ClassDef | None:
    above = find.parents(source)
    found = above.get(node)
    while found is not None and not isinstance(found, ast.ClassDef):
        found = above.get(found)
    return found


def _of_class(source: Source, holder: ast.ClassDef, name: str) -> Origin | None:
    """A class's own attribute, or a data class's default that no call overrides by position."""
    values = [given(source, n) for n in stores(holder, name) if isinstance(n, ast.Name)]
    made = index.of(source).called(holder.name)
    plain = not any(call.args or any(k.arg in (name, None) for k in call.keywords) for call in made)
    return Origin(values[0]) if len(values) == 1 and isinstance(values[0], ast.Constant) and plain else None


def _options(source: Source, node: ast.expr, depth: int = DEPTH) -> bool:
    """Whether ``node`` holds what ``parse_args()`` gave, through functions that return it and that are given it."""
    if isinstance(node, ast.Call) and depth:
        if find.called(node) in ("parse_args", "parse_known_args"):
            return find.called(node) == "parse_args"
        made = find.defined(source, node.func.id, node) if isinstance(node.func, ast.Name) else None
        back = [n.value for n in scopes.own(made.body) if isinstance(n, ast.Return)] if made is not None else []
        return len(back) == 1 and back[0] is not None and _options(source, back[0], depth - 1)
    if not isinstance(node, ast.Name) or not depth:
        return False
    where = scope(source, node, node.id)
    bound = list(stores(where, node.id))
    if len(bound) == 1 and isinstance(bound[0], ast.arg) and isinstance(where, FUNCTIONS):
        positions = [a.arg for a in (*where.args.posonlyargs, *where.args.args)]
        at = positions.index(node.id) if node.id in positions else None
        given = [find.keyword(c, node.id, at) for c in index.of(source).called(where.name)]
        return bool(given) and all(g is not None and _options(source, g, depth - 1) for g in given)
    value = assigned(source, node)
    return value is not None and _options(source, value, depth - 1)


def _of_option(source: Source, name: str) -> Origin | None:
    """The default of a command line's option."""
    found = []
    for call in index.of(source).called("add_argument"):
        flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        long = [f for f in flags if f.startswith("--")] or flags
        target = find.keyword(call, "dest")
        stands = (
            target.value if isinstance(target, ast.Constant) else long[0].lstrip("-").replace("-", "_") if long else ""
        )
        if stands == name:
            found.append(find.keyword(call, "default"))
    return Origin(found[0]) if len(found) == 1 and isinstance(found[0], ast.Constant) else None


def _of_key(source: Source, node: ast.Subscript, base: ast.Name) -> Origin | None:
    """``config["batch_size"]`` of a dictionary that is written once and not changed."""
    value = assigned(source, base)
    key = node.slice.value if isinstance(node.slice, ast.Constant) else None
    holders = [find.parents(source).get(n) for n in loads(source, base.id)]
    stored = any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for n in holders)
    if any(isinstance(n, ast.Attribute) and n.attr in ("update", "setdefault", "pop") for n in holders) or stored:
        return None
    if not isinstance(value, ast.Dict) or key is None:
        return None
    pairs = zip(value.keys, value.values, strict=True)
    given = [v for k, v in pairs if isinstance(k, ast.Constant) and k.value == key]
    return Origin(given[0], [str(key)]) if len(given) == 1 and isinstance(given[0], ast.Constant) else None
