"""Documents that fail tests: links lead somewhere, and generated pages say what the program does."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import test_layers

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_links_lead_to_a_file() -> None:
    links = [
        (page, target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if "://" not in target
    ]
    assert links
    assert [f"{page.name} links to {target}" for page, target in links if not (page.parent / target).exists()] == []


@pytest.mark.skipif(not (ROOT / "docs/cli.md").exists(), reason="no generated pages yet: make docs")
def test_generated_pages_are_current() -> None:
    check = [sys.executable, str(ROOT / "docs/generate.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_target_of_make_is_listed_in_its_help() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE).group(1).split())  # type: ignore[union-attr]
    assert phony == set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))


UNMAINTAINED = re.compile(r"horovod|ffcv|tensorflow[-_]io\b|tensorflow[-_]addons", re.IGNORECASE)
# Names that scripts of others have in them, which are recognised and not recommended.
RECOGNISED = {
    "capture/process/recorder_setup.py",
    "profile/host_reasons.py",
    "script/properties/repeatable_functions.py",
    "lint-corpus.md",
}


def test_nothing_recommends_a_package_that_nobody_maintains() -> None:
    source = ROOT / "src/slowtrain"
    pages = {str(file.relative_to(source)): file for file in source.rglob("*.py")}
    pages |= {str(file.relative_to(ROOT / "docs")): file for file in (ROOT / "docs").rglob("*.md")}
    named = {name for name, file in pages.items() if UNMAINTAINED.search(file.read_text(encoding="utf-8"))}
    assert named - RECOGNISED == set()


ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src/slowtrain"


def architecture_tree() -> list[str]:
    """The paths in the tree of docs/architecture.md. Two spaces of indentation are one level."""
    tree = ARCHITECTURE.partition("<!-- tree -->\n")[2].partition("<!-- end -->")[0]
    folder, paths = "", []
    for line in tree.splitlines():
        level, names = (len(line) - len(line.lstrip()) - 4) // 2, re.findall(r"(?<!\S)[\w.]+(?:/|\.py)(?!\S)", line)
        assert names, f"no path in {line!r}"
        paths += [name if level == 0 else f"{folder}{name}" for name in names]
        folder = names[0] if level == 0 else folder
    return paths


@pytest.mark.parametrize("path", architecture_tree())
def test_the_tree_of_the_architecture_exists(path: str) -> None:
    assert (PACKAGE / path).is_dir() if path.endswith("/") else (PACKAGE / path).is_file()


def test_the_tree_of_the_architecture_has_every_package_and_module() -> None:
    there = {f"{f.name}/" for f in PACKAGE.iterdir() if (f / "__init__.py").is_file()}
    there |= {f.name for f in PACKAGE.glob("*.py") if not f.name.startswith("__")}
    assert there - set(architecture_tree()) == set()


def names_in(file: Path) -> set[str]:
    """What a module defines: functions, classes, ``Class.method``."""
    found = set()
    for node in ast.parse(file.read_bytes()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


NAMED = re.compile(r"(?<![\w/])[a-z0-9_/]+\.(?:py|c)\b(?::[\w.]*\w)?")


@pytest.mark.parametrize("named", sorted(set(NAMED.findall(ARCHITECTURE))))
def test_modules_and_functions_of_the_architecture_exist(named: str) -> None:
    path, _, name = named.partition(":")
    file = next((f for f in (PACKAGE / path, ROOT / path) if f.is_file()), None)
    assert file is not None, f"docs/architecture.md names {path}"
    assert not name or name in names_in(file), f"{path} has no {name}"


def test_contributing_has_the_ranks_of_the_layers() -> None:
    rows = re.findall(r"^\| (-?\d+) \| (.*) \|$", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    written = {name: int(rank) for rank, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert written == {name: rank for name, rank in test_layers.RANKS.items() if name != "__main__"}
