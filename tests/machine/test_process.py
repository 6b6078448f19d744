"""Which processes of ours have a file open to write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slowtrain.machine.host import host_facts


@pytest.mark.skipif(not host_facts.PROC_FOLDER.is_dir(), reason="there is no /proc here")
def test_who_writes_a_file_and_not_who_reads_it(tmp_path: Path) -> None:
    written, read = tmp_path / "a", tmp_path / "b"
    for folder in (written, read):
        folder.mkdir()
        (folder / "only.here").write_text("x")
    with (written / "only.here").open("r+"), (read / "only.here").open():
        assert host_facts.folders_being_written("only.here") == {written: os.getpid()}
    assert host_facts.folders_being_written("only.here") == {}


def test_nothing_is_told_where_there_is_no_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_facts, "PROC_FOLDER", tmp_path / "absent")
    assert host_facts.folders_being_written("only.here") == {}
