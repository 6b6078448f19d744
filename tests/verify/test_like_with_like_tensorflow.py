"""Where losses are from, in real loops of two steps: both eager, one of them a graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowtrain.model import Effect
from slowtrain.verify.measurement.loss_parity import matched_parity
from slowtrain.verify.measurement.probe_process import Origin, Probe

from ..warm import warm_probes  # noqa: TID252  tests are no package
from . import probing

pytestmark = pytest.mark.tensorflow

LOOP = """
    import numpy as np
    import tensorflow as tf

    x = np.random.normal(size=(640, 8)).astype("float32")
    v, w = tf.Variable(tf.zeros((8, 1))), tf.Variable(tf.ones((8, 1)))

    class Trainer:
        DECORATOR
        def first(self, batch):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((batch @ v - 9.0) ** 2)
            v.assign_sub(1e-3 * tape.gradient(loss, v))
            return loss

        def second(self, batch):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.abs(batch @ w))
            w.assign_sub(1e-3 * tape.gradient(loss, w))
            return loss

    trainer = Trainer()
    for _ in range(6):
        for batch in tf.data.Dataset.from_tensor_slices(x).batch(64):
            trainer.first(batch)
            trainer.second(batch)
"""


@warm_probes()
def probe(tmp_path: Path, decorator: str) -> Probe:
    found = probing.probed(probing.write(tmp_path, LOOP.replace("DECORATOR", decorator)), to=tmp_path / "runs")
    assert found.failed is None
    return found


def test_a_turn_of_which_one_step_became_a_graph(tmp_path: Path) -> None:
    eager, half = probe(tmp_path, ""), probe(tmp_path, "@tf.function")
    first, second = eager.origins[:2]
    assert (first.name, second.name, first.at > 0, second.at > 0) == ("first", "second", True, True)
    assert set(eager.origins) == {first, second}
    assert half.origins[:2] == (Origin("first"), Origin("second", second.at, counts=False))
    assert len(eager.losses) == len(half.losses) == len(half.origins) == 120
    found = matched_parity(Effect.EQUIVALENT, [eager, eager], [half])
    assert found.holds
    assert found.apart < 1e-3
