"""``slowtrain memory`` and ``batch`` on real scripts: what they say, and what they decline."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from slowtrain.errors import InputError
from slowtrain.model.measurements import Device
from slowtrain.verify.batch_sizes import memory_need
from slowtrain.verify.batch_sizes.batch_probe import BatchProbes
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Script

from . import probing

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]

MODEL = """
    import sys
    import numpy as np
    import tensorflow as tf
    keras = tf.keras
    layers = keras.layers
    model = keras.Sequential([layers.Input((32,)), layers.Dense(64, activation="relu"), layers.Dense(4)])
    model.compile("adam", "mse")
    x, y = np.zeros((64, 32), "float32"), np.zeros((64, 4), "float32")
"""
FIT = (
    MODEL
    + """
    model.fit(x, y, batch_size=8, epochs=9, verbose=0)
"""
)
DATASET = (
    MODEL
    + """
    data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8)
    model.fit(data, steps_per_epoch=20, verbose=0)
"""
)
ARGUMENT = (
    MODEL
    + """
    size = int(sys.argv[1])
    for _ in range(9):
        model.train_on_batch(np.zeros((size, 32), "float32"), np.zeros((size, 4), "float32"))
"""
)
BY_HAND = (
    MODEL
    + """
    for _ in range(9):
        model.train_on_batch(x[:12], y[:12])
"""
)


def bench(folder: Path, text: str, *arguments: str) -> Bench:
    script = probing.write(folder, text)
    return Bench(Script(str(script), arguments), folder / "runs", time.monotonic() + 120)


@pytest.mark.parametrize(("text", "arguments"), [(FIT, ()), (DATASET, ()), (ARGUMENT, ("{batch}",))])
def test_the_batch_is_changed_and_memory_foretold(tmp_path: Path, text: str, arguments: tuple[str, ...]) -> None:
    device = Device("small", 4 << 20, "as it was given")
    answer = memory_need.measure_memory_need(bench(tmp_path, text, *arguments), device)
    assert len(answer.measured) >= 2
    assert answer.fits
    assert answer.largest_batch is not None
    assert answer.largest_batch > answer.need.batch
    weights = (32 * 64 + 64 + 64 * 4 + 4) * 4
    assert weights <= answer.need.parts["parameters"] <= weights + 64
    assert answer.need.parts["optimizer"] >= 2 * weights
    assert sum(answer.need.parts.values()) == answer.need.peak_bytes


def test_a_batch_that_cannot_be_changed_is_one_line(tmp_path: Path) -> None:
    sizing = BatchProbes(bench(tmp_path, BY_HAND))
    assert sizing.first().batch == 12
    with pytest.raises(InputError, match=r"cannot be changed from outside.*\{batch\}"):
        sizing.at(24)


def test_a_script_that_does_not_train_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="takes no training step"):
        BatchProbes(bench(tmp_path, "import tensorflow as tf\ntf.zeros(3)\n")).first()
