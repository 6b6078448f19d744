"""A model that is compiled for each new weight of its losses is compiled once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.host.reweighted import reweighted

SCRIPT = """\
import keras
import tensorflow as tf

FIELDS = ("u", "v")


def train(model, data, beta):
    optimizer = keras.optimizers.Adam(1e-3)
    weights = {first}
    for epoch in range(9):
        model.compile(
            {optimizer},
            loss={{k: "mse" for k in {over}}},
            loss_weights={given},
        )
        model.fit(data)
        weights = balanced(model)
{more}
"""
COMPILED = """\
    model.compile(
        optimizer=optimizer,
        loss={k: "mse" for k in FIELDS},
        loss_weights=loss_weights,
    )
    for epoch in range(9):
        tf.nest.map_structure(lambda kept, new: kept.assign(float(new)), loss_weights, """


def script(
    optimizer: str = "optimizer=optimizer", over: str = "FIELDS", given: str = "weights",
    first: str = "{k: 1.0 for k in FIELDS}", more: str = "",
) -> str:  # fmt: skip
    return SCRIPT.format(optimizer=optimizer, over=over, given=given, first=first, more=more)


def edited(text: str) -> str:
    one = source_file.parse_source("train.py", text)
    assert one is not None
    line = next(i for i, row in enumerate(text.split("\n"), 1) if "model.compile(" in row)
    return edits.edited_text(one, reweighted(one, line))


def test_the_model_is_compiled_once_with_variables_that_each_turn_assigns_to() -> None:
    after = edited(script())
    first = "loss_weights = tf.nest.map_structure(lambda weight: tf.Variable(float(weight), trainable=False), weights)"
    assert f"    {first}\n{COMPILED}weights)\n        model.fit(data)\n" in after
    compile(after, "train.py", "exec")


def test_weights_that_are_written_out_in_the_turn_need_none_before_the_loop() -> None:
    after = edited(script(given="[1.0, beta(epoch)]"))
    assert "    loss_weights = [tf.Variable(0.0, trainable=False) for _ in range(2)]\n" + COMPILED in after
    after = edited(script(given='{"u": 1.0, "v": beta(epoch)}'))
    assert '{key: tf.Variable(0.0, trainable=False) for key in ("u", "v",)}\n' + COMPILED in after


def test_the_call_may_be_written_with_spaces() -> None:
    after = edited(script().replace("loss_weights=weights", "loss_weights = weights"))
    assert COMPILED in after


CASES: dict[str, str] = {
    "weights in brackets of their own": script(given="(weights)"),
    "an optimizer for each turn": script(optimizer="optimizer=keras.optimizers.Adam(1e-3)"),
    "an optimizer that the turn binds": script(more="        optimizer = keras.optimizers.SGD(1.0)"),
    "a model for each turn": script(more="        model = build()"),
    "losses that the turn chooses": script(over="chosen(epoch)"),
    "weights that nothing gives before": script(first="0").replace("    weights = 0\n", ""),
    "metrics that go on": script(more="        model.train_on_batch(x, y)"),
    "layers that are switched": script(more="        model.layers[0].trainable = False"),
    "how it was compiled is written down": script(more="        model.save('a.keras')"),
}


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_no_edit_where_a_turn_changes_more_than_the_weights(text: str) -> None:
    assert edited(text) == text


TRAINED = """\
import keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.random.rand(64, 4).astype("float32")
y = [x.sum(1, keepdims=True), x.max(1, keepdims=True)]
one = keras.Input((4,))
model = keras.Model(one, [keras.layers.Dense(1, name=n)(one) for n in "ab"])
optimizer = keras.optimizers.Adam(0.1)
for epoch in range(4):
    model.compile(optimizer, loss=["mse", "mae"], loss_weights=[1.0, 0.3 * epoch])
    print(model.fit(x, y, verbose=0).history["loss"])
"""


@pytest.mark.tensorflow
def test_training_goes_the_same_way(tmp_path: Path) -> None:
    said: list[str] = []
    for text in (TRAINED, edited(TRAINED)):
        script = tmp_path / f"train{len(said)}.py"
        script.write_text(text)
        said.append(subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout)
    assert edited(TRAINED) != TRAINED
    assert said[0] == said[1]
    assert said[0].count("[") == 4
