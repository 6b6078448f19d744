"""The alternatives of a model: which there are, what a change makes of the layers, and when a loss is reached."""

from __future__ import annotations

import json
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowtrain.cli import main
from slowtrain.model.shrinking import LayerShare, Unmeasured
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.verify.alternatives import comparison, model_alternatives
from slowtrain.verify.alternatives.model_alternatives import Change, ModelContents
from slowtrain.verify.learning_rates import loss_curves
from slowtrain.verify.learning_rates.loss_curves import LossCurve
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Rule, Script, Treatment

from ..warm import warm_probes  # noqa: TID252  tests are no package
from . import probing

KERAS = tuple(int(part) for part in version("keras").split(".")[:2]) if find_spec("keras") else (0, 0)
CASES = Path(__file__).parents[2] / "clinic/cases/healthy"
keras_3 = pytest.mark.skipif(KERAS < (3, 0), reason="Keras 2 does not have it")


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


ABOUT = {"parameters": 1000, "picture": [64, 64, 3], "layers": LAYERS, "backbones": [], "keras": "3.15.1",
         "compiled": True, "attention": [], "products": 1}  # fmt: skip
SIXTEEN_BITS = {"dropout": 0.0, "dtype": "bfloat16"}
DROPS = {"dropout": 0.1, "dtype": "bfloat16"}
NEEDED = "needs a GPU of compute capability"
FUSED_ALREADY = "Keras uses it already: the layers compute in 16 bits and drop no attention weights"
ON_JAX = {"on_gpu": True, "on_jax": True, "capability": (9, 0)}


def contents(about: dict[str, Any] | None = None, **changed: Any) -> ModelContents:
    given: dict[str, Any] = {"layers": TIMES, "batch": 32, "knee": 128, "no_knee": "", "on_gpu": False,
                             "on_jax": False, "fits": True}  # fmt: skip
    return ModelContents(ABOUT | (about or {}), **given | changed)


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
        ("smaller pictures", {"about": {"picture": None}}, "the model's input is no picture of a known size"),
        ("smaller pictures", {"fits": False}, "the script trains without fit"),
        ("half pruned", {"fits": False}, "the script trains without fit"),
        ("half pruned", {"on_jax": True}, "is measured with TensorFlow only"),
        ("XLA", {"about": {"compiled": False}}, "the script does not compile its model"),
        ("rematerialisation", {"about": {"keras": "2.15.0"}}, "needs Keras 3.9, and this is Keras 2.15.0"),
        ("gradient accumulation", {"about": {"keras": "2.15.0"}}, "needs Keras 3.0, and this is Keras 2.15.0"),
        ("fused attention", {}, "the model has no attention layer of Keras"),
        ("fused attention", {"about": {"attention": [DROPS]}}, "Keras fuses attention on JAX, not on TensorFlow"),
        ("fused attention", {"about": {"attention": [DROPS]}, "on_jax": True}, "needs a GPU"),
        (
            "fused attention",
            {"about": {"attention": [DROPS]}, **ON_JAX, "capability": (7, 5)},
            f"{NEEDED} 8.0 or later",
        ),
        ("fused attention", {"about": {"attention": [SIXTEEN_BITS]}, **ON_JAX}, FUSED_ALREADY),
        ("float8", {}, "needs a GPU with float8; a CPU computes it by converting it"),
        ("float8", {"on_gpu": True, "capability": (8, 0)}, f"{NEEDED} 8.9 or later"),
        (
            "float8",
            {"on_gpu": True, "capability": (9, 0), "about": {"products": 0}},
            "the model has no dense layer, and Keras has float8 for these only",
        ),
        ("frozen backbone", {}, "no part of the model is a model with most of its parameters"),
        ("gradient accumulation", {"batch": 2}, "the batch is too small"),
        ("half width", {"about": {"layers": []}}, "no hidden layer has a width that can be changed from outside"),
    ],
)
def test_what_cannot_be_measured_says_why(name: str, changed: dict[str, Any], why: str) -> None:
    assert changes(contents(**changed))[name] == Unmeasured(name, why)


def test_a_gpu_can_have_fused_attention_and_float8() -> None:
    found = changes(contents({"attention": [DROPS, SIXTEEN_BITS]}, **ON_JAX))
    fused, float8 = found["fused attention"], found["float8"]
    assert isinstance(fused, Change)
    assert fused.treatment.model == ("mixed-bfloat16", "fused-attention")
    assert isinstance(float8, Change)
    assert float8.treatment.model == ("float8",)


