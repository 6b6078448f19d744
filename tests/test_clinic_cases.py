"""The cases of the clinic are well formed, and a patch that does not fit is refused."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

CLINIC = Path(__file__).parents[1] / "clinic"


@pytest.fixture(scope="module")
def case_files() -> Any:
    if not CLINIC.is_dir():
        pytest.skip("the clinic is not here")
    sys.path.insert(0, str(CLINIC))
    try:
        return importlib.import_module("case_files")
    finally:
        sys.path.remove(str(CLINIC))


def test_a_case_lies_in_the_folder_of_its_first_cause(case_files: Any) -> None:
    for case in case_files.all_cases():
        expected = Path(case.causes[0] if case.causes else "healthy") / case.name
        assert case.folder.relative_to(case_files.CASES) == expected


def test_names_are_unique_within_a_platform(case_files: Any) -> None:
    for platform in (case_files.CPU, case_files.GPU):
        names = [case.name for case in case_files.list_cases(platform=platform)]
        assert names
        assert len(names) == len(set(names))


def test_labelled_lines_hold_code(case_files: Any) -> None:
    for case in case_files.all_cases():
        rows = case.script_text().splitlines()
        assert all(rows[line - 1].strip() for line in case.lines), case.name


def test_a_cure_is_a_script_of_its_own(case_files: Any) -> None:
    for case in case_files.all_cases():
        cured = case.cured_text()
        if cured is not None:
            ast.parse(cured)
            assert cured != case.script_text(), case.name


def test_a_split_and_a_set_choose_cases(case_files: Any) -> None:
    chosen = case_files.list_cases(set_name="strangers", split="regression", family="host")
    assert chosen
    assert all(case.label["set"].startswith("strangers-") for case in chosen)
    assert not case_files.list_cases(set_name="strangers", split="development")


@pytest.mark.parametrize(
    ("hunk", "expected"),
    [
        ("@@ -2 +2 @@\n-b\n+B\n", "a\nB\nc\n"),
        ("@@ -1,0 +2 @@\n+new\n", "a\nnew\nb\nc\n"),
        ("@@ -0,0 +1 @@\n+new\n", "new\na\nb\nc\n"),
        ("@@ -1,2 +1 @@\n a\n-b\n", "a\nc\n"),
        ("@@ -1 +1 @@\n-a\n+A\n@@ -3 +3 @@\n-c\n+C\n", "A\nb\nC\n"),
    ],
)
def test_a_patch_is_applied(case_files: Any, hunk: str, expected: str) -> None:
    assert case_files.patched_text("a\nb\nc\n", "--- script.py\n+++ script.py\n" + hunk) == expected


@pytest.mark.parametrize("hunk", ["@@ -2 +2 @@\n-a\n+B\n", "@@ -4 +4 @@\n-d\n", "@@ -1 +1 @@\n*a\n"])
def test_a_patch_that_does_not_fit_is_refused(case_files: Any, hunk: str) -> None:
    with pytest.raises(ValueError, match=r"patch|diff"):
        case_files.patched_text("a\nb\nc\n", "--- script.py\n+++ script.py\n" + hunk)
