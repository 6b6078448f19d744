"""Where the modules of a project are, found as Python finds them, without importing any."""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from slowtrain.script.navigation.imported_functions import FRAMEWORKS, MAX_PARENT_FOLDERS
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

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
    given = call.args[0] if called in IMPORT_FUNCTIONS and call.args else None
    text = given.value if isinstance(given, ast.Constant) else None
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
        found = [file for path in paths if (file := _module_file(path)) is not None]
        if found:
            return found
    return []


def _module_file(path: Path) -> Path | None:
    either = (path / "__init__.py", Path(f"{path}.py"))
    return next((file for file in either if file.is_file() and not is_installed(file)), None)
