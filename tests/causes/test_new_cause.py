"""``make cause``: what it writes is a cause that the catalogue could import, and whose tests fail."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from slowtrain import cause_folder
from slowtrain.causes import SECTIONS

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "clinic/new_cause.py"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    if not SCRIPT.exists():
        pytest.skip("the clinic is not here")
    spec = importlib.util.spec_from_file_location("new_cause", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "CAUSES", tmp_path / "causes")
    monkeypatch.setattr(module, "TESTS", tmp_path / "tests")
    (tmp_path / "causes/host").mkdir(parents=True)
    (tmp_path / "causes/host/__init__.py").touch()
    return module.write


def test_it_writes_every_part_of_a_cause(write, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    files = write("host/slow-thing")
    folder = tmp_path / "causes/host/slow_thing"
    for file in files:
        if file.suffix == ".py":
            ast.parse(file.read_text())
    page = cause_folder.read_page(folder)
    assert [heading for heading in SECTIONS if heading not in page] == []
    assert len(cause_folder.read_traces(folder, "fires")) == len(cause_folder.read_traces(folder, "quiet")) == 1
    assert len(cause_folder.read_examples(folder)) == 1
    assert "class SlowThing(Cause[Evidence]):" in (folder / "__init__.py").read_text()
    assert (tmp_path / "tests/test_slow_thing.py").is_file()


@pytest.mark.parametrize("name", ["slow-thing", "host/Slow", "host/slow_thing", "nowhere/slow-thing"])
def test_a_wrong_name_writes_nothing(write, tmp_path: Path, name: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=name.split("/", maxsplit=1)[0]):
        write(name)
    assert not (tmp_path / "tests").exists()


def test_a_cause_that_is_there_stays(write) -> None:  # type: ignore[no-untyped-def]
    write("host/slow-thing")
    with pytest.raises(FileExistsError):
        write("host/slow-thing")
