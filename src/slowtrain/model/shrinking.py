"""The answer of ``slowtrain shrink``: a model's alternatives as they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slowtrain.model.measurements import Range


@dataclass(frozen=True)
class LayerShare:
    """A layer and its share of the time of all ops of a step."""

    name: str
    share: float


@dataclass(frozen=True)
class LossPoint:
    """The loss after ``seconds`` of steady steps: the mean of the rounds, their lowest and their highest."""

    seconds: float
    loss: float
    low: float
    high: float


@dataclass(frozen=True)
class Alternative:
    """A measured alternative; the script's own model is one, with the name ``as it is``.

    ``speedup`` is that of a sample, beside the script's own model. ``loss`` is the smoothed loss after as many samples
    as all alternatives took. ``reached_s`` are seconds of steps until the loss that the script's own model ends with,
    ``sooner`` how many times sooner that is. They are None if it was not reached; ``peak_bytes`` and ``parameters`` are
    None if they were not measured. ``curve`` is its loss over time, empty if a round reports none; the curves of all
    alternatives have their points at the same seconds.
    """

    name: str
    says: str
    effect: str
    step_ms: float
    samples_per_s: float | None
    speedup: Range
    peak_bytes: int | None = None
    parameters: int | None = None
    loss: float | None = None
    reached_s: float | None = None
    sooner: Range | None = None
    curve: tuple[LossPoint, ...] = ()


@dataclass(frozen=True)
class InferenceForm:
    """The model in a form for inference. ``speedup`` is that of one batch, ``difference`` the mean distance of its
    outputs from the model's, as a share of their standard deviation. ``trainable`` is the share of its parameters that
    training could still change, None if it cannot be trained at all.
    """

    name: str
    bytes: int
    ms: float
    speedup: Range
    difference: float
    trainable: float | None


@dataclass(frozen=True)
class Unmeasured:
    """An alternative that was not measured, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Shrinking:
    """The answer of ``slowtrain shrink``. ``alternatives`` begin with the model as it is.

    ``samples``: after how many samples losses are compared; ``target_loss``: the loss that the model ends with.
    """

    script: str
    command: tuple[str, ...]
    source_sha256: str | None
    measured_on: Mapping[str, str | None]
    layers: tuple[LayerShare, ...]
    alternatives: tuple[Alternative, ...]
    inference: tuple[InferenceForm, ...]
    unmeasured: tuple[Unmeasured, ...]
    samples: int | None
    target_loss: float | None
    rounds: int
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
