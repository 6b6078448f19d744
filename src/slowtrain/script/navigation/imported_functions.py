"""Functions that a script imports from other files of its project, next to it or above it. Nothing is executed."""

from __future__ import annotations

import ast
import functools
import os
from dataclasses import dataclass

from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source, cache_recent, parse_source

FRAMEWORKS = frozenset("tensorflow keras tf_keras numpy scipy pandas sklearn matplotlib PIL cv2 torch jax".split())
MAX_PARENT_FOLDERS = 4  # parent folders in which a package may begin
MAX_REEXPORTS = 5  # files that only re-export a name (``from .data import images``)
MAX_FILE_BYTES = 1_000_000


@dataclass(frozen=True)
class ImportedFunction:
    """A function and the file that defines it."""

    source: Source
    function: ast.FunctionDef


def imported_function(source: Source, node: ast.AST) -> ImportedFunction | None:
    """The function of another file that ``node`` names: ``images``, ``data.images``."""
    origin = name_origin(source, scope_names.dotted_name(node))
    if origin is None:
        return None
    file, name = origin
    own = [n for n in file.tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    return (
        ImportedFunction(file, own[0]) if len(own) == 1 and not scope_names.is_rebound(file, name, file.tree) else None
    )


def named_function(source: Source, node: ast.AST, near: ast.AST | None = None) -> ImportedFunction | None:
    """The function that ``node`` names: of this file, by its last name, or else of another file."""
    last = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    own = node_lookup.function_named(source, last, near) if last else None
    return ImportedFunction(source, own) if own is not None else imported_function(source, node)


def name_origin(source: Source, written: str) -> tuple[Source, str] | None:
    """The project file that binds ``images`` or ``data.images`` as written, and the name there.

    Follows ``from data import *`` too.
    """
    first, _, rest = written.partition(".")
    imported = _project_imports(source).get(first) if first else None
    if imported is None and not _star_imports(source):
        return None
    folder = os.path.dirname(os.path.abspath(source.file))
    if imported is not None:
        level, module = imported
        return _binding_file(folder, level, f"{module}.{rest}" if rest and module else module or rest, MAX_REEXPORTS)
    several = (
        _binding_file(folder, level, f"{module}.{first}", MAX_REEXPORTS) for level, module in _star_imports(source)
    )
    return next((found for found in several if found is not None), None) if first and not rest else None


def may_import_project_files(source: Source) -> bool:
    """Whether the file may import functions from its project; by the text alone."""
    folder = os.path.dirname(os.path.abspath(source.file))
    roots = {one.partition(".")[0] for one in name_bindings.imported_modules(source)} - FRAMEWORKS
    return any(not root or _exists_near(folder, root) for root in roots)


@functools.lru_cache(maxsize=1024)
def _exists_near(folder: str, name: str) -> bool:
    """Whether a file or folder of this name is in ``folder`` or one of those above it."""
    for _ in range(MAX_PARENT_FOLDERS + 1):
        if os.path.isdir(os.path.join(folder, name)) or os.path.isfile(os.path.join(folder, f"{name}.py")):
            return True
        folder = os.path.dirname(folder)
    return False


@cache_recent(16)
def _project_imports(source: Source) -> dict[str, tuple[int, str]]:
    """Imports other than frameworks: the number of dots, then the dotted name."""
    found: dict[str, tuple[int, str]] = {}
    for node in call_index.nodes_of_kind(source, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                found[bound] = (0, alias.name if alias.asname else bound)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = f"{node.module}.{alias.name}" if node.module else alias.name
                found[alias.asname or alias.name] = (node.level, module)
    return {k: v for k, v in found.items() if v[0] or v[1].partition(".")[0] not in FRAMEWORKS}


@cache_recent(16)
def _star_imports(source: Source) -> list[tuple[int, str]]:
    """Modules imported with ``*``: the number of dots and the dotted name."""
    found = [(n.level, n.module or "") for n in call_index.nodes_of_kind(source, ast.ImportFrom)
             if isinstance(n, ast.ImportFrom) and any(one.name == "*" for one in n.names)]  # fmt: skip
    return [one for one in found if one[0] or one[1].partition(".")[0] not in FRAMEWORKS]


def _binding_file(folder: str, level: int, full: str, depth: int) -> tuple[Source, str] | None:
    """The file that binds ``full`` (``package.data.images``) as seen from ``folder``, and its name there."""
    module, _, name = full.rpartition(".")
    if not name or depth <= 0 or (not module and not level):
        return None
    for _ in range(level - 1):
        folder = os.path.dirname(folder)
    file = _module_file(folder, module, level > 0)
    source = read_project_file(file) if file is not None else None
    if file is None or source is None or name not in source.text:
        return None
    try:
        again = _project_imports(source).get(name)
        if again is not None:
            return _binding_file(os.path.dirname(file), again[0], again[1], depth - 1)
        return (source, name) if name in scope_names.bound_names(scope_names.scope_body(source.tree)) else None
    except SyntaxError:
        return None


def _module_file(folder: str, module: str, relative: bool) -> str | None:
    """The file of ``module``: below ``folder``, or for an absolute name below one of the folders above it."""
    parts = module.split(".") if module else []
    for _ in range(1 if relative else MAX_PARENT_FOLDERS + 1):
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
def read_project_file(file: str) -> Source | None:
    """The parsed file; None if it is not Python, cannot be read or is too large."""
    try:
        if os.path.getsize(file) > MAX_FILE_BYTES:
            return None
        with open(file, encoding="utf-8", errors="replace") as opened:
            return parse_source(file, opened.read())
    except OSError:
        return None


def called_imports(source: Source, node: ast.AST) -> list[ImportedFunction]:
    """The functions of other files that ``node`` calls by name."""
    calls = (n for n in syntax_tree.walk(node) if isinstance(n, ast.Call))
    known = _project_imports(source)
    named = [c.func for c in calls if scope_names.dotted_name(c.func).partition(".")[0] in known]
    found = [
        imported_function(source, n)
        for n in named
        if node_lookup.function_named(source, scope_names.dotted_name(n)) is None
    ]
    return [one for one in found if one is not None]
