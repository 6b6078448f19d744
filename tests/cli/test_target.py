"""A module that is not there is told before anything runs, and none that is there is taken for that."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from slowtrain.cli import _answers
from slowtrain.errors import InputError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pk" / "runs").mkdir(parents=True)
    (tmp_path / "pk" / "__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "pk" / "mod.py").write_text("")
    (tmp_path / "pk" / "runs" / "__init__.py").write_text("")
    (tmp_path / "pk" / "runs" / "__main__.py").write_text("")
    (tmp_path / "space" / "deep").mkdir(parents=True)
    (tmp_path / "space" / "deep" / "train.py").write_text("")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "__init__.py").write_text("__path__.append('elsewhere')")
    (tmp_path / "single.py").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["pk.mod", "pk.runs", "space.deep.train", "odd.where", "single", "single.part", "json.tool", "timeit"]
)
def test_what_may_be_there_is_not_called_absent(here: Path, name: str) -> None:
    before = list(sys.path)
    assert not _answers.missing_module_part(name)
    assert sys.path == before
    assert "pk" not in sys.modules


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("pk.nomod", "pk.nomod"),
        ("nopk.mod", "nopk"),
        ("pk.no.mod", "pk.no"),
        ("pk", "pk.__main__"),
        ("space.x", "space.x"),
    ],
)
def test_a_module_that_is_not_there(here: Path, name: str, missing: str) -> None:
    with pytest.raises(InputError, match=rf"there is no module named {missing};"):
        _answers.require_runnable(name, True)
