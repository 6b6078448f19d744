"""A notebook in a real kernel: a loop in ``slowtrain.record()``, a fit with ``Monitor()``, what is shown of both."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow

CELLS = (
    """
import numpy as np, keras, tensorflow as tf, slowtrain, time
x = np.random.default_rng(0).normal(size=(256, 8)).astype("float32")
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.01)
@tf.function
def train(a):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - a[:, :1]) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss
""",
    """
with slowtrain.record("runs", windows=False) as run:
    for i in range(60):
        time.sleep(0.02)  # by hand
        train(tf.constant(x[:32]))
run
""",
    """
model.compile("sgd", "mse")
monitor = slowtrain.Monitor("runs", windows=False)
model.fit(x, x[:, :1], batch_size=16, epochs=3, verbose=0, callbacks=[monitor])
monitor
""",
    "run.checkup()",
    "print(repr(float(train(tf.constant(x[:32])))))",
    """
kept = []
class Diary:
    def __init__(self):
        self.pages = []
diary = Diary()
with slowtrain.record("runs", windows=False) as leaking:
    for i in range(600):
        time.sleep(0.01)
        train(tf.constant(x[:32]))
        kept.append(np.ones(100_000, "float32"))
        diary.pages.append(np.ones(50_000, "float32"))
""",
    """
leak = next(d for d in leaking.checkup().diagnoses if d.cause == "memory/host-leak")
print(leak.evidence.says)
print([place.code for place in leak.evidence.where])
""",
)
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=150, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """What each cell gave, run by a kernel of its own."""
    for module in ("tensorflow", "ipykernel", "nbclient", "nbformat"):
        pytest.importorskip(module, reason=f"{module} is not installed here (pip install nbclient ipykernel)")
    folder = tmp_path_factory.mktemp("notebook")
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {}, "execution_count": None, "outputs": [], "source": text}
        for i, text in enumerate(CELLS)
    ]
    file = folder / "training.ipynb"
    file.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")
    env = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
        "IPYTHONDIR": str(folder / "ipython"),
    }
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(file)],
        cwd=folder, env=env, capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [cell["outputs"] for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]]


def shown(cell: list[dict[str, Any]]) -> dict[str, str]:
    """What the last line of a cell is shown as, by its kind."""
    (result,) = [o for o in cell if o["output_type"] == "execute_result"]
    return {kind: "".join(data) for kind, data in result["data"].items()}


def page(cell: list[dict[str, Any]]) -> str:
    """The report in the frame that a notebook shows."""
    found = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts" [^>]*></iframe>', shown(cell)["text/html"])
    assert found is not None
    return html.unescape(found.group(1))


def test_a_recorded_loop_is_shown_as_its_report(outputs: list[list[dict[str, Any]]]) -> None:
    report = page(outputs[1])
    assert report.lstrip().lower().startswith("<!doctype html>")
    assert "train(tf.constant(x[:32]))" in report  # the line of the cell, by its text
    assert "ipykernel_launcher" not in report
    assert shown(outputs[1])["text/plain"].startswith("<slowtrain recording ")


def test_a_monitored_fit_is_shown_as_its_report(outputs: list[list[dict[str, Any]]]) -> None:
    report = page(outputs[2])
    assert "fit" in report
    # Three epochs of sixteen, without two of warm-up and the last one of each epoch, which is no whole turn.
    assert "43 steps" in re.sub(r"<[^>]+>|\\s+", " ", report)


def test_a_checkup_is_shown_as_text_where_there_is_no_html(outputs: list[list[dict[str, Any]]]) -> None:
    assert page(outputs[3])
    assert "Where a step goes" in shown(outputs[3])["text/plain"]


def test_no_cell_prints_or_warns_of_anything_and_all_is_as_it_was(outputs: list[list[dict[str, Any]]]) -> None:
    assert not [o for cell in outputs[1:4] for o in cell if o["output_type"] == "stream"]
    (printed,) = outputs[4]
    assert float("".join(printed["text"])) > 0


def test_what_cells_keep_is_named_with_its_line(outputs: list[list[dict[str, Any]]]) -> None:
    says, where = "".join(outputs[6][0]["text"]).splitlines()
    assert "`kept` holds " in says
    assert "`diary.pages` holds " in says
    assert "kept.append(np.ones(100_000" in where
    assert "diary.pages.append(np.ones(50_000" in where
