"""Probes of scripts of Keras and of loops of one's own: the loss of each step at other rates, batches and seeds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slowtrain.model.learning_rates import RateSweep
from slowtrain.trace.loading import recording_trace
from slowtrain.verify.learning_rates import batch_comparison, rate_comparison, rate_probes
from slowtrain.verify.learning_rates.rate_probes import OWN, RateProbes, Variant
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Script

from ..warm import warm_probes  # noqa: TID252  tests are no package
from . import probing

pytestmark = pytest.mark.tensorflow

SCRIPT = """
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(960, 8)).astype("float32")
    y = x @ rng.normal(size=(8, 1)).astype("float32")
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    for epoch in range(3):
        model.fit(x, y, batch_size=32, shuffle=False, verbose=0)
"""


LOOP = """
    import numpy as np
    import tensorflow as tf

    tf.keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4800, 8)).astype("float32")
    y = x @ rng.normal(size=(8, 1)).astype("float32")
    weights = tf.Variable(tf.zeros((8, 1)))
    optimizer = tf.keras.optimizers.SGD(learning_rate=0.001)
    BATCH = 32

    @tf.function
    def train_step(inputs, targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((inputs @ weights - targets) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
        return loss

    for epoch in range(2):
        for first in range(0, len(x), BATCH):
            train_step(x[first : first + BATCH], y[first : first + BATCH])
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Bench]:
    """A bench for a script, whose processes take all of its few steps."""
    monkeypatch.setattr(rate_probes, "OWN_PROBE_S", 0.001)

    def make(text: str) -> Bench:
        return Bench(Script(str(probing.write(tmp_path, text))), tmp_path / "runs", time.monotonic() + 600)

    return make


def test_a_rate_a_warm_up_and_a_batch_are_edited_in_memory_and_seeds_are_shifted(bench: Callable[[str], Bench]) -> None:
    probes = RateProbes(bench(SCRIPT))
    script = Path(probes.bench.script.target)
    line = script.read_text().splitlines().index('model.compile("sgd", "mse")') + 1
    assert (probes.written.value, probes.written.place.line) == (0.01, line)
    with warm_probes():
        own = probes.run(OWN)
        probes.own_batch = 32
        warm, larger = probes.run(Variant(warm_up=True)), probes.run(Variant(2.0, batch=64))
    other = probes.run(OWN, other_seeds=5)  # they are shifted before Keras is imported
    assert script.read_text().count('"sgd"') == 1
    assert len(own.losses) == 90, "three epochs of thirty steps"
    assert own.losses[0] != other.losses[0]
    assert np.isfinite(own.losses).all()
    over = own.probe.losses_over
    assert over == tuple(range(1, 31)) * 3, "Keras reports means since the epoch began"
    means = [loss["loss"] for loss in own.probe.losses]
    epoch = own.losses[30:60]
    assert means[30:60] == pytest.approx(np.cumsum(epoch) / np.arange(1, 31), rel=1e-4)
    assert (probes.warm_up_steps, len(warm.losses)) == (9, 90)
    assert warm.losses[0] == own.losses[0], "the same samples and seed"
    assert warm.losses[2] > own.losses[2], "its first steps are smaller"
    assert set(recording_trace.load_recording(larger.probe.folder).steps.size.tolist()) == {64}
    assert len(larger.losses) == 45, "the script has no more samples"
    assert larger.losses[20] == pytest.approx(own.losses[40:42].mean(), rel=0.1), "twice the batch and twice the rate"


@warm_probes()
def test_the_batch_of_a_loop_over_arrays_is_edited(
    bench: Callable[[str], Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_comparison, "MIN_TRIED_TIMES", math.inf)  # no pairs
    monkeypatch.setattr(batch_comparison, "LARGER_FACTORS", (2.0,))
    probes = RateProbes(bench(LOOP))
    found, notes = batch_comparison.compare_batches(probes, OWN, probes.run(OWN))
    assert found is not None, notes
    assert [(p.batch, p.rate) for p in found.points] == [(32, 0.001), (64, 0.002)]
    assert probes.step_place is not None
    assert all(p.loss is not None for p in found.points)


def whole_measurement(bench: Bench) -> RateSweep:
    """The measurement of a rate that is far too small for a linear model."""
    before = Path(bench.script.target).read_text()
    sweep = rate_comparison.measure_rates(bench)
    assert Path(bench.script.target).read_text() == before
    assert sweep.complete
    assert sweep.gain is not None
    assert sweep.gain.rate > sweep.rate
    assert sweep.gain.low > 1.2
    assert sweep.batches is not None, sweep.notes
    assert sweep.batches.rate == sweep.gain.rate
    assert [p.batch for p in sweep.batches.points][-2:] == [64, 128]
    return sweep


@pytest.mark.slow
def test_the_whole_measurement_in_fit(bench: Callable[[str], Bench]) -> None:
    text = SCRIPT.replace('"sgd"', "keras.optimizers.SGD(0.0005)").replace("range(3)", "range(8)")
    assert whole_measurement(bench(text)).batches.scaling == "linearly"  # type: ignore[union-attr]


@pytest.mark.slow
def test_the_whole_measurement_of_a_loop_whose_batch_only_an_edit_changes(bench: Callable[[str], Bench]) -> None:
    sweep = whole_measurement(bench(LOOP))
    assert sweep.place == "script.py:11"