def test_a_backbone_is_frozen_if_it_has_most_parameters() -> None:
    parts = [{"name": "resnet50", "parameters": 800}, {"name": "augment", "parameters": 0}]
    found = changes(contents({"backbones": parts}))["frozen backbone"]
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


def test_the_own_model_reaches_the_loss_to_compare_in_each_round(tmp_path: Path) -> None:
    probe = Probe(tmp_path, 1.0, 1.0, 1.0, True, 1.0)
    rounds = [
        comparison.Measured(probe, LossCurve(np.linspace(start, end, 60), 32.0, 0.001), 9)
        for start, end in ((3.0, 2.0), (3.0, 1.5))
    ]
    samples, target, notes = comparison.find_target(rounds)
    assert (samples, notes) == (60 * 32, [])
    assert target == pytest.approx(2.0, abs=0.1)
    assert all(one.curve is not None and one.curve.seconds_to(target or 0.0) is not None for one in rounds)


def test_curves_are_means_of_rounds_at_the_same_seconds() -> None:
    level = np.full(40, 2.0)
    found = loss_curves.drawn_curves(
        {
            "as it is": [LossCurve(level, 4.0, 0.5), LossCurve(level + 1, 4.0, 0.5)],
            "narrow": [LossCurve(np.linspace(4, 1, 40), 4.0, 0.25)],
            "silent": [None],
        }
    )
    assert set(found) == {"as it is", "narrow"}
    assert {(p.loss, p.low, p.high) for p in found["as it is"]} == {(2.5, 2.0, 3.0)}
    assert found["as it is"][-1].seconds == pytest.approx(80.0)
    assert found["narrow"][-1].seconds == pytest.approx(40.0, abs=1.4)
    shared = {p.seconds for p in found["as it is"]} & {p.seconds for p in found["narrow"]}
    assert len(shared) > 10
    falling = [p.loss for p in found["narrow"]]
    assert falling == sorted(falling, reverse=True)
    assert LossCurve(np.linspace(4, 1, 40), 4.0, 0.25).seconds_to(falling[10]) == pytest.approx(
        found["narrow"][10].seconds, abs=1.0
    )  # a step takes a second


def test_a_change_that_could_not_be_made_is_noticed() -> None:
    faults = [
        "patching keras: Traceback\n  File\nAttributeError: no RematScope\n",
        "losses: Traceback\nValueError: x\n",
    ]
    assert comparison.change_faults(Trace(facts={"faults": faults})) == {"AttributeError: no RematScope"}
    assert not comparison.change_faults(Trace())


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


@warm_probes()
def traced(tmp_path: Path, text: str = SCRIPT, rule: Rule | None = None, **treatment: Any) -> Trace:
    script = probing.write(tmp_path / "project", text)
    candidate = Candidate("one", {}, Treatment(**treatment))
    found = probe_process.run_probe(Script(str(script)), candidate, rule or Rule(), tmp_path / "run", limit_s=120)
    assert found.failed is None
    trace = recording_trace.load_recording(tmp_path / "run")
    assert trace.facts.get("faults", []) == []
    return trace


@pytest.mark.tensorflow
def test_layers_are_changed_from_outside(tmp_path: Path) -> None:
    script = (
        SCRIPT
        + """
    kernels = [weights for weights in model.get_weights() if weights.ndim > 1]
    assert all(abs((one == 0).mean() - 0.5) < 0.1 for one in kernels), kernels
    """
    )
    changed = ("half-width@Conv2D#1+Conv2D#2", "half-pictures", "pruned")
    about = traced(tmp_path, script, Rule(seconds=0.0), model=changed).fact("model")
    widths = {one["number"]: (one["width"], one["output"]) for one in about["layers"] if one["number"]}
    assert widths == {"Conv2D#1": (4, False), "Conv2D#2": (4, False), "Dense#1": (4, True)}
    assert about["picture"] == [16, 16, 3]


@keras_3
@pytest.mark.tensorflow
def test_convolutions_become_separable_and_gradients_accumulate(tmp_path: Path) -> None:
    trace = traced(
        tmp_path, model=("separable@Conv2D#2", "accumulate@4", "recompute", "mixed-bfloat16"), rebatch=(8, 2)
    )
    about = trace.fact("model")
    assert [one["class"] for one in about["layers"] if one["kernel"] > 1] == ["Conv2D", "SeparableConv2D"]
    assert set(trace.steps.size) == {2}
    assert set(trace.fact("policies")) == {"mixed_bfloat16"}


