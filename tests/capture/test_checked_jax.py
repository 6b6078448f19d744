"""The first bad step of Keras on the JAX backend: the primitive, its layer, its line and what it was given."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from slowtrain import diagnose
from slowtrain.trace.loading import recording_trace

from . import running

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


FAINT = "head = model.layers[-1]\nhead.trainable = False\nhead.kernel.assign(np.full((8, 1), 1e-40))\n"
ODD = "def odd(t, p):\n    return keras.ops.sum(t * 0.0) / keras.ops.sum(p * 0.0)\n"
SCRIPTS = {
    "logarithm": fit("x[320:] *= 1000", LOGARITHM, epochs=1),
    "logarithm, eager": fit("x[320:] *= 1000", LOGARITHM, eagerly=True, epochs=1),
    "root": fit("x[320:336] = 0", ROOT),
    "healthy": fit() + fit("x[500, 3] = np.nan"),
    "data": fit("x[500, 3] = np.nan"),
    "faint": fit().replace("model.compile", FAINT + "model.compile"),
    "faint, eager": fit(eagerly=True).replace("model.compile", FAINT + "model.compile"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, running.Done]:
    for module in ("jax", "keras"):
        if importlib.util.find_spec(module) is None:  # not imported: Keras would look for TensorFlow
            pytest.skip(f"{module} is not installed here")
    scripts = {"alone": running.Script(SCRIPTS["healthy"], recorded=False)}
    scripts |= {name: running.Script(text, on_nonfinite="report") for name, text in SCRIPTS.items()}
    scripts["stop"] = running.Script(fit("x[500, 3] = np.nan", epochs=3000), on_nonfinite="stop")
    scripts["metric"] = running.Script(fit(ODD).replace("loss_of, ", "loss_of, metrics=[odd], "), on_nonfinite="stop")
    return running.run_series(tmp_path_factory.mktemp("checked"), scripts, KERAS_BACKEND="jax")


def checked(done: running.Done) -> dict[str, Any]:
    trace = recording_trace.load_recording(done.folder)
    assert trace.facts.get("faults", []) == []
    (event,) = trace.events_of("checked")
    return dict(event.data)


@pytest.mark.parametrize("name", ["logarithm", "logarithm, eager"])
def test_a_logarithm_of_zero(name: str, runs: dict[str, running.Done]) -> None:
    done = runs[name]
    assert "END" in done.out, done.err
    found = checked(done)
    origin = found["origin"]
    assert found["step"] == 21
    assert (origin["type"], origin["site"][1], origin["gradient"]) == (
        "log",
        running.line(SCRIPTS[name], "ops.log"),
        False,
    )
    assert origin["inputs"][0]["zero"] > 0
    diagnosis = diagnose.diagnose_trace(recording_trace.load_recording(done.folder)).diagnoses
    cause = next(d for d in diagnosis if d.cause == "numerics/nonfinite-loss")
    assert "keras.ops.maximum" in cause.prescriptions[0].says


def test_the_gradient_of_a_root_at_zero(runs: dict[str, running.Done]) -> None:
    found = checked(runs["root"])
    origin = found["origin"]
    assert found["step"] == 21
    assert (origin["of"], origin["gradient"], origin["site"][1]) == (
        "sqrt",
        True,
        running.line(SCRIPTS["root"], "ops.sqrt"),
    )


def test_numbers_that_are_none_in_the_data(runs: dict[str, running.Done]) -> None:
    found = checked(runs["data"])
    assert (found["step"], found["origin"]["kind"], found["origin"]["name"]) == (32, "data", "batch[0]")
    assert found["origin"]["output"]["nan"] == 1


def test_training_is_not_stopped_for_a_metric_that_is_no_number(runs: dict[str, running.Done]) -> None:
    done = runs["metric"]
    assert done.code == 0, done.err
    assert "END" in done.out
    assert not list(recording_trace.load_recording(done.folder).events_of("checked"))


def test_stop_ends_the_script_as_ctrl_c_does(runs: dict[str, running.Done]) -> None:
    done = runs["stop"]
    assert done.code == 130
    assert "END" not in done.out
    assert checked(done)["stopped"]


def test_training_is_the_same_to_the_last_bit(runs: dict[str, running.Done]) -> None:
    with_it, without = runs["healthy"], runs["alone"]
    assert with_it.code == without.code == 0
    assert with_it.out.count("END") == 2
    assert with_it.out == without.out


@pytest.mark.parametrize(("name", "way"), [("faint", "function"), ("faint, eager", "eager")])
def test_the_state_is_looked_through_for_subnormal_numbers(name: str, way: str, runs: dict[str, running.Done]) -> None:
    trace = recording_trace.load_recording(runs[name].folder)
    assert trace.facts.get("faults", []) == []
    told = trace.fact("subnormals")
    assert (told["count"], told["way"]) == (8, way)
    assert "head/kernel of 8" in told["where"]
    assert set(trace.fact("subnormal_cost")) == {"function", "eager", "numpy"}
