"""What reports draw: charts, bars, the input pipeline. Reports never compute it."""

from __future__ import annotations

from dataclasses import dataclass

from slowtrain.model.source_place import Place


@dataclass(frozen=True)
class Chart:
    """A series for a report; ``x`` and ``y`` have the same length."""

    title: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Band:
    """A stretch of a chart's ``x`` with a special meaning: a profiler window, a validation run."""

    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Bar:
    """A stretch of one typical step on a named lane, in ms from the step's start."""

    lane: str
    name: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class InputNode:
    """A node of the input pipeline as it ran. ``ms_per_step`` is processor time, summed over threads."""

    id: str
    name: str
    label: str
    inputs: tuple[str, ...]
    ms_per_step: float | None = None
    parallelism: float | None = None
    elements_per_step: float | None = None
    bytes_per_step: float | None = None
    buffered_bytes: float | None = None
    place: Place | None = None
    bottleneck: bool = False


@dataclass(frozen=True)
class Pictures:
    """What the HTML report draws."""

    step_times: Chart | None = None
    typical_step: tuple[Bar, ...] = ()
    input_graph: tuple[InputNode, ...] = ()
    series: tuple[Chart, ...] = ()
    step_bands: tuple[Band, ...] = ()  # stretches of step_times, in its x
