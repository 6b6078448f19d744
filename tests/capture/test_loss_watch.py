"""The newest loss is looked at, however short the run; and whether there was one to look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.core.thread_state import Progress
from slowtrain.capture.process.periodic_samples import LossWatch


class Scalar:
    shape, dtype = (), "float32"

    def __init__(self, value: float) -> None:
        self.value = value

    def _numpy_internal(self) -> float:
        return self.value


@pytest.fixture
def watched(tmp_path: Path) -> tuple[LossWatch, Progress, Recorder]:
    recorder, progress = Recorder(tmp_path), Progress()
    return LossWatch(recorder, progress), progress, recorder


def test_training_that_is_young_is_looked_at_at_every_chance(watched: tuple[LossWatch, Progress, Recorder]) -> None:
    watch, progress, recorder = watched
    assert progress.wanted, "of the very first step"
    progress.wanted = False
    watch.look_early()
    assert not progress.wanted, "nothing trains yet"
    for step in range(1, 3 * watch.FIRST):
        progress.step(3)
        progress.wanted = False
        watch.look_early()
        assert progress.wanted is (step <= watch.FIRST)
    assert recorder._facts["loss_seen"] is False


def test_a_loss_that_is_none_is_noted_once(watched: tuple[LossWatch, Progress, Recorder]) -> None:
    watch, progress, recorder = watched
    for value in (0.5, float("nan"), float("inf")):
        progress.step(3)
        if progress.wanted:
            progress.keep(Scalar(value), 3)
        watch()
    assert recorder._facts["loss_seen"] is True
    assert [(e[3], e[4]["step"], e[4]["value"]) for e in recorder._events] == [("result", 2, "nan")]
    assert not progress.wanted
    progress.keep(Scalar(float("nan")), 3)  # by a step that was asked before
    watch()
    assert len(recorder._events) == 1


def test_an_eager_gradient_beside_a_training_function_is_kept_for_a_probe_alone() -> None:
    progress = Progress()
    progress.step(3)
    progress.keep(Scalar(1.0), 3)
    progress.keep({"loss": Scalar(9.0)}, 2)
    assert [value.value for _, value in progress.last_scalars] == [1.0]
    progress.trajectory = []
    progress.keep(Scalar(1.0), 3, ("first", 0))
    progress.keep({"loss": Scalar(9.0)}, 2, ("second", 40))
    progress.keep(Scalar(5.0), 1, ("evaluate", 0))  # takes no gradient
    assert [(kind, origin) for kind, origin, *_ in progress.trajectory] == [(3, ("first", 0)), (2, ("second", 40))]
    assert [value.value for _, value in progress.last_scalars] == [1.0]
    progress.step(5)
    progress.keep({"loss": Scalar(9.0)}, 2, ("second", 40))  # nor is it a step beside those of Keras
    assert len(progress.trajectory) == 2
