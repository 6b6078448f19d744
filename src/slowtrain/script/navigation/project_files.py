"""Other files of the project: functions that a script imports, where modules are, which scripts import a file."""

from __future__ import annotations

import ast
import functools
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source, ascii_words, cache_recent, parse_source

FRAMEWORKS = frozenset("tensorflow keras tf_keras numpy scipy pandas sklearn matplotlib PIL cv2 torch jax".split())
MAX_PARENT_FOLDERS = 4  # parent folders in which a package may begin
MAX_REEXPORTS = 5  # files that only re-export a name (``from .data import images``)
MAX_FILE_BYTES = 1_000_000


class ImportedFunction(Struct, frozen=True):
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
    folder = source.folder
    if imported is not None:
        level, module = imported
        return _binding_file(folder, level, f"{module}.{rest}" if rest and module else module or rest, MAX_REEXPORTS)
    several = (
        _binding_file(folder, level, f"{module}.{first}", MAX_REEXPORTS) for level, module in _star_imports(source)
    )
    return next((found for found in several if found is not None), None) if first and not rest else None


def may_import_project_files(source: Source) -> bool:
    """Whether the file may import functions from its project; by the text alone."""
    roots = {one.partition(".")[0] for one in name_bindings.imported_modules(source)} - FRAMEWORKS
    return any(not root or _exists_near(source.folder, root) for root in roots)


def _exists_near(folder: str, name: str) -> bool:
    """Whether a folder or module of this name is in ``folder`` or one of those above it."""
    return any(
        (name in inside and os.path.isdir(os.path.join(at, name)))
        or (f"{name}.py" in inside and os.path.isfile(os.path.join(at, f"{name}.py")))
        for at, inside in _near_folders(folder)
    )


@functools.lru_cache(maxsize=64)
def _near_folders(folder: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """A folder and those above it in which a package may begin, each with the modules and packages in it."""
    found = [folder]
    while len(found) <= MAX_PARENT_FOLDERS and os.path.dirname(found[-1]) != found[-1]:
        found.append(os.path.dirname(found[-1]))
    return tuple((one, _module_names(one)) for one in found)


@functools.lru_cache(maxsize=64)
def _module_names(folder: str) -> frozenset[str]:
    """The names in a folder that may be of modules and packages."""
    try:
        return frozenset(name for name in os.listdir(folder) if name.endswith(".py") or "." not in name)
    except OSError:
        return frozenset()


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


@functools.lru_cache(maxsize=1024)
def _module_file(folder: str, module: str, relative: bool) -> str | None:
    """The file of ``module``: below ``folder``, or for an absolute name below one of the folders above it."""
    if not module:
        return _existing_file(os.path.join(folder, "__init__.py"))
    parts = module.split(".")
    for at, inside in _near_folders(folder)[: 1 if relative else None]:
        if parts[0] in inside or f"{parts[0]}.py" in inside:
            path = os.path.join(at, *parts)
            found = _existing_file(f"{path}.py") or _existing_file(os.path.join(path, "__init__.py"))
            if found is not None:
                return found
    return None


def _existing_file(path: str) -> str | None:
    return path if os.path.isfile(path) else None


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


PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})
IMPORT_FUNCTIONS = frozenset({"import_module", "__import__"})


def main_file(name: str) -> Path | None:
    """The file that ``python -m name`` runs; None if it is not the user's own."""
    paths = [folder.joinpath(*name.split(".")) for folder in (Path.cwd(), *_development_folders())]
    files = (file for path in paths for file in (path / "__main__.py", Path(f"{path}.py")))
    return next((file for file in files if file.is_file() and not is_installed(file)), None)


def search_folders(script: Path) -> list[Path]:
    """Folders that are searched for the modules of ``script``.

    Changes that the script makes to ``sys.path`` are not evaluated. Instead the folders above it are searched, and
    ``src`` in each.
    """
    above = list(script.parents)[: MAX_PARENT_FOLDERS + 1]
    return list(
        dict.fromkeys([script.parent, Path.cwd(), *_development_folders(), *above, *(one / "src" for one in above)])
    )


def imported_files(source: Source, folders: Iterable[Path]) -> list[Path]:
    """The user's own files that ``source`` may import, in the order of its text; packages before their modules."""
    above = list(Path(source.file).parents)
    found: list[Path] = []
    for level, name in _import_targets(source):
        found += _files_of_module(name, above[level - 1 : level], 0) if level else _files_of_module(name, folders, 1)
    return list(dict.fromkeys(found))


def dynamic_import_name(call: ast.Call) -> str:
    """The module of ``importlib.import_module("data")``; "" for any other call."""
    called = getattr(call.func, "attr", getattr(call.func, "id", ""))
    argument = call.args[0] if called in IMPORT_FUNCTIONS and call.args else None
    text = argument.value if isinstance(argument, ast.Constant) else None
    return text if isinstance(text, str) and not text.startswith(".") else ""


