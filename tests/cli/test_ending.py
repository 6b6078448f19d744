"""The process ends at once after lint: with all of its output, and its exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slowtrain.cli import main

SLOW = """\
import tensorflow as tf
ds = tf.data.Dataset.from_tensor_slices(names).map(load).batch(8)
model.fit(ds.map(lambda x: tf.py_function(work, [x], tf.float32)), epochs=9)
"""


def test_all_that_lint_says_goes_through_a_pipe(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for number in range(60):
        (tmp_path / f"train_{number}.py").write_text(SLOW)
    code = main(["lint", "--format", "json", str(tmp_path)])
    here = capfd.readouterr().out
    command = [sys.executable, "-m", "slowtrain", "lint", "--format", "json", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (code, here, "")
    assert code == 1
    assert len(here) > 1 << 14


def test_what_is_wrong_is_said_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slowtrain", "lint", str(tmp_path / "nowhere")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
