"""``slowtrain rate`` on the scripts of the clinic whose label says what it must answer."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]

CLINIC = Path(__file__).parents[2] / "clinic"
MIN_TIMES_FEWER = 2.0  # from which on another rate is a finding


def labelled_cases() -> list[Any]:
    if not CLINIC.is_dir():
        return []
    sys.path.insert(0, str(CLINIC))
    try:
        case_files = importlib.import_module("case_files")
    finally:
        sys.path.remove(str(CLINIC))
    return [case for case in case_files.list_cases() if "rate" in case.label]


@pytest.mark.parametrize("case", labelled_cases(), ids=lambda case: case.name)
def test_the_answer_is_that_of_the_label(case: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slowtrain", "rate", "--json", str(tmp_path / "rate.json"), str(case.script)]
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=700, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads((tmp_path / "rate.json").read_text(encoding="utf-8"))
    assert answer["complete"]
    gain = answer["gain"]
    is_finding = gain is not None and gain["times"] >= MIN_TIMES_FEWER
    if case.label["rate"] == "right":
        assert not is_finding
    else:
        assert is_finding
        assert (gain["rate"] > answer["rate"]) is (case.label["rate"] == "too small")