def is_installed(path: Path) -> bool:
    """Whether a file or folder belongs to Python itself or to an installed package."""
    real = Path(os.path.realpath(path))
    folders = [os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    return any(real.is_relative_to(folder) for folder in folders) or bool(PACKAGE_FOLDERS & set(real.parts))


def _development_folders() -> list[Path]:
    """``PYTHONPATH`` and the folders of packages installed for development, without folders of installed packages."""
    folders = [Path(one) for one in sys.path if one and not is_installed(Path(one))]
    return [folder for folder in folders if not any(folder.glob("*.dist-info"))]


def _import_targets(source: Source) -> Iterator[tuple[int, str]]:
    """The number of dots and the dotted name of everything that the file may import, frameworks excluded."""
    for node in syntax_tree.walk(source.tree):
        level, names = 0, list[str]()
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            level, module = node.level, node.module or ""
            names = [module, *(f"{module}.{alias.name}".lstrip(".") for alias in node.names)]
        elif isinstance(node, ast.Call) and (name := dynamic_import_name(node)):
            names = [name]
        yield from ((level, name) for name in names if level or name.partition(".")[0] not in FRAMEWORKS)


def _files_of_module(name: str, folders: Iterable[Path], first: int) -> list[Path]:
    """The files that importing ``name`` runs, for its parts from ``first`` on, in the first folder that has any."""
    parts = name.split(".") if name else []
    for folder in folders:
        paths = [folder.joinpath(*parts[:count]) for count in range(first, len(parts) + 1)]
        found = [file for path in paths if (file := _own_module_file(path)) is not None]
        if found:
            return found
    return []


def _own_module_file(path: Path) -> Path | None:
    either = (path / "__init__.py", Path(f"{path}.py"))
    return next((file for file in either if file.is_file() and not is_installed(file)), None)


MAX_SEARCHED_PARENTS = 2  # parent folders: the script may be in the project's root, the file in a package
MAX_FOLDER_FILES = 40  # Python files in a searched folder; a folder of more is a library's
MAX_SEARCHED_FILE_BYTES = 200_000  # of a searched file; a script is smaller
MAX_CALLERS = 3  # interpreted for one file
MAX_INTERMEDIATE_FILES = 8  # files that import it and only define something
ROOT_MARKERS = frozenset({".git", "pyproject.toml", "setup.py", "setup.cfg"})  # mark a project's root folder
_TEST_FILE = re.compile(r"(?:test_.*|.*_test|conftest|setup)\.py\Z")  # tests train nothing
_TOP_LEVEL_ACTION = re.compile(rb"^(?:for\b|while\b|with\b|if\s+__name__\b|\w[\w.]*\()", re.MULTILINE)  # runs code
_IMPORT_LINE = re.compile(rb"^[ \t]*(?:from|import)\b[^\n#]*", re.MULTILINE)


def scripts_importing(source: Source) -> list[Source]:
    """A few scripts that import ``source``, directly or through other files."""
    return _read_files([one.path for one in _files_using(source) if one.starts][:MAX_CALLERS])


def files_importing(source: Source) -> list[Source]:
    """A few files that import ``source``, directly or through other files; also those that only define something."""
    return _read_files([one.path for one in _files_using(source)])


def _read_files(paths: Iterable[str]) -> list[Source]:
    return [one for path in paths if (one := read_project_file(path)) is not None]


def _files_using(source: Source) -> list[_ScriptFile]:
    file = source.real_path
    if not os.path.isfile(file):
        return []
    found: dict[str, _ScriptFile] = {}
    todo = [file]
    while todo and len(found) < MAX_INTERMEDIATE_FILES and sum(one.starts for one in found.values()) < MAX_CALLERS:
        for one in _importing_files(todo.pop(0)):
            if one.path != file and one.path not in found:
                found[one.path] = one
                todo += [] if one.starts else [one.path]
    return list(found.values())


def _importing_files(file: str) -> list[_ScriptFile]:
    """All files that import the given one."""
    names = _import_names(file)
    several = (one for folder in _search_folders(os.path.dirname(file)) for one in _folder_scripts(folder))
    return [one for one in several if one.path != file and not names.isdisjoint(one.imports)]


def _import_names(file: str) -> frozenset[str]:
    """A file's name in imports, and its package's name if the package re-exports its names."""
    folder, name = os.path.split(file)
    stem = name.removesuffix(".py")
    package = os.path.basename(folder)
    if stem == "__init__":
        return frozenset({package})
    beginning = os.path.join(folder, "__init__.py")
    handing = read_project_file(beginning) if os.path.isfile(beginning) else None
    return frozenset({stem, package} if handing is not None and stem in handing.words else {stem})


def _search_folders(folder: str) -> list[str]:
    """A file's folder and those above it, up to the project's root."""
    found = [folder]
    while len(found) <= MAX_SEARCHED_PARENTS and not any(
        os.path.exists(os.path.join(found[-1], one)) for one in ROOT_MARKERS
    ):
        above = os.path.dirname(found[-1])
        if above == found[-1]:
            break
        found.append(above)
    return found


class _ScriptFile(Struct, frozen=True):
    """A file, the words in its imports, and whether running it does something."""

    path: str
    imports: frozenset[str]
    starts: bool


@functools.lru_cache(maxsize=64)
def _folder_scripts(folder: str) -> tuple[_ScriptFile, ...]:
    """The scripts of a folder; empty if there are so many that it is a library's."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    except OSError:
        return ()
    if len(names) > MAX_FOLDER_FILES:
        return ()
    return tuple(_inspect_file(os.path.join(folder, name)) for name in names if not _TEST_FILE.match(name))


def _inspect_file(path: str) -> _ScriptFile:
    text = _file_bytes(path)
    imports = ascii_words(b"\n".join(_IMPORT_LINE.findall(text))) if text else frozenset()
    return _ScriptFile(os.path.realpath(path), imports, _TOP_LEVEL_ACTION.search(text) is not None)


def _file_bytes(path: str) -> bytes:
    try:
        if os.path.getsize(path) > MAX_SEARCHED_FILE_BYTES:
            return b""
        with open(path, "rb") as opened:
            return opened.read()
    except OSError:
        return b""
