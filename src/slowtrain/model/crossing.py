"""The nouns of a crossover: one script on two devices, and from where on which of them wins. As in ``model``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from slowtrain.values import dataclass


@dataclass(frozen=True)
class Range:
    """A value with its 95 % interval; infinite where the data allow no end."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Timing:
    """One process: ``start_s`` from its start to the first step, that step, the mean of the steady ones."""

    setting: str
    batch: int
    start_s: float
    first_ms: float
    step_ms: float


@dataclass(frozen=True)
class Fit:
    """``a + b * batch`` in ms through the processes of one setting; ``off_share``: how far a mean is off it at most.

    ``drawn``: the line with its interval at batches up to the largest, for a picture.
    """

    fixed_ms: Range
    per_sample_ms: Range
    off_share: float
    processes: int
    drawn: tuple[tuple[float, Range], ...] = ()


@dataclass(frozen=True)
class Side:
    """One setting: its processes, the line through them, where a step's time and the start go (ms, s).

    ``measured_on``: kind and name of the device that took its steps.
    """

    name: str
    timings: tuple[Timing, ...]
    fit: Fit | None
    start_s: Range
    first_ms: float
    parts: Mapping[str, float] = field(default_factory=dict)
    measured_on: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Overtaking:
    """At one batch: the faster side in the step, by how much, and the steps after which it is ahead, start included."""

    batch: int
    faster: str
    speedup: Range
    steps: Range | None


@dataclass(frozen=True)
class Crossover:
    """Two sides. ``winner`` has the flatter line: it wins from ``batch`` on (None: no line could be laid)."""

    script: str
    command: tuple[str, ...]
    source_sha256: str | None
    own_batch: int
    sides: tuple[Side, ...]
    winner: str | None
    batch: Range | None
    overtaking: tuple[Overtaking, ...]
    device: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
