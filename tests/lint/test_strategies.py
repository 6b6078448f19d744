"""Keras 3's ``fit`` under a strategy of several workers, which fails: ``lint``, ``run`` and ``doctor`` say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slowtrain.cli import _answers
from slowtrain.machine.checks.library_checks import check_builds
from slowtrain.machine.host import environment_variables
from slowtrain.model.inspections import CheckState

from . import spotted

CAUSE = "machine/library-mismatch"
MODEL = """
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
"""
FIT = "model.fit(x, y, epochs=3)\n"
IMPORTS = "import keras\nimport tensorflow as tf\n"
MADE = "strategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
OLDER = "strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()\n"


@pytest.mark.parametrize(
    "text",
    [
        IMPORTS + MADE + MODEL + FIT,
        IMPORTS + OLDER + MODEL + FIT,
        "import tensorflow as tf\nfrom tensorflow import keras\n" + MADE + MODEL + FIT,
        "import keras\nfrom tensorflow.distribute import MultiWorkerMirroredStrategy\n"
        "strategy = MultiWorkerMirroredStrategy()\n" + MODEL + FIT,
    ],
)
def test_seen_in_a_script(text: str) -> None:
    assert [one.cause for one in spotted.seen(text)].count(CAUSE) == 1


@pytest.mark.parametrize(
    "text",
    [
        IMPORTS + MADE.replace("MultiWorker", "") + MODEL + FIT,  # one host
        IMPORTS.replace("import keras", "import tf_keras as keras") + MADE + MODEL + FIT,
        "import os\nos.environ['TF_USE_LEGACY_KERAS'] = '1'\n" + IMPORTS + MADE + MODEL + FIT,
        IMPORTS + MADE + MODEL + "for batch in data:\n    strategy.run(step, (batch,))\n",  # a loop of its own
        IMPORTS + MADE + MODEL + "scaler.fit(x)\nstrategy.run(step, (x,))\n",  # another library's fit
        IMPORTS + "# MultiWorkerMirroredStrategy is for later\n" + MODEL + FIT,
    ],
)
def test_not_seen_where_it_works(text: str) -> None:
    assert CAUSE not in [one.cause for one in spotted.seen(text)]


CLUSTER = json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}})
ALONE = json.dumps({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TF_CONFIG", "TF_USE_LEGACY_KERAS", "KERAS_BACKEND", "KERAS_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(environment_variables, "keras_version", lambda environ: "3.15.1")
    file = tmp_path / "train.py"
    file.write_text(IMPORTS + MADE + MODEL + FIT)
    return file


def test_run_says_so_before_the_script_begins(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", CLUSTER)
    said = _answers.known_failure(str(script), module=False)
    assert said is not None
    assert said.startswith(f"{script}:3: fit of Keras 3")
    assert "\n" not in said
    monkeypatch.chdir(script.parent)
    assert (_answers.known_failure("train", module=True) or "").startswith("train.py:3: ")


def test_run_says_nothing_where_it_works(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", ALONE)
    assert _answers.known_failure(str(script), module=False) is None
    monkeypatch.setenv("TF_CONFIG", CLUSTER)
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert _answers.known_failure(str(script), module=False) is None
    monkeypatch.delenv("KERAS_BACKEND")
    monkeypatch.setattr(environment_variables, "keras_version", lambda environ: "2.15.0")
    assert _answers.known_failure(str(script), module=False) is None


@pytest.mark.parametrize("text", ["", "def broken(", "x = 1\n", MADE + "("])
def test_run_leaves_other_scripts_alone(script: Path, text: str) -> None:
    script.write_text(text)
    assert _answers.known_failure(str(script), module=False) is None


@pytest.mark.parametrize(
    ("config", "keras", "backend", "told"),
    [(CLUSTER, "3.15.1", "tensorflow", True), (ALONE, "3.15.1", "tensorflow", False),
     (CLUSTER, "2.15.0", "tensorflow", False),
     (CLUSTER, "3.15.1", "jax", False), (CLUSTER, None, "tensorflow", False), ("{", "3.15.1", "tensorflow", False),
     ('{"cluster": []}', "3.15.1", "tensorflow", False), (None, "3.15.1", "tensorflow", False)],
)  # fmt: skip
def test_the_doctor_notes_it(config: str | None, keras: str | None, backend: str, told: bool) -> None:
    variables = {"TF_CONFIG": config} if config is not None else {}
    facts = {"environment": variables, "keras_version": keras, "keras_backend": backend}
    found = [check for check in check_builds(facts) if check.name == "workers"]
    assert [check.state for check in found] == ([CheckState.NOTED] if told else [])
    assert all("2 workers" in check.says and "Keras 3.15.1" in check.says for check in found)
