"""Measures of the code's shape: size, import cycles, what a cause reaches, names. ``make shape`` prints them.

Each measure has a limit, which ``test_shape.py`` holds, and a target. Lower a limit when the measure falls; never
raise one without a page in ``docs/decisions/``. Two more measures need a clock: ``make bench-lint`` and ``make test``.
"""

from __future__ import annotations

import ast
import functools
import re
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
PACKAGE = SOURCES / "slowtrain"

# Words that end like a participle and are none.
NOUNS_IN_ED = frozenset({"bed", "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"})
OTHER_PARTICIPLES = frozenset(
    "begun bound bought broken brought built cast chosen cut dealt done drawn driven fed felt found frozen given gone "
    "grown held hidden hung kept known laid left lent lost made meant met paid put read run said seen sent set shown "
    "shut spent split spoken spread stood stuck sunk taken taught thrown told torn understood won worn written".split()
)
ADVERBS = frozenset(
    "about above across again ahead alike alone already always anew apart around aside asides away back backwards "
    "before behind below beneath beside besides between beyond down elsewhere enough ever everywhere far further hence "
    "here home inside instead later likewise meanwhile near nearly never next now off often on once only out outside "
    "over quickly quietly rather since slowly sometimes soon still surely there thereby throughout thus together too "
    "twice under until up usually well whole within without yet".split()
)


@dataclass(frozen=True)
class Measure:
    """One measure: its value today, the limit that a test holds, and the target."""

    name: str
    value: float
    limit: float
    target: float


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Dotted name -> syntax tree of each module of the package."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        if file.parent.name == "examples":  # scripts of users, read by the causes' tests
            continue
        parts = file.relative_to(SOURCES).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(file.read_bytes())
    return found


def imported_modules(name: str) -> Iterator[str]:
    """The modules of ours that a module imports anywhere, for type checking alone too."""
    known = modules()
    for node in ast.walk(known[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                target = full if full in known else node.module
                if target in known and target != name:
                    yield str(target)


@functools.cache
def import_graph() -> dict[str, frozenset[str]]:
    return {name: frozenset(imported_modules(name)) - {name} for name in modules()}


def reachable(starts: Iterable[str]) -> set[str]:
    """The modules that are imported from these, directly or not; these included."""
    graph, seen, waiting = import_graph(), set[str](), list(starts)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen


def import_cycles() -> list[set[str]]:
    """Groups of modules that import each other in a circle."""
    graph = import_graph()
    below = {name: reachable(graph[name]) for name in graph}
    found: list[set[str]] = []
    for name in graph:
        if name in below[name] and not any(name in group for group in found):
            found.append({other for other in below[name] if name in below[other]})
    return found


def cause_modules() -> dict[str, list[str]]:
    """Cause id -> its modules. A cause is a file or a folder inside the folder of its family."""
    found: dict[str, list[str]] = {}
    for name in modules():
        parts = name.split(".")
        if len(parts) > 3 and parts[1] == "causes":
            found.setdefault(f"{parts[2]}/{parts[3].replace('_', '-')}", []).append(name)
    return found


def detecting_modules(own: Iterable[str]) -> list[str]:
    """The modules of a cause that find, explain and price it: all but ``lint`` and ``fix``, which read the text.

    ``Cause.folder_module`` imports those two by name, and only for a file that is checked or a finding that is cured.
    """
    return [name for name in own if name.rpartition(".")[2] not in ("lint", "fix")]


def line_count(names: Iterable[str]) -> int:
    files = [SOURCES.joinpath(*name.split(".")) for name in names]
    return sum(
        len((file / "__init__.py" if file.is_dir() else file.with_suffix(".py")).read_bytes().splitlines())
        for file in files
    )


def places_naming_causes() -> list[str]:
    """Strings outside causes/ that are a cause's id; docstrings and tables of the schema are not counted."""
    ids = set(cause_modules())
    found = []
    for name, tree in modules().items():
        if name.startswith("slowtrain.causes"):
            continue
        found += [
            f"{name}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value in ids
        ]
    return found


def function_names() -> list[str]:
    """Of all functions and methods; those that Python itself calls (``__enter__``) are left out."""
    return [
        node.name.strip("_")
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and not (node.name.startswith("__") and node.name.endswith("__"))
    ]


def is_bare(name: str) -> bool:
    """Whether a name is one participle or adverb, which says neither what it holds nor what it does."""
    word = name.strip("_")
    if not re.fullmatch("[a-z]+", word):
        return False
    participle = word.endswith("ed") and word not in NOUNS_IN_ED
    return participle or word in OTHER_PARTICIPLES or word in ADVERBS


def python_lines(folder: Path) -> int:
    files = [file for file in folder.rglob("*.py") if file.parent.name != "examples"]
    return sum(len(file.read_bytes().splitlines()) for file in files)


def clinic_megabytes() -> float:
    files = [file for file in (ROOT / "clinic").rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    return sum(file.stat().st_size for file in files) / 1e6


def measures() -> list[Measure]:
    names = function_names()
    reached = [reachable(detecting_modules(own)) for own in cause_modules().values()]
    share = 100 / len(names)
    return [
        Measure("lines of Python in src/slowtrain", python_lines(PACKAGE), 101_100, 60_000),
        Measure("modules", len(modules()), 602, 400),
        Measure("modules in import cycles", sum(map(len, import_cycles())), 0, 0),
        Measure("modules a cause reaches, median", statistics.median(map(len, reached)), 36, 45),
        Measure("lines a cause reaches, median", statistics.median(map(line_count, reached)), 7_200, 9_000),
        Measure("places outside causes/ that name a cause", len(places_naming_causes()), 0, 0),
        Measure("functions whose name is one word, %", share * sum("_" not in n for n in names), 16.5, 35),
        Measure("functions named by a participle or adverb, %", share * sum(map(is_bare, names)), 0.3, 0),
        Measure("lines of tests", python_lines(ROOT / "tests"), 52_450, 35_000),
        Measure("clinic, MB", clinic_megabytes(), 3.1, 3),
        Measure("lines of the changelog", len((ROOT / "CHANGELOG.md").read_bytes().splitlines()), 60, 60),
    ]


def main() -> None:
    print(f"{'measure':<48}{'today':>10}{'limit':>10}{'target':>10}")
    for one in measures():
        print(f"{one.name:<48}{round(one.value, 1):>10,}{one.limit:>10,}{one.target:>10,}")
    whole = [reachable(own) for own in cause_modules().values()]
    reached = f"{statistics.median(map(len, whole)):,} modules, {statistics.median(map(line_count, whole)):,} lines"
    print(f"a cause with its lint and fix reaches, median: {reached}")
    for group in import_cycles():
        print("cycle:", ", ".join(sorted(group)))


if __name__ == "__main__":
    main()
