"""The losses of a run are kept as one fact: few enough points, from the first step to the last."""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowtrain.capture.core import patching
from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.core.thread_state import Progress
from slowtrain.capture.keras.reported_losses import loss_keeper
from slowtrain.capture.process.loss_series import MAX_POINTS, MAX_SOURCES, LossSeries
from slowtrain.capture.sandbox import seed_shift
from slowtrain.trace.loading import recording_trace

from . import running


def series_of(recorder: Recorder) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = recorder._facts["loss_series"]["series"]
    return found


def test_points_are_thinned_evenly_and_the_first_stays(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    seen = LossSeries(recorder)
    for step in range(1, 10_001):
        seen.note((step, "train_step", 1), {"loss": 1 / step})
    seen.write()
    (one,) = series_of(recorder)
    steps = [step for step, _, _ in one["points"]]
    assert MAX_POINTS / 2 <= len(steps) <= MAX_POINTS
    assert steps[0] == 1
    assert len({b - a for a, b in itertools.pairwise(steps)}) == 1
    assert 10_000 - steps[-1] < steps[1] - steps[0]
    assert one["last_step"] == 10_000


def test_each_source_has_its_series_and_metrics_have_none(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    seen = LossSeries(recorder)
    for step, source, numbers in (
        (1, "critic", {"result[0]": 0.7, "result[1]": 0.5}), (2, "generator", {"result": 2.0}),
        (2, "generator", {"result": 9.0}),  # the same step, looked at again
        (3, "Model 1", {"accuracy": 0.1, "b_loss": 1.0, "loss": 3.0}), (4, "Model 1", {"accuracy": 0.2}),
    ):  # fmt: skip
        seen.note((step, source, 1), numbers)
    seen.write()
    found = {one["source"]: (one["name"], [value for _, value, _ in one["points"]]) for one in series_of(recorder)}
    assert found == {"critic": ("result[0]", [0.7]), "generator": ("result", [2.0]), "Model 1": ("loss", [3.0])}
    seen.note((1, "Model 2", 1), {"loss": 4.0})
    seen.write()
    assert [one["source"] for one in series_of(recorder)] == ["Model 2"], "steps count anew, of a stronger kind"


def test_sources_without_end_are_counted(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    seen = LossSeries(recorder)
    for step in range(1, MAX_SOURCES + 4):
        seen.note((step, f"Model {step}", 1), {"loss": 1.0})
    seen.write()
    assert len(series_of(recorder)) == MAX_SOURCES
    assert recorder._facts["loss_series"]["others"] == 3


class Scalar:
    shape, dtype = (), "float32"


def test_a_step_says_over_how_many_steps_its_loss_is_a_mean() -> None:
    progress = Progress()
    progress.step(5)
    progress.keep({"loss": Scalar()}, 5, source="Model 1", averaged=True)
    assert progress.last_place == (1, "Model 1", 1)
    progress.step(5)
    progress.step(5)
    progress.keep({"loss": Scalar()}, 5, source="Model 1", averaged=True)
    assert progress.last_place == (3, "Model 1", 3)
    progress.epoch_start = progress.steps
    progress.step(5)
    progress.keep({"loss": Scalar()}, 5, source="Model 1", averaged=True)
    assert progress.last_place == (4, "Model 1", 1)
    progress.keep({"loss": Scalar()}, 5, source="Model 1", averaged=None)
    assert progress.last_place == (4, "Model 1", 0)


@pytest.mark.parametrize(
    ("module", "in_loop", "span"),
    [("keras.src.backend.tensorflow.trainer", True, 2), ("keras.src.trainer", False, 0), ("train", True, 0)],
)
def test_keras_own_step_reports_means_in_its_loops_and_of_others_nobody_knows(
    module: str, in_loop: bool, span: int
) -> None:
    def train_step(self: Any, data: Any) -> Any: ...

    train_step.__module__ = module
    progress = Progress()
    keep_loss = loss_keeper(progress, 5, type("Net", (), {"train_step": train_step})())
    progress.step(5)
    progress.step(5)
    keep_loss({"loss": Scalar()}, in_loop)
    step, source, over = progress.last_place
    assert (step, source.partition(" ")[0], over) == (2, "Net", span)


def test_seeds_are_shifted_and_other_values_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("jax._src.random")
    module.PRNGKey = module.key = lambda seed, **_: seed  # type: ignore[attr-defined]

    def patch_on_import(_recorder: Recorder, name: str, patch: Callable[[Any], None]) -> None:
        if name == module.__name__:
            patch(module)

    monkeypatch.setattr(seed_shift, "patch_on_import", patch_on_import)
    seed_shift.shift_seeds(Recorder(tmp_path), 7)
    try:
        assert module.PRNGKey(3) == 10
        assert module.key(3, impl="rbg") == 10
        assert module.key(True) is True
        assert module.key(None) is None
    finally:
        patching.restore_originals()


KERAS_LOOP = """
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1280, 8)).astype("float32")
    y = x @ rng.normal(size=(8, 1)).astype("float32")
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    model.fit(x, y, batch_size=32, epochs=20, shuffle=False, verbose=0)

    again = keras.Sequential([keras.layers.Dense(1)])
    again.build((None, 8))
"""


@pytest.mark.tensorflow
def test_the_losses_of_a_fit_are_recorded_as_means_since_the_epoch_began(tmp_path: Path) -> None:
    done = running.run_series(tmp_path, {"fit": running.Script(KERAS_LOOP)})["fit"]
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    assert trace.facts.get("faults", []) == []
    (one,) = trace.fact("loss_series")["series"]
    points = np.array(one["points"])
    assert one["name"] == "loss"
    assert points[0, 0] == points[0, 2] == 1, "the first step of all"
    assert one["last_step"] <= 800
    assert ((points[:, 0] - points[:, 2]) % 40 == 0).all(), "an epoch has 40 steps"
    ends = [e.data["logs"]["loss"] for e in trace.events_of("epoch") if e.name == "end"]
    last = [value for step, value, over in one["points"] if over == 40]
    assert all(min(abs(value - end) / end for end in ends) < 1e-5 for value in last)
