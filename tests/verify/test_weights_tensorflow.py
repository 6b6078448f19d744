"""Scripts whose steps tell no loss: their weights do, in graphs, eagerly, and where a step is Keras'."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowtrain.model import Effect
from slowtrain.verify.measurement.loss_parity import weight_parity
from slowtrain.verify.measurement.paired_trial import Trial
from slowtrain.verify.measurement.probe_process import Probe

from ..warm import warm_probes  # noqa: TID252  tests are no package
from . import probing

pytestmark = pytest.mark.tensorflow

LOOP = """
    import numpy as np
    import tensorflow as tf

    keras = tf.keras
    x = np.random.normal(size=(640, 8)).astype("float32")
    model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
    model.build((None, 8))
    optimizer = keras.optimizers.Adam(1e-3)

    DECORATOR
    def step(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(batch, training=True) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    for _ in range(6):
        for batch in tf.data.Dataset.from_tensor_slices(x).batch(64):
            step(batch)
"""


@warm_probes()
def probe(folder: Path, decorator: str) -> Probe:
    found = probing.probed(probing.write(folder, LOOP.replace("DECORATOR", decorator)), to=folder / "runs")
    assert found.failed is None
    return found


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Probe:
    return probe(tmp_path_factory.mktemp("graph"), "@tf.function")


def test_a_step_that_returns_nothing(graph: Probe, tmp_path: Path) -> None:
    one, again = graph, probe(tmp_path, "@tf.function")
    assert [steps for steps, _, _ in one.weights] == [5, 10, 20, 50]
    assert not any(one.losses)
    assert one.weights[0][2] < one.weights[-1][2]
    assert len({digest for _, digest, _ in one.weights}) == 4
    assert weight_parity(Effect.EXACT, [one.weights], [again.weights]).loss == "same"


def test_eager_and_graph_are_compared_after_as_many_steps(graph: Probe, tmp_path: Path) -> None:
    eager = probe(tmp_path, "")
    assert [steps for steps, _, _ in eager.weights] == [5, 10, 20, 50]
    assert weight_parity(Effect.EQUIVALENT, [eager.weights], [graph.weights]).holds
    assert abs(eager.weights[-1][2] / graph.weights[-1][2] - 1) < 1e-3
    # The eager loop tells its loss, the graph none: there is nothing to compare but the weights.
    assert any(eager.losses)
    assert not any(graph.losses)
    found = Trial("step", ((eager, graph), (eager, graph))).parity(Effect.EQUIVALENT)
    assert found.holds
    assert "the weights after 50 steps" in found.says
