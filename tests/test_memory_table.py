"""Rules in proportion beside the forecasts, as clinic/memory_table.py makes them of what was run."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
CLINIC = ROOT / "clinic"


@pytest.fixture(scope="module")
def made() -> ModuleType:
    if not CLINIC.is_dir():
        pytest.skip("the clinic is not here")
    sys.path.insert(0, str(CLINIC))
    try:
        return importlib.import_module("memory_table")
    finally:
        sys.path.remove(str(CLINIC))


def row(actual: int, **other: object) -> dict[str, object]:
    return {"foretold": 90, "actual": actual, "tried": {}, "once_more": [True, True, True], **other}


def rows(text: str) -> dict[str, list[str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    return {first: rest for first, *rest in cells}


def test_a_batch_in_proportion_is_held_against_what_fitted(made: ModuleType) -> None:
    known = {
        "a/256": row(100), "a/512": row(250, tried={"200": True}),
        "b/256": row(100), "b/512": row(160, tried={"200": False}),
        "c/256": row(100), "c/512": {"foretold": 90, "tried": {}},
    }  # fmt: skip
    found = rows(made.rules(known, [256, 512]))
    assert found["largest batch under 256 MiB × 2, under 512 MiB"] == [
        "2", "1", "22.5 %", "-20.0 %", "+25.0 %", "1", "1 of 1"
    ]  # fmt: skip
    assert found["forecast, under 512 MiB"][:2] == ["2", "1"]


def test_peaks_of_small_batches_are_used_where_they_are_known_and_missed_where_not(made: ModuleType) -> None:
    peaks = {"16": 64 << 20, "32": 96 << 20}
    text = made.rules({"a/256": row(50, peaks=peaks), "b/256": row(50)}, [256])
    assert rows(text)["limit / peak of the smallest probe × its batch"] == [
        "1", "1", "28.0 %", "+28.0 %", "+28.0 %", "1", "0 of 0"
    ]  # fmt: skip


def test_answers_that_were_run_again_are_counted(made: ModuleType) -> None:
    known = {"a/256": row(100, again=[True, False]), "b/256": row(100, again=[True]), "c/256": row(100)}
    assert "Answers run again, 3 runs of 2 cells: 1 did not fit; a/256 1 of 2.\n" in made.table(known, [256])


def test_the_page_has_what_the_clinic_makes_of_its_file(made: ModuleType) -> None:
    known = json.loads((ROOT / "docs/results/memory.json").read_text())
    page = (ROOT / "docs/memory.md").read_text(encoding="utf-8")
    for text in (made.table(known, list(made.LIMITS)), made.rules(known, list(made.LIMITS))):
        assert text in page


def test_an_answer_that_fails_in_one_circumstance_did_not_fit(made: ModuleType) -> None:
    known = {"a/256": row(100, once_more=[True, False, True]), "b/256": row(100)}
    assert "batches foretold that did not fit: **1** (a/256)." in made.table(known, [256])
