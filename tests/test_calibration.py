"""The calibration, ``clinic/fixing.py``: what it has yet to do, and what its page says that it holds."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

CLINIC = Path(__file__).parents[1] / "clinic"


@pytest.fixture(scope="module")
def fixing() -> Any:
    if not CLINIC.exists():
        pytest.skip("the clinic is not here")
    sys.path.insert(0, str(CLINIC))
    try:
        return importlib.import_module("fixing")
    finally:
        sys.path.remove(str(CLINIC))


def script(fixing: Any, folder: Path, name: str = "a-b") -> Any:
    slow, fixed = folder / f"{name}.slow.py", folder / f"{name}.fixed.py"
    slow.write_text("x = 1\n")
    fixed.write_text("x = 2\n")
    return fixing.Script(name, slow, fixed, ["input/sequential-map"])


def asked(**options: bool) -> argparse.Namespace:
    return argparse.Namespace(**{"compare": False, "again": False, "tell": False, "anew": False, **options})


def test_it_goes_on_with_what_is_not_held_or_of_another_text(fixing: Any, tmp_path: Path) -> None:
    one = script(fixing, tmp_path)
    held = {"of": fixing.contents(one), "problem": "timed out"}
    assert fixing.due(one, {}, asked())
    assert fixing.due(one, {"problem": "timed out"}, asked())  # nobody knows of what
    assert not fixing.due(one, held, asked())
    assert fixing.due(one, held, asked(anew=True))
    assert not fixing.due(one, {}, asked(tell=True))
    for file, text in ((one.slow, "x = 3\n"), (one.fixed, "x = 4\n")):
        before = file.read_text()
        file.write_text(text)
        assert fixing.due(one, held, asked())
        file.write_text(before)
    assert not fixing.due(one, held, asked())


def test_what_was_kept_is_fixed_once_more_and_only_once(
    fixing: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = script(fixing, tmp_path)
    diff = "--- a/a_b.py\n+++ b/a_b.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    found: dict[str, Any] = {"of": fixing.contents(one), "fix": {"kept": ["c"], "diff": diff}, "budget": "3m"}
    assert not fixing.due(one, {**found, "fix": {"kept": [], "diff": ""}}, asked(again=True))
    assert fixing.due(one, found, asked(again=True))
    answers: list[dict[str, Any]] = [{"problem": "timed out"}, {"fix": {"kept": []}}, {"fix": {"kept": ["d"]}}]
    given: list[tuple[str, ...]] = []

    def slowtrain(folder: Path, *command: str) -> dict[str, Any]:
        assert (folder / "a_b.py").read_text() == "x = 2\n"
        given.append(command)
        return answers.pop(0)

    monkeypatch.setattr(fixing, "slowtrain", slowtrain)
    told = []
    for _ in range(3):
        fixing.fixed_again(one, found, seeds=False)
        told.append(fixing.second(found))
        assert not fixing.due(one, found, asked(again=True))
    assert told == ["timed out", "nothing", "d"]
    assert given[0] == ("fix", "--budget", "3m", "--json", "fix.json", "--write", "a_b.py")
    assert one.slow.read_text() == "x = 1\n"


def test_the_page_says_of_how_many_it_tells(fixing: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    monkeypatch.setattr(fixing, "CASES", tmp_path / "cases")
    own = [script(fixing, tmp_path, name) for name in ("a", "b", "c")]
    cases = [script(fixing, tmp_path / "cases", name) for name in ("d", "e")]
    said = fixing.held_of([*own, *cases], [(own[0], {})])
    assert "on 1 of the 3 slow scripts of the clinic and on none of the 2 cases" in said
    said = fixing.held_of([*own, *cases], [(one, {}) for one in (*own, cases[0])])
    assert "on 3 of the 3 slow scripts of the clinic and on 1 of the 2 cases" in said
    assert "not at hand" in fixing.held_of(own, [])


def test_a_cure_that_nothing_was_foretold_of_has_its_row(fixing: Any, tmp_path: Path) -> None:
    """Training steps on one side and calls of predict on the other: only whole runs are compared."""
    kept = {
        "cause": "host/predict-in-loop", "kept": True, "predicted": None, "scope": None,
        "verdict": {"speedup": 3.0, "low": 2.0, "high": 4.5},
    }  # fmt: skip
    found = {"attempts": [kept], "fix": {"speedup": 3.0, "loss": "same", "kept": ["host/predict-in-loop"]}}
    assert fixing.row(script(fixing, tmp_path), found)[2:6] == [
        "host/predict-in-loop",
        "-",
        "3.00 (2.00 to 4.50)",
        "3.00",
    ]
