"""What may import what, and who may print. The table is in CONTRIBUTING.md.

The rules are read from the source text, so that an import inside a function counts too.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import slowtrain

from . import shape

PACKAGE = Path(slowtrain.__file__).parent

# A unit (a module or folder directly below the package) may import units of lower ranks only.
RANKS = {
    "shared": 0,
    "model": 1,
    "errors": 1,
    "number_text": 1,
    "cause_folder": 2,
    "columns": 2,
    "recording": 3,
    "profile": 3,
    "trace": 4,
    "machine": 4,
    "oom": 4,
    "memory": 5,
    "whatif": 5,
    "script": 5,
    "pricing": 6,
    "compare": 6,
    "causes": 7,
    "diagnose": 8,
    "lint": 8,
    "capture": 8,
    "report": 8,
    "doctor": 9,
    "checkup": 10,
    "verify": 11,
    "watch": 11,
    "pack": 12,
    "monitor": 13,
    "cli": 13,
    "__main__": 14,
}
FRAMEWORKS = {"tensorflow", "keras", "tf_keras"}
# The examples of causes are scripts of users.
FILES = {str(f.relative_to(PACKAGE)): f for f in sorted(PACKAGE.rglob("*.py")) if f.parent.name != "examples"}
COMMAND_LINE_NAMES = {"print", "exit", "quit", "SystemExit", "sys.exit", "os._exit", "sys.stdout", "sys.stderr"}
MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 60


def tree(name: str) -> ast.Module:
    """The syntax tree of a file. The wheel has the files of the source folder: tests/test_package.py holds that."""
    parts = ("slowtrain", *Path(name).with_suffix("").parts)
    return shape.modules()[".".join(parts[:-1] if parts[-1] == "__init__" else parts)]


def unit(name: str) -> str:
    """The unit to which a file belongs: its folder below the package, or its own name."""
    return Path(name).parts[0].removesuffix(".py")


@functools.cache
def imports(name: str) -> list[tuple[int, str]]:
    """Line and full dotted name of everything that a file imports, wherever it stands."""
    found = []
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute here"
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def ours(name: str) -> Iterator[tuple[int, list[str]]]:
    """Line and the parts below ``slowtrain`` of every import of ours but the version, in one of our files."""
    for line, full in imports(name):
        first, *rest = full.split(".")
        if first == "slowtrain" and rest != ["__version__"]:
            yield line, rest


def test_every_unit_has_a_rank() -> None:
    units = {unit(name) for name in FILES} - {"__init__"}
    assert units <= set(RANKS), "a new module or folder needs its place in RANKS"


def test_imports_point_down() -> None:
    assert [fault for name in FILES for fault in upward_imports(name)] == []


def upward_imports(name: str) -> Iterator[str]:
    me = unit(name)
    for line, parts in ours(name):
        if not parts:
            yield f"{name}:{line}: import the module that is meant, not slowtrain"
        elif me == "__init__":
            yield f"{name}:{line}: slowtrain itself imports nothing"
        elif parts[0] != me and RANKS[parts[0]] >= RANKS[me]:
            yield f"{name}:{line}: {me} may not import {parts[0]}"


def child(package: str, module: str) -> str:
    """The file or folder of a package to which a module belongs."""
    return module.removeprefix(package).removeprefix(".").split(".")[0] or "__init__"


def test_parts_of_a_package_do_not_import_each_other_in_a_circle() -> None:
    graph = shape.import_graph()
    packages = {module.rpartition(".")[0] for module in graph} - {""}
    circles = {package: circular_parts(package, graph) for package in sorted(packages)}
    assert {package: parts for package, parts in circles.items() if parts} == {}


def circular_parts(package: str, graph: dict[str, frozenset[str]]) -> list[str]:
    """The files and folders of a package that are left when those that import none of the others are taken away."""
    below: dict[str, set[str]] = {}
    for module, imported in graph.items():
        if f"{module}.".startswith(f"{package}."):
            mine = below.setdefault(child(package, module), set())
            mine |= {child(package, other) for other in imported if f"{other}.".startswith(f"{package}.")} - {
                child(package, module)
            }
    while free := [part for part, others in below.items() if not others & set(below)]:
        for part in free:
            del below[part]
    return sorted(below)


def test_a_report_sees_the_nouns_only() -> None:
    allowed = {"report", "model", "shared", "number_text"}
    reports = [name for name in FILES if unit(name) == "report"]
    assert [f"{name}:{line}" for name in reports for line, parts in ours(name) if parts[0] not in allowed] == []


def test_causes_do_not_know_each_other() -> None:
    """A cause may import what all families share and its own folder, and no other module of a family."""
    offenders = []
    for name in FILES:
        parts = Path(name).parts
        if parts[0] != "causes" or len(parts) < 3:
            continue
        own = [parts[1], parts[2].removesuffix(".py")]
        offenders += [f"{name}:{line}" for line, found in ours(name) if is_of_a_family(found) and found[1:3] != own]
    assert offenders == []


SCRIPT_ENGINE = tuple(f"slowtrain.script.{part}" for part in ("interpreter", "evaluators", "lint_rules", "fixes"))


def test_a_class_of_a_cause_does_not_import_the_script_engine() -> None:
    """``lint`` and ``fix`` in its folder do, which ``Cause.folder_module`` imports when they are asked."""
    reached = {cause: shape.reachable(modules[:1]) for cause, modules in shape.cause_modules().items()}
    engine = {cause: [name for name in names if name.startswith(SCRIPT_ENGINE)] for cause, names in reached.items()}
    assert reached
    assert {cause: sorted(names) for cause, names in engine.items() if names} == {}


def is_of_a_family(parts: list[str]) -> bool:
    return parts[0] == "causes" and len(parts) > 1 and (PACKAGE / "causes" / parts[1]).is_dir()


def test_frameworks_are_imported_in_capture_only() -> None:
    others = [name for name in FILES if unit(name) != "capture"]
    faults = [
        f"{name}:{line}: {full}" for name in others for line, full in imports(name) if full.split(".")[0] in FRAMEWORKS
    ]
    assert faults == []


def test_only_the_command_line_prints_and_exits() -> None:
    others = [name for name in FILES if unit(name) not in ("cli", "__main__")]
    assert [f"{name}:{line}: {used}" for name in others for line, used in command_line_names(name)] == []


def command_line_names(name: str) -> Iterator[tuple[int, str]]:
    """Line and name of what only the command line may use."""
    for node in ast.walk(tree(name)):
        if isinstance(node, (ast.Name, ast.Attribute)):
            used = ast.unparse(node)
            # A probe ends in the middle of the user's script, so that nothing of its end happens.
            if used in COMMAND_LINE_NAMES and (used, name) != ("os._exit", "capture/sandbox/probe.py"):
                yield node.lineno, used


def test_files_and_functions_fit_the_reader() -> None:
    assert [fault for name in FILES for fault in oversized_parts(name)] == []


def oversized_parts(name: str) -> Iterator[str]:
    lines = len(FILES[name].read_text(encoding="utf-8").splitlines())
    if lines > MOST_FILE_LINES:
        yield f"{name} has {lines} lines"
    for node in ast.walk(tree(name)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MOST_FUNCTION_LINES:
                yield f"{name}:{node.lineno}: {node.name} has {lines} lines"
