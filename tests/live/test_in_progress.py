"""``slowtrain watch`` without a folder: the run that goes on, wherever it was started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slowtrain.cli import watch
from slowtrain.errors import InputError
from slowtrain.machine.host import host_facts
from slowtrain.recording import recording_folder

Begin = Callable[[str], Path]


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Begins runs, each with a process of ours in a drawn /proc that has its file open to write."""
    proc = tmp_path / "proc"
    monkeypatch.setattr(host_facts, "PROC_FOLDER", proc)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def begin(where: str) -> Path:
        folder = tmp_path / where
        folder.mkdir(parents=True)
        (folder / recording_folder.RECORDING_FILE).write_bytes(b"")
        (folder / recording_folder.LAUNCH_FILE).write_text("{}")
        entry = proc / str(100 + len(list(proc.glob("*"))))
        for part in ("fd", "fdinfo"):
            (entry / part).mkdir(parents=True)
        (entry / "fd" / "7").symlink_to(folder / recording_folder.RECORDING_FILE)
        (entry / "fdinfo" / "7").write_text("pos:\t0\nflags:\t02100002\nmnt_id:\t29\n")
        return folder

    return begin


def test_one_that_was_started_elsewhere(begun: Begin) -> None:
    assert watch.run_in_progress() is None
    folder = begun("project/slowtrain-runs/train-1")
    assert watch.run_in_progress() == folder
    (folder / recording_folder.LAUNCH_FILE).write_text('{"end_ns": 5}')  # what it forked may live on with its file open
    assert watch.run_in_progress() is None


def test_what_goes_on_here_comes_first(begun: Begin) -> None:
    begun("project/slowtrain-runs/train-1")
    begun("here/slowtrain-runs/train-2")
    assert watch.run_in_progress() == Path("slowtrain-runs/train-2")


def test_of_several_it_says_what_to_type(begun: Begin) -> None:
    folders = [begun("project/slowtrain-runs/train-1"), begun("my data/train-2")]
    with pytest.raises(InputError, match="2 of your runs are in progress") as raised:
        watch.run_in_progress()
    assert f"slowtrain watch {folders[0]} (process 100)" in str(raised.value)
    assert f"slowtrain watch '{folders[1]}' (process 101)" in str(raised.value)


def test_a_file_that_is_only_read_is_no_run(begun: Begin, tmp_path: Path) -> None:
    begun("project/slowtrain-runs/train-1")
    (tmp_path / "proc/100/fdinfo/7").write_text("pos:\t0\nflags:\t02100000\nmnt_id:\t29\n")
    assert watch.run_in_progress() is None
