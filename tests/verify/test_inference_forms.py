"""A trained model in forms for inference: what each changes, and which a model or a version of Keras does not have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slowtrain.model.shrinking import Unmeasured
from slowtrain.verify.alternatives.model_alternatives import Change

from .test_shrink import KERAS, changes, contents, traced


@pytest.mark.tensorflow
def test_forms_for_inference_are_timed_in_turn(tmp_path: Path) -> None:
    rows = {one["form"]: one for one in traced(tmp_path, model=(), inference=True).fact("inference")}
    assert set(rows) == {"as it is", "int8", "int4", "GPTQ", "AWQ", "half pruned", "LiteRT"}
    timed = {form: one for form, one in rows.items() if "ms" in one}
    assert timed["as it is"]["own_inputs"]
    assert {"as it is", "half pruned"} <= set(timed)
    assert len({len(one["ms"]) for one in timed.values()}) == 1
    assert timed["as it is"]["difference"] == 0.0 < timed["half pruned"]["difference"]
    assert timed["half pruned"]["bytes"] == timed["as it is"]["bytes"]  # zeros take as much room
    for form in ("GPTQ", "AWQ") if KERAS >= (3, 0) else ():  # rounding without calibration is not called so
        one = rows[form]
        assert "ms" in one or re.fullmatch(
            r"Keras [\d.]+ (shows it no inputs, so that it would be plain rounding to 4 bits|does not have it)",
            one["failed"],
        )


CLASS_SCRIPT = """
    import keras, numpy as np

    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden, self.last = keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)

        def call(self, x):
            return self.last(self.hidden(x))

    x = np.random.default_rng(0).normal(size=(64, 8)).astype("float32")
    model = Own()
    model.compile("adam", "mse")
    model.fit(x, x.mean(1), batch_size=8, epochs=4, verbose=0)
"""


@pytest.mark.tensorflow
def test_a_model_that_cannot_be_copied_says_so(tmp_path: Path) -> None:
    rows = {one["form"]: one for one in traced(tmp_path, CLASS_SCRIPT, model=(), inference=True).fact("inference")}
    assert len(rows["as it is"]["ms"]) >= 5
    reason = "the model is a class of the script's own (Own): Keras cannot copy it"
    assert {rows[form]["failed"] for form in ("int8", "int4", "half pruned")} == {reason}


@pytest.mark.tensorflow
@pytest.mark.skipif(KERAS >= (3, 0), reason="about Keras 2")
def test_what_keras_2_does_not_have(tmp_path: Path) -> None:
    about = traced(tmp_path / "model", model=()).fact("model")
    found = changes(contents(about, layers=()))
    lacking = {name for name, one in found.items() if isinstance(one, Unmeasured) and "this is Keras 2" in one.why}
    assert lacking == {"rematerialisation", "gradient accumulation"}
    assert {"mixed_bfloat16", "XLA", "half width", "depthwise", "half pruned", "smaller pictures"} <= {
        name for name, one in found.items() if isinstance(one, Change)
    }
    trace = traced(tmp_path / "forms", model=(), inference=True)
    rows = {one["form"]: one for one in trace.fact("inference")}
    assert all("ms" in rows[form] for form in ("as it is", "half pruned"))
    assert re.fullmatch(r"Keras 2[\d.]+ does not quantise models; it needs Keras 3", rows["int8"]["failed"])
    assert re.fullmatch(r"Keras 2[\d.]+ does not have it", rows["GPTQ"]["failed"])
