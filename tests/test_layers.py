"""What may import what, and who may print. The table is in CONTRIBUTING.md.

The rules are read from the source text, so that an import inside a function counts too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import slowtrain

from . import shape

PACKAGE = Path(slowtrain.__file__).parent

# A unit (a module or folder directly below the package) may import units of lower ranks only.
RANKS = {
    "values": -1,
    "patterns": -1,
    "model": 0,
    "errors": 0,
    "number_text": 0,
    "cause_folder": 1,
    "columns": 1,
    "recording": 2,
    "profile": 2,
    "trace": 3,
    "machine": 3,
    "oom": 3,
    "memory": 4,
    "whatif": 4,
    "script": 4,
    "source": 5,
    "pricing": 5,
    "compare": 5,
    "causes": 6,
    "diagnose": 7,
    "lint": 7,
    "capture": 7,
    "report": 7,
    "doctor": 8,
    "checkup": 9,
    "verify": 10,
    "watch": 10,
    "monitor": 11,
    "cli": 11,
    "__main__": 12,
}
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


def child(package: str, module: str) -> str:
    """The file or folder of a package to which a module belongs."""
    return module.removeprefix(package).removeprefix(".").split(".")[0] or "__init__"


@pytest.mark.parametrize("package", sorted({module.rpartition(".")[0] for module in shape.modules()} - {""}))
def test_parts_of_a_package_do_not_import_each_other_in_a_circle(package: str) -> None:
    below: dict[str, set[str]] = {}
    for module, imported in shape.import_graph().items():
        if f"{module}.".startswith(f"{package}."):
            mine = below.setdefault(child(package, module), set())
            mine |= {child(package, other) for other in imported if f"{other}.".startswith(f"{package}.")} - {
                child(package, module)
            }
    while free := [part for part, others in below.items() if not others & set(below)]:
        for part in free:
            del below[part]
    assert not below, f"these parts of {package} import each other: {sorted(below)}"


@each_file
def test_a_report_sees_the_nouns_only(name: str) -> None:
    if unit(name) == "report":
        seen = {parts[0] for _, parts in ours(tree(name))}
        assert seen <= {"report", "model", "number_text", "values"}


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
