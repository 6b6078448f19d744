"""What may import what, and who may print. The picture is in CONTRIBUTING.md.

The rules are read from the source text, so that an import inside a function counts too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import slowtrain

PACKAGE = Path(slowtrain.__file__).parent

# A unit (a module or folder directly below the package) may import units of lower ranks only.
RANKS = {
    "model": 0,
    "errors": 0,
    "figures": 0,
    "values": -1,
    "patterns": -1,
    "files": 1,
    "cause_folder": 1,
    "dumps": 3,
    "trace": 2,
    "machine": 3,
    "whatif": 3,
    "pricing": 4,
    "memory": 3,
    "source": 3,
    "causes": 4,
    "compare": 4,
    "diagnose": 5,
    "lint": 5,
    "capture": 5,
    "report": 5,
    "sheet": 6,
    "checkup": 7,
    "verify": 8,
    "watch": 8,
    "monitor": 9,
    "cli": 9,
    "__main__": 10,
}
# The same inside source/: its own text, edits of it, what it says, what cures it, what lint sees.
SOURCE_RANKS = {"trees": 0, "newer": 0, "__init__": 1, "edits": 2, "reading": 3, "cures": 4, "spots": 5}
FRAMEWORKS = {"tensorflow", "keras", "tf_keras"}
# The examples of causes are scripts of users.
FILES = {str(f.relative_to(PACKAGE)): f for f in sorted(PACKAGE.rglob("*.py")) if f.parent.name != "examples"}
MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 60

each_file = pytest.mark.parametrize("name", FILES)


def tree(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_bytes(), filename=name)


def unit(name: str) -> str:
    """The unit to which a file belongs: its folder below the package, or its own name."""
    return Path(name).parts[0].removesuffix(".py")


def imports(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything that is imported, wherever it stands."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute here"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def ours(module: ast.Module) -> Iterator[tuple[int, list[str]]]:
    """Line and the parts below ``slowtrain`` of every import of ours but the version."""
    for line, name in imports(module):
        first, *rest = name.split(".")
        if first == "slowtrain" and rest != ["__version__"]:
            yield line, rest


def test_every_unit_has_a_rank() -> None:
    units = {unit(name) for name in FILES} - {"__init__"}
    assert units <= set(RANKS), "a new module or folder needs its place in RANKS"


@each_file
def test_imports_point_down(name: str) -> None:
    me = unit(name)
    for line, parts in ours(tree(name)):
        assert parts, f"{name}:{line}: import the module that is meant, not slowtrain"
        assert me != "__init__", f"{name}:{line}: slowtrain itself imports nothing"
        if parts[0] != me:
            assert RANKS[parts[0]] < RANKS[me], f"{name}:{line}: {me} may not import {parts[0]}"


@each_file
def test_imports_inside_source_point_down(name: str) -> None:
    folder, *inside = Path(name).parts
    if folder != "source":
        return
    me = inside[0].removesuffix(".py")
    assert me in SOURCE_RANKS, "a new module or folder of source/ needs its place in SOURCE_RANKS"
    for line, parts in ours(tree(name)):
        if parts[0] == "source":
            # What is no folder of source/ is a name that source/__init__.py itself defines.
            other = parts[1] if len(parts) > 1 and parts[1] in SOURCE_RANKS else "__init__"
            assert other == me or SOURCE_RANKS[other] < SOURCE_RANKS[me], f"{name}:{line}: {me} may not import {other}"


@each_file
def test_a_report_sees_the_nouns_only(name: str) -> None:
    if unit(name) == "report":
        seen = {parts[0] for _, parts in ours(tree(name))}
        assert seen <= {"report", "model", "figures", "values"}


@each_file
def test_causes_do_not_know_each_other(name: str) -> None:
    parts = Path(name).parts
    if parts[0] != "causes" or len(parts) < 3:
        return
    own = [parts[1], parts[2].removesuffix(".py")]
    for line, found in ours(tree(name)):
        in_family = found[0] == "causes" and len(found) > 1 and (PACKAGE / "causes" / found[1]).is_dir()
        assert not in_family or found[1:3] == own, f"{name}:{line}: a cause imports another cause's module"


@each_file
def test_frameworks_are_imported_in_capture_only(name: str) -> None:
    if unit(name) != "capture":
        found = {full.split(".")[0] for _, full in imports(tree(name))} & FRAMEWORKS
        assert not found, f"{name} imports {found}"


@each_file
def test_only_the_command_line_prints_and_exits(name: str) -> None:
    if unit(name) in ("cli", "__main__"):
        return
    forbidden = {"print", "exit", "quit", "SystemExit", "sys.exit", "os._exit", "sys.stdout", "sys.stderr"}
    for node in ast.walk(tree(name)):
        if isinstance(node, (ast.Name, ast.Attribute)):
            if ast.unparse(node) == "os._exit" and name == "capture/sandbox/probe.py":
                continue  # a probe ends in the middle of the user's script, so that nothing of its end happens
            assert ast.unparse(node) not in forbidden, f"{name}:{node.lineno}: {ast.unparse(node)} belongs in cli/"


@each_file
def test_files_and_functions_fit_the_reader(name: str) -> None:
    assert len(FILES[name].read_text(encoding="utf-8").splitlines()) <= MOST_FILE_LINES
    for node in ast.walk(tree(name)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= MOST_FUNCTION_LINES, f"{name}:{node.lineno}: {node.name} has {lines} lines"
