"""Documents that fail tests: links lead somewhere, and generated pages say what the program does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    "profile/auxiliary_ops.py",
    "script/properties/repeatable_functions.py",
    "lint-corpus.md",
}


def test_nothing_recommends_a_package_that_nobody_maintains() -> None:
    source = ROOT / "src/slowtrain"
    pages = {str(file.relative_to(source)): file for file in source.rglob("*.py")}
    pages |= {str(file.relative_to(ROOT / "docs")): file for file in (ROOT / "docs").rglob("*.md")}
    named = {name for name, file in pages.items() if UNMAINTAINED.search(file.read_text(encoding="utf-8"))}
    assert named - RECOGNISED == set()
