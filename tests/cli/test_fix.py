"""``slowtrain fix`` on what it cannot fix: one line, the exit code of the documentation, nothing changed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed here")
]


def fix(folder: Path, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slowtrain", "fix", *arguments],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        cwd=folder,
        input=stdin,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    match = re.fullmatch(r"slowtrain: (.*)\n", done.stderr)
    assert match, done.stderr
    return match[1]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("gone.py", None, "gone.py does not exist; give the path of a Python script"),
        ("book.ipynb", "{}", "is a notebook; convert it with `jupyter nbconvert"),
        ("fails.py", "raise ValueError('no data')", "unchanged script does not run (exit code 1: ValueError: no data)"),
        ("broken.py", "def f(:", "unchanged script does not run (exit code 1: SyntaxError"),
        ("asks.py", "input()", "EOFError: EOF when reading a line; give its input with --stdin FILE"),
        (
            "args.py",
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('data')\np.parse_args()",
            "exit code 2: args.py: error: the following arguments are required: data",
        ),
        ("killed.py", "import os\nos.kill(os.getpid(), 9)", "ended by signal 9"),
        ("exits.py", "import sys\nsys.exit(5)", "exit code 5"),
    ],
)
def test_what_does_not_run(name: str, text: str | None, said: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    done = fix(tmp_path, "--budget", "60s", name, stdin="never read\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in one_line(done)
    assert {p.name for p in tmp_path.iterdir()} <= {name, "slowtrain-runs"}
    assert text is None or (tmp_path / name).read_text() == text


@pytest.mark.parametrize("budget", ["0", "soon", "-1m", "10 days"])
def test_a_budget_that_is_none(budget: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    done = fix(tmp_path, f"--budget={budget}", "train.py")
    assert done.returncode == 2
    assert "write 90s, 10m or 1h" in one_line(done)


def test_what_the_script_prints_is_not_our_answer(tmp_path: Path) -> None:
    text = (
        "import sys\nprint('of the script')\nprint('its error', file=sys.stderr)\nassert sys.stdin.read() == 'given'\n"
    )
    (tmp_path / "train.py").write_text(text + "open('result.txt', 'w').write('x')\n")
    (tmp_path / "given.txt").write_text("given")
    done = fix(tmp_path, "--budget", "60s", "--stdin", "given.txt", "train.py")
    assert done.returncode == 0
    assert "of the script" not in done.stdout
    assert done.stderr == ""
    assert not (tmp_path / "result.txt").exists()


EAGER = """
import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Input((20,)), *[tf.keras.layers.Dense(16) for _ in range(6)]])
optimizer = tf.keras.optimizers.SGD(0.01)
x = tf.constant(np.random.rand(32, 20).astype("float32"))


def train_step(x):  # as slow as it gets
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x, training=True) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range(400):
    loss = train_step(x)
model.save_weights("model.weights.h5")
"""


CURED = EAGER.replace("def train_step", "@tf.function\ndef train_step")


@pytest.mark.bench
@pytest.mark.tensorflow
def test_a_script_is_cured_and_the_cure_can_be_taken_back(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(EAGER)
    (tmp_path / "model.weights.h5").write_text("of last week")
    done = fix(tmp_path, "--budget", "130s", "--write", "--json", "fix.json", "train.py")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "fix.json").read_text())["fix"]
    assert (found["kept"], found["outcome"], found["written"]) == (["host/eager-step"], "better", True)
    assert found["loss"] in ("same", "not measured") or found["loss"].startswith("within ")
    assert found["low"] > 1.0
    assert script.read_text() == CURED
    assert (tmp_path / "model.weights.h5").read_text() == "of last week"
    (undo,) = re.findall(r"^undo: +(git .*)$", done.stdout, re.MULTILINE)
    assert found["undo"] == undo
    for command, text in ((undo, EAGER), (found["apply"], CURED), (undo, EAGER)):
        subprocess.run(shlex.split(command), cwd="/", check=True)
        assert script.read_text() == text


@pytest.mark.parametrize("target", [["train.py"], ["-m", "train"], ["-m", "pkg.train"]])
def test_what_could_not_be_written_is_said_before_anything_is_measured(target: list[str], tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    for name in ("train.py", "other.py", "pkg/__init__.py", "pkg/train.py"):
        (tmp_path / name).write_text("raise RuntimeError('it was run')\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "other.py").write_text("print(2)\n")
    done = fix(tmp_path, "--write", *target)
    assert done.returncode == 2
    assert one_line(done) == "other.py has uncommitted changes; commit them, or give --force"
    assert not (tmp_path / "slowtrain-runs").exists()
