"""The first bad step of Keras on the JAX backend: the primitive, its layer, its line and what it was given."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from slowtrain import diagnose
from slowtrain.trace.loading import recording_trace

from . import running
from .test_checked import line

FIT = """
import random, numpy as np, keras
random.seed(1); np.random.seed(1)
x = np.random.default_rng(0).normal(size=(640, 8)).astype("float32")
y = (x[:, 0] > 0).astype("float32")
{data}
def loss_of(t, p):
    {loss}
model = keras.Sequential([
    keras.layers.Input((8,)), keras.layers.Dense(8, name="hidden", use_bias=False), keras.layers.Dropout(0.2),
    keras.layers.Dense(1, activation="sigmoid", name="head", use_bias=False),
])
model.compile(keras.optimizers.SGD(0.01), loss_of, run_eagerly={eagerly})
log = model.fit(x, y, batch_size=16, epochs={epochs}, shuffle=False, verbose=0)
print([repr(v) for v in log.history["loss"]])
print("END", repr(float(keras.ops.sum(model.weights[0]))))
"""
LOGARITHM = "return -keras.ops.mean(keras.ops.log(1 - p[:, 0]) * keras.ops.reshape(1 - t, [-1]))"
MEAN = "return keras.ops.mean((keras.ops.reshape(t, [-1]) - p[:, 0]) ** 2)"
ROOT = "return keras.ops.sum(keras.ops.sqrt(keras.ops.sum((p - 0.5) ** 2, axis=1)))"


def fit(data: str = "", loss: str = MEAN, eagerly: bool = False, epochs: int = 2) -> str:
    return FIT.format(data=data, loss=loss, eagerly=eagerly, epochs=epochs)


def run(folder: Path, script: str, mode: str | None = "report") -> running.Done:
    for module in ("jax", "keras"):
        if importlib.util.find_spec(module) is None:  # not imported: Keras would look for TensorFlow
            pytest.skip(f"{module} is not installed here")
    env = {"KERAS_BACKEND": "jax", **({"SLOWTRAIN_ON_NONFINITE": mode} if mode else {})}
    return running.recorded(folder / "run", running.write(folder, script), windows=False, env=env)


def checked(done: running.Done) -> dict[str, Any]:
    trace = recording_trace.load_recording(done.folder)
    assert trace.facts.get("faults", []) == []
    (event,) = trace.events_of("checked")
    return dict(event.data)


@pytest.mark.parametrize("eagerly", [False, True])
def test_a_logarithm_of_zero(tmp_path: Path, eagerly: bool) -> None:
    script = fit("x[320:] *= 1000", LOGARITHM, eagerly=eagerly, epochs=1)
    done = run(tmp_path, script)
    assert "END" in done.out, done.err
    found = checked(done)
    origin = found["origin"]
    assert found["step"] == 21
    assert (origin["type"], origin["site"][1], origin["gradient"]) == ("log", line(script, "ops.log"), False)
    assert origin["inputs"][0]["zero"] > 0
    diagnosis = diagnose.diagnose_trace(recording_trace.load_recording(done.folder)).diagnoses
    cause = next(d for d in diagnosis if d.cause == "numerics/nonfinite-loss")
    assert "keras.ops.maximum" in cause.prescriptions[0].says


def test_the_gradient_of_a_root_at_zero(tmp_path: Path) -> None:
    script = fit("x[320:336] = 0", ROOT)
    found = checked(run(tmp_path, script))
    origin = found["origin"]
    assert found["step"] == 21
    assert (origin["of"], origin["gradient"], origin["site"][1]) == ("sqrt", True, line(script, "ops.sqrt"))


def test_numbers_that_are_none_in_the_data(tmp_path: Path) -> None:
    found = checked(run(tmp_path, fit("x[500, 3] = np.nan")))
    assert (found["step"], found["origin"]["kind"], found["origin"]["name"]) == (32, "data", "batch[0]")
    assert found["origin"]["output"]["nan"] == 1


def test_training_is_not_stopped_for_a_metric_that_is_no_number(tmp_path: Path) -> None:
    odd = "def odd(t, p):\n    return keras.ops.sum(t * 0.0) / keras.ops.sum(p * 0.0)\n"
    script = fit(odd).replace("loss_of, ", "loss_of, metrics=[odd], ")
    done = run(tmp_path, script, mode="stop")
    assert done.code == 0, done.err
    assert "END" in done.out
    assert not list(recording_trace.load_recording(done.folder).events_of("checked"))


def test_stop_ends_the_script_as_ctrl_c_does(tmp_path: Path) -> None:
    done = run(tmp_path, fit("x[500, 3] = np.nan", epochs=3000), mode="stop")
    assert done.code == 130
    assert "END" not in done.out
    assert checked(done)["stopped"]


def test_training_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    script = fit(epochs=3) + fit("x[500, 3] = np.nan", epochs=3)
    with_it = run(tmp_path / "with", script)
    without = run(tmp_path / "without", script, mode=None)
    assert with_it.code == without.code == 0
    assert with_it.out.count("END") == 2
    assert with_it.out == without.out


@pytest.mark.parametrize("eagerly", [False, True])
def test_the_state_is_looked_through_for_subnormal_numbers(tmp_path: Path, eagerly: bool) -> None:
    faint = "head = model.layers[-1]\nhead.trainable = False\nhead.kernel.assign(np.full((8, 1), 1e-40))\n"
    script = fit(eagerly=eagerly).replace("model.compile", faint + "model.compile")
    done = run(tmp_path, script)
    trace = recording_trace.load_recording(done.folder)
    assert trace.facts.get("faults", []) == []
    told = trace.fact("subnormals")
    assert (told["count"], told["way"]) == (8, "eager" if eagerly else "function")
    assert "head/kernel of 8" in told["where"]
    assert set(trace.fact("subnormal_cost")) == {"function", "eager", "numpy"}
