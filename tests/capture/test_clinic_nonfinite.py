"""Scripts of the clinic whose loss goes bad, under ``slowtrain run --on-nonfinite``: op, layer and line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slowtrain.trace.loading import recording_trace

pytestmark = pytest.mark.tensorflow

CASES = Path(__file__).parents[2] / "clinic" / "cases" / "numerics" / "nonfinite-loss"


def stopped(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What running the first bad step again found, and the answer of the report."""
    script, answer = CASES / name / "script.py", folder / "answer.json"
    if not script.is_file():
        pytest.skip("the clinic is not here")
    options = ["--no-windows", "--on-nonfinite", "stop", "--out", str(folder / "runs"), "--json", str(answer)]
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "-m", "slowtrain", "run", *options, str(script)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 130, done.stderr[-2000:]
    (recording,) = (folder / "runs").iterdir()
    (event,) = recording_trace.load_recording(recording).events_of("checked")
    return dict(event.data), json.loads(answer.read_text(encoding="utf-8"))


def line(name: str, text: str) -> int:
    rows = (CASES / name / "script.py").read_text(encoding="utf-8").splitlines()
    return next(i for i, row in enumerate(rows, 1) if text in row)


@pytest.mark.slow
def test_a_rate_that_is_too_high_overflows(tmp_path: Path) -> None:
    found, answer = stopped(tmp_path, "pump_forecast")
    origin = found["origin"]
    assert origin["kind"] == "op"
    assert max(abs(origin["inputs"][0]["least"]), abs(origin["inputs"][0]["most"])) > 1e6
    assert origin["site"][1] == line("pump_forecast", "model.fit(")
    (cause,) = [d for d in answer["diagnoses"] if d["cause"] == "numerics/nonfinite-loss"]
    assert f"from step {found['step']:,} on" in cause["evidence"]["says"]


@pytest.mark.slow
def test_a_logarithm_without_a_floor_in_a_loop_that_runs_op_by_op(tmp_path: Path) -> None:
    found, _ = stopped(tmp_path, "bike_counts")
    origin = found["origin"]
    assert (found["step"], origin["type"], origin["site"][1]) == (1, "Log", line("bike_counts", "math.log"))
    assert origin["inputs"][0]["zero"] > 0


def test_a_spread_of_nothing_is_divided_by(tmp_path: Path) -> None:
    found, _ = stopped(tmp_path, "ecg_segments")
    origin = found["origin"]
    assert (origin["type"], origin["layer"]) == ("RealDiv", "standardize")
    assert origin["site"][1] == line("ecg_segments", "tf.sqrt(variance)")
    assert found["step"] > 10
