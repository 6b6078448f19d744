"""Probes of a script of Keras: the loss of each step, at another rate, and with other seeds than the script sets."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from slowtrain.verify.learning_rates import rate_probes
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Script

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


def test_a_rate_is_edited_in_memory_and_seeds_are_shifted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = probing.write(tmp_path, SCRIPT)
    bench = Bench(Script(str(script)), tmp_path / "runs", time.monotonic() + 300)
    monkeypatch.setattr(rate_probes, "OWN_PROBE_S", 0.001)
    probes = rate_probes.RateProbes(bench)
    line = script.read_text().splitlines().index('model.compile("sgd", "mse")') + 1
    assert (probes.written.value, probes.written.place.line) == (0.01, line)
    own, slow, other = probes.at(1.0), probes.at(0.1), probes.at(1.0, other_seeds=5)
    assert script.read_text().count('"sgd"') == 1
    assert len(own.losses) == 90, "three epochs of thirty steps"
    assert own.losses[0] == slow.losses[0], "the same samples and seed"
    assert own.losses[60] < slow.losses[60]
    assert own.losses[0] != other.losses[0]
    assert np.isfinite(own.losses).all()
    over = own.probe.losses_over
    assert over == tuple(range(1, 31)) * 3, "Keras reports means since the epoch began"
    means = [loss["loss"] for loss in own.probe.losses]
    epoch = own.losses[30:60]
    assert means[30:60] == pytest.approx(np.cumsum(epoch) / np.arange(1, 31), rel=1e-4)