ATTENTION_SCRIPT = """
    import keras, numpy as np
    x = np.random.default_rng(0).normal(size=(64, 8, 16)).astype("float32")
    inputs = keras.Input((8, 16))
    hidden = keras.layers.MultiHeadAttention(2, 8, dropout=0.1)(inputs, inputs)
    hidden = keras.layers.Dense(16, activation="relu")(hidden)
    outputs = keras.layers.Dense(1)(keras.layers.Flatten()(hidden))
    model = keras.Model(inputs, outputs)
    model.compile("adam", "mse")
    model.fit(x, x.mean((1, 2)), batch_size=8, epochs=2, verbose=0)
    print("POLICIES", sorted({layer.dtype_policy.name for layer in model._flatten_layers()}))
"""


@keras_3
@pytest.mark.tensorflow
def test_dense_layers_are_trained_in_float8(tmp_path: Path) -> None:
    script = (
        ATTENTION_SCRIPT
        + """
    scales = [v.numpy() for v in model.variables if "amax_history" in v.path]
    assert len(scales) == 3 * 6 and all(abs(one).max() > 0 for one in scales)  # of inputs, kernel and gradients
    """
    )
    trace = traced(tmp_path, script, rule=Rule(seconds=0.0), model=("float8",))
    about = trace.fact("model")
    assert about["products"] == 6  # four of the attention layer
    assert about["attention"] == [{"dropout": 0.1, "dtype": "float32"}]


@keras_3
@pytest.mark.tensorflow
@warm_probes()
def test_attention_that_cannot_be_fused_fails(tmp_path: Path) -> None:
    script = probing.write(tmp_path / "project", ATTENTION_SCRIPT)
    treatment = Treatment(model=("mixed-bfloat16", "fused-attention"))
    found = probe_process.run_probe(
        Script(str(script)), Candidate("one", {}, treatment), Rule(), tmp_path / "run", limit_s=120
    )
    assert found.failed is not None
    assert "Flash attention is not supported in tensorflow backend" in found.failed


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


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("case", "alternative"), [("harbour_buoys", "half width"), ("orchard_canopy", "smaller pictures")]
)
def test_a_cheaper_model_reaches_the_loss_sooner(
    case: str, alternative: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not CASES.is_dir():
        pytest.skip("the clinic is not here")
    assert f'"{alternative}"' in (CASES / case / "case.toml").read_text()
    document = shrunk(CASES / case / "script.py", {alternative}, tmp_path, monkeypatch)
    own, other = document["alternatives"]
    assert other["name"] == alternative
    assert other["seconds_to_loss"] < own["seconds_to_loss"]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_quantisation_is_no_way_to_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not CASES.is_dir():
        pytest.skip("the clinic is not here")
    document = shrunk(CASES / "letter_bins/script.py", set(), tmp_path, monkeypatch)
    (int8,) = (one for one in document["inference"] if one["name"] == "int8")
    assert int8["trainable"] < 0.01
    assert [one["name"] for one in document["alternatives"]] == ["as it is"]


def shrunk(script: Path, names: set[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The document of ``shrink``, of these alternatives only."""

    def chosen_changes(found: ModelContents) -> tuple[list[Change], list[Unmeasured]]:
        measured, _ = model_alternatives.model_changes(found)
        return [one for one in measured if one.name in names], []

    monkeypatch.chdir(folder)
    monkeypatch.setattr(comparison, "model_changes", chosen_changes)
    monkeypatch.setattr(comparison, "_find_knee", lambda _bench, _batch: (None, "not searched"))
    assert main(["shrink", "--seconds", "8", "--json", "shrink.json", str(script)]) == 0
    return json.loads((folder / "shrink.json").read_text())


NO_STEP = """
    import keras
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    model.compile("adam", "mse")
"""
TWO_STEPS = (
    NO_STEP
    + """
    import numpy as np
    model.fit(np.zeros((64, 8)), np.zeros((64, 4)), batch_size=32, verbose=0)
"""
)
NO_MODEL = """
    import tensorflow as tf
    w = tf.Variable(tf.ones((4, 4)))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w * w)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    for _ in range(300):
        step()
"""


@pytest.mark.tensorflow
@warm_probes()
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (NO_STEP, "takes no training step, so there is nothing to measure"),
        (TWO_STEPS, "takes too few training steps to time one"),
        (NO_MODEL, "trains no Keras model, so that its layers cannot be changed from outside"),
    ],
    ids=["no step", "two steps", "no model"],
)
def test_a_script_that_cannot_be_measured(
    text: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = probing.write(tmp_path, text)
    assert main(["shrink", "--budget", "90s", str(script)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"slowtrain: {script} {why}"


def test_a_missing_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shrink", str(tmp_path / "missing.py")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
