"""The alternatives of a model: which there are, what a change makes of the layers, and when a loss is reached."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowtrain.cli import main
from slowtrain.model.shrinking import LayerShare, Unmeasured
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.verify.alternatives import model_alternatives
from slowtrain.verify.alternatives.model_alternatives import Change, ModelContents
from slowtrain.verify.learning_rates.loss_curves import LossCurve
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.probe_process import Candidate, Rule, Script, Treatment

from . import probing


def layer(name: str, number: str, width: int, *, output: bool = False, kernel: int = 1) -> dict[str, Any]:
    kind = number.partition("#")[0]
    return {"name": name, "class": kind, "number": number, "width": width, "kernel": kernel, "parameters": 9 * width,
            "output": output, "place": None}  # fmt: skip


LAYERS = [
    layer("conv2d", "Conv2D#1", 32, kernel=9),
    layer("conv2d_1", "Conv2D#2", 64, kernel=9),
    layer("conv2d_2", "Conv2D#3", 64),
    layer("dense", "Dense#1", 10, output=True),
]
TIMES = (LayerShare("conv2d_1", 0.6), LayerShare("conv2d", 0.3))


def contents(**changed: Any) -> ModelContents:
    about = {"parameters": 1000, "picture": [64, 64, 3], "layers": LAYERS, "backbones": []}
    given: dict[str, Any] = {"about": about, "layers": TIMES, "batch": 32, "knee": 128, "no_knee": "",
                             "on_gpu": False, "on_jax": False}  # fmt: skip
    return ModelContents(**given | changed)


def changes(found: ModelContents) -> dict[str, Change | Unmeasured]:
    measured, unmeasured = model_alternatives.model_changes(found)
    every: list[Change | Unmeasured] = [*measured, *unmeasured]
    return {one.name: one for one in every}


def test_the_block_is_all_layers_as_wide_as_the_most_expensive() -> None:
    found = changes(contents())
    half, depthwise = found["half width"], found["depthwise"]
    assert isinstance(half, Change)
    assert half.treatment.model == ("half-width@Conv2D#2+Conv2D#3",)
    assert half.says == "32 instead of 64 in conv2d_1, conv2d_2"
    assert isinstance(depthwise, Change)
    assert depthwise.treatment.model == ("separable@Conv2D#2",)  # the other has a kernel of one


def test_the_output_is_never_made_narrower() -> None:
    assert model_alternatives.expensive_block(LAYERS, [LayerShare("dense", 0.9)])[0]["name"] != "dense"
    assert model_alternatives.expensive_block(LAYERS[3:], []) == []


@pytest.mark.parametrize(
    ("name", "changed", "why"),
    [
        ("batch at the knee", {"knee": 32}, "the script's batch of 32 is at the knee already"),
        ("batch at the knee", {"knee": None, "no_knee": "no more data"}, "no more data"),
        ("mixed_float16", {}, "needs a GPU; a CPU computes float16 by converting it"),
        ("smaller pictures", {"about": {"picture": [28, 28, 1]}}, "pictures of 28 x 28 are small already"),
        ("smaller pictures", {"about": {}}, "the model's input is no picture of a known size"),
        ("frozen backbone", {}, "no part of the model is a model with most of its parameters"),
        ("gradient accumulation", {"batch": 2}, "the batch is too small"),
        ("half width", {"about": {}}, "no hidden layer has a width that can be changed from outside"),
    ],
)
def test_what_cannot_be_measured_says_why(name: str, changed: dict[str, Any], why: str) -> None:
    assert changes(contents(**changed))[name] == Unmeasured(name, why)


def test_a_backbone_is_frozen_if_it_has_most_parameters() -> None:
    parts = [{"name": "resnet50", "parameters": 800}, {"name": "augment", "parameters": 0}]
    found = changes(contents(about={"parameters": 1000, "backbones": parts, "layers": LAYERS}))["frozen backbone"]
    assert isinstance(found, Change)
    assert found.treatment.model == ("frozen@resnet50",)


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        (  # Keras 3: conv2d_1 is the second call of conv2d
            [("functional_1/conv2d_1_1", 0.6), ("functional_1/conv2d_1", 0.3), ("functional_1/dense_1", 0.1)],
            {"conv2d_1": 0.6, "conv2d": 0.3, "dense": 0.1},
        ),
        (  # Keras 2
            [("model/conv2d_1", 0.6), ("model/conv2d", 0.3), ("optimizer", 0.1)],
            {"conv2d_1": 0.6, "conv2d": 0.3, "optimizer": 0.1},
        ),
    ],
)
def test_shares_have_the_names_of_layers(scopes: list[tuple[str, float]], expected: dict[str, float]) -> None:
    assert {one.name: one.share for one in model_alternatives.layer_shares(LAYERS, scopes)} == expected


def test_the_time_until_a_loss() -> None:
    curve = LossCurve(np.repeat([3.0, 2.0, 1.0], [8, 10, 6]), 4.0, 0.5)
    assert curve.seconds_to(2.5) == 24.0  # after twelve steps the mean of the last eight is 2.5
    assert curve.seconds_to(2.0) == 32.0
    assert curve.seconds_to(0.5) is None
    assert curve.loss_after(70.0) == 2.0
    assert curve.loss_after(97.0) is None
    assert curve.falls


SCRIPT = """
    import keras, numpy as np
    y = np.arange(64) % 4
    x = (np.random.default_rng(0).normal(size=(64, 32, 32, 3)) + y[:, None, None, None]).astype("float32")
    inputs = keras.Input((32, 32, 3))
    hidden = keras.layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
    hidden = keras.layers.Add()([keras.layers.Conv2D(8, 3, padding="same")(hidden), hidden])
    outputs = keras.layers.Dense(4, activation="softmax")(keras.layers.GlobalAveragePooling2D()(hidden))
    model = keras.Model(inputs, outputs)
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=8, epochs=2, verbose=0)
"""


def traced(tmp_path: Path, **treatment: Any) -> Trace:
    script = probing.write(tmp_path / "project", SCRIPT)
    found = probe_process.run_probe(
        Script(str(script)), Candidate("one", {}, Treatment(**treatment)), Rule(), tmp_path / "run", limit_s=120
    )
    assert found.failed is None
    trace = recording_trace.load_recording(tmp_path / "run")
    assert trace.facts.get("faults", []) == []
    return trace


@pytest.mark.tensorflow
def test_layers_are_changed_from_outside(tmp_path: Path) -> None:
    about = traced(tmp_path, model=("half-width@Conv2D#1+Conv2D#2", "half-pictures", "pruned")).fact("model")
    widths = {one["number"]: (one["width"], one["output"]) for one in about["layers"] if one["number"]}
    assert widths == {"Conv2D#1": (4, False), "Conv2D#2": (4, False), "Dense#1": (4, True)}
    assert about["picture"] == [16, 16, 3]


@pytest.mark.tensorflow
def test_convolutions_become_separable_and_gradients_accumulate(tmp_path: Path) -> None:
    trace = traced(
        tmp_path, model=("separable@Conv2D#2", "accumulate@4", "recompute", "mixed-bfloat16"), rebatch=(8, 2)
    )
    about = trace.fact("model")
    assert [one["class"] for one in about["layers"] if one["kernel"] > 1] == ["Conv2D", "SeparableConv2D"]
    assert set(trace.steps.size) == {2}
    assert set(trace.fact("policies")) == {"mixed_bfloat16"}


@pytest.mark.tensorflow
def test_forms_for_inference_are_timed_in_turn(tmp_path: Path) -> None:
    rows = {one["form"]: one for one in traced(tmp_path, model=(), inference=True).fact("inference")}
    assert set(rows) == {"as it is", "int8", "int4", "half pruned", "LiteRT"}
    timed = {form: one for form, one in rows.items() if "ms" in one}
    assert {"as it is", "half pruned"} <= set(timed)
    assert len({len(one["ms"]) for one in timed.values()}) == 1
    assert timed["as it is"]["difference"] == 0.0 < timed["half pruned"]["difference"]
    assert timed["half pruned"]["bytes"] == timed["as it is"]["bytes"]  # zeros take as much room


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    script = probing.write(tmp_path, SCRIPT.replace("epochs=2", "epochs=400"))
    before = probing.state(script.parent / script.name)
    assert main(["shrink", "--seconds", "1", "--json", "shrink.json", str(script)]) == 0
    document = json.loads((tmp_path / "shrink.json").read_text())
    names = [one["name"] for one in document["alternatives"]]
    assert names[0] == "as it is"
    assert {"half width", "depthwise", "half pruned", "gradient accumulation"} <= set(names)
    assert document["alternatives"][0]["speedup"]["value"] == 1.0
    assert all(one["peak_bytes"] for one in document["alternatives"])
    assert document["target_loss"] is not None
    assert "Not measured" in capsys.readouterr().out
    assert probing.state(script.parent / script.name) == before


def test_a_script_without_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shrink", str(tmp_path / "missing.py")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
