"""The losses that the recorder saw, a few in each second, as one fact of the recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.core.thread_state import StepPlace
from slowtrain.shared.vocabulary import is_loss

MAX_POINTS = 480  # of one series: then every second one is dropped, and from there on every second one is skipped
MAX_SOURCES = 8  # later functions and models are counted only
MIN_NEW_SHARE = 0.1  # of the points: fewer new ones are not worth writing the fact again


@dataclass
class _Series:
    name: str
    points: list[tuple[int, float, int]] = field(default_factory=list)
    stride: int = 1
    seen: int = 0
    last_step: int = 0

    def add(self, step: int, value: float, span: int) -> None:
        if self.seen % self.stride == 0:
            self.points.append((step, value, span))
        self.seen += 1
        self.last_step = step
        if len(self.points) >= MAX_POINTS:
            # The first one stays, because it shows where the training began.
            self.points, self.stride = self.points[::2], 2 * self.stride


class LossSeries:
    """Keeps points (step, loss, number of steps over which the loss is a mean) for each function or model.

    The fact ``loss_series`` is written again when a tenth of the points is new, and at the end.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._series: dict[str, _Series] = {}
        self._last_step = 0
        self._others = 0
        self._new = 0

    def note(self, place: StepPlace, numbers: Mapping[str, float]) -> None:
        """Adds the loss among the finite ``numbers`` that a step reported; metrics are left out."""
        step, source, span = place
        name = "loss" if "loss" in numbers else next(filter(is_loss, numbers), None)
        if name is None or step == self._last_step:
            return
        if step < self._last_step:
            self._series.clear()  # steps count from 1 again, because a stronger kind of step was seen
        self._last_step = step
        if source not in self._series and len(self._series) >= MAX_SOURCES:
            self._others += 1
            return
        one = self._series.setdefault(source, _Series(name))
        if name == one.name:
            one.add(step, numbers[name], span)
            self._new += 1
        if self._new > MIN_NEW_SHARE * sum(len(s.points) for s in self._series.values()):
            self.write()

    def write(self) -> None:
        if self._series:
            series = [
                {"source": source, "name": one.name, "last_step": one.last_step, "points": list(one.points)}
                for source, one in self._series.items()
            ]
            self.recorder.fact("loss_series", {"series": series, "others": self._others})
        self._new = 0
