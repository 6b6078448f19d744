"""Functions that a script imports from other files of its project, next to it or above it. Nothing is executed."""

from __future__ import annotations

import ast
import functools
import os

from slowtrain.source import Source, kept, parse, trees
from slowtrain.source.reading import finding, index, scopes, values
from slowtrain.values import dataclass

FRAMEWORKS = frozenset("tensorflow keras tf_keras numpy scipy pandas sklearn matplotlib PIL cv2 torch jax".split())
UPWARDS = 4  # parent folders in which a package may begin
DEEPEST = 5  # files that only re-export a name (``from .data import images``)
MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Found:
    """A function and the file that defines it."""

    source: Source
    function: ast.FunctionDef


def function(source: Source, node: ast.AST) -> Found | None:
    """The function of another file that ``node`` names: ``images``, ``data.images``."""
    written = scopes.dotted(node)
    first, _, rest = written.partition(".")
    imported = _imported(source).get(first) if first else None
    if imported is None:
        return None
    level, module = imported
    full = f"{module}.{rest}" if rest and module else module or rest
    return _named(os.path.dirname(os.path.abspath(source.file)), level, full, DEEPEST)


def origin(source: Source, written: str) -> tuple[Source, str] | None:
    """The project file that binds ``images`` or ``data.images`` as written, and the name there.

    Follows ``from data import *`` too.
    """
    first, _, rest = written.partition(".")
    imported = _imported(source).get(first) if first else None
    if imported is None and not _starred(source):
        return None
    folder = os.path.dirname(os.path.abspath(source.file))
    if imported is not None:
        level, module = imported
        return _bound(folder, level, f"{module}.{rest}" if rest and module else module or rest, DEEPEST)
    several = (_bound(folder, level, f"{module}.{first}", DEEPEST) for level, module in _starred(source))
    return next((found for found in several if found is not None), None) if first and not rest else None


def leads(source: Source) -> bool:
    """Whether the file may import functions from its project; by the text alone."""
    folder = os.path.dirname(os.path.abspath(source.file))
    roots = {one.partition(".")[0] for one in values.modules(source)} - FRAMEWORKS
    return any(not root or _near(folder, root) for root in roots)


@functools.lru_cache(maxsize=1024)
def _near(folder: str, name: str) -> bool:
    """Whether a file or folder of this name is in ``folder`` or one of those above it."""
    for _ in range(UPWARDS + 1):
        if os.path.isdir(os.path.join(folder, name)) or os.path.isfile(os.path.join(folder, f"{name}.py")):
            return True
        folder = os.path.dirname(folder)
    return False


@kept(16)
def _imported(source: Source) -> dict[str, tuple[int, str]]:
    """Imports other than frameworks: the number of dots, then the dotted name."""
    found: dict[str, tuple[int, str]] = {}
    for node in index.nodes(source, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                found[bound] = (0, alias.name if alias.asname else bound)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = f"{node.module}.{alias.name}" if node.module else alias.name
                found[alias.asname or alias.name] = (node.level, module)
    return {k: v for k, v in found.items() if v[0] or v[1].partition(".")[0] not in FRAMEWORKS}


@kept(16)
def _starred(source: Source) -> list[tuple[int, str]]:
    """Modules imported with ``*``: the number of dots and the dotted name."""
    found = [(n.level, n.module or "") for n in index.nodes(source, ast.ImportFrom)
             if isinstance(n, ast.ImportFrom) and any(one.name == "*" for one in n.names)]  # fmt: skip
    return [one for one in found if one[0] or one[1].partition(".")[0] not in FRAMEWORKS]


def _bound(folder: str, level: int, full: str, depth: int) -> tuple[Source, str] | None:
    """The file that binds ``full`` (``package.data.images``) as seen from ``folder``, and its name there."""
    module, _, name = full.rpartition(".")
    if not name or depth <= 0 or (not module and not level):
        return None
    for _ in range(level - 1):
        folder = os.path.dirname(folder)
    file = _file(folder, module, level > 0)
    source = read(file) if file is not None else None
    if file is None or source is None or name not in source.text:
        return None
    try:
        again = _imported(source).get(name)
        if again is not None:
            return _bound(os.path.dirname(file), again[0], again[1], depth - 1)
        return (source, name) if name in scopes.bound(scopes.body(source.tree)) else None
    except SyntaxError:
        return None


def _named(folder: str, level: int, full: str, depth: int) -> Found | None:
    """The function ``full`` (``package.data.images``) as seen from a file in ``folder``."""
    module, _, name = full.rpartition(".")
    if not name or depth <= 0:
        return None
    for _ in range(level - 1):
        folder = os.path.dirname(folder)
    file = _file(folder, module, level > 0)
    source = read(file) if file is not None else None
    if file is None or source is None:
        return None
    own = [n for n in source.tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    if own:
        return Found(source, own[0]) if len(own) == 1 and not scopes.changes(source, name, source.tree) else None
    again = _imported(source).get(name)
    return _named(os.path.dirname(file), again[0], again[1], depth - 1) if again is not None else None


def _file(folder: str, module: str, relative: bool) -> str | None:
    """The file of ``module``: below ``folder``, or for an absolute name below one of the folders above it."""
    parts = module.split(".") if module else []
    for _ in range(1 if relative else UPWARDS + 1):
        path = os.path.join(folder, *parts)
        for file in ((f"{path}.py",) if parts else ()) + (os.path.join(path, "__init__.py"),):
            if os.path.isfile(file):
                return file
        above = os.path.dirname(folder)
        if above == folder or not parts:
            return None
        folder = above
    return None


@functools.lru_cache(maxsize=64)
def read(file: str) -> Source | None:
    """The parsed file; None if it is not Python, cannot be read or is too large."""
    try:
        if os.path.getsize(file) > MOST_BYTES:
            return None
        with open(file, encoding="utf-8", errors="replace") as opened:
            return parse(file, opened.read())
    except OSError:
        return None


def returned(found: Found) -> ast.expr | None:
    """The value of the function's only ``return``; None if it has decorators."""
    if found.function.decorator_list:
        return None
    values = [n.value for n in scopes.own(scopes.body(found.function)) if isinstance(n, ast.Return)]
    return values[0] if len(values) == 1 else None


def called(source: Source, node: ast.AST) -> list[Found]:
    """The functions of other files that ``node`` calls by name."""
    calls = (n for n in trees.walk(node) if isinstance(n, ast.Call))
    known = _imported(source)
    named = [c.func for c in calls if scopes.dotted(c.func).partition(".")[0] in known]
    found = [function(source, n) for n in named if finding.defined(source, scopes.dotted(n)) is None]
    return [one for one in found if one is not None]
