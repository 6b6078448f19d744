"""``slowtrain diagnose`` as a user types it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slowtrain.cli import main
from slowtrain.recording import recording_folder

TRACE = Path(__file__).parent.parent / "trace" / "data" / "v100.xplane.pb"


@pytest.mark.parametrize("recorded", [True, False])
def test_a_recordings_folder_is_said_to_hold_more_than_its_window(
    recorded: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(TRACE, tmp_path)
    if recorded:
        (tmp_path / recording_folder.RECORDING_FILE).touch()
    assert main(["diagnose", str(tmp_path)]) == 0
    assert ("slowtrain report" in capsys.readouterr().out) == recorded
