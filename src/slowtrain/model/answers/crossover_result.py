"""Nouns of a crossover: one script on two devices, and the batch from which each of them is faster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Range:
    """A value with its 95 % interval; an end is infinite if the data set no bound."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Timing:
    """One process: ``start_s`` until its first step, the duration of that step, and the mean steady step."""

    setting: str
    batch: int
    start_s: float
    first_ms: float
    step_ms: float


@dataclass(frozen=True)
class Fit:
    """``a + b * batch`` in ms through the processes of one setting. ``off_share``: the largest deviation of a mean.

    ``drawn``: the line with its interval at batches up to the largest, for a chart.
    """

    fixed_ms: Range
    per_sample_ms: Range
    off_share: float
    processes: int
    drawn: tuple[tuple[float, Range], ...] = ()


@dataclass(frozen=True)
class Side:
    """One setting: its processes, the line through them, the parts of a step's time in ms, and the start in s.

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
    """At one batch: the faster side, its speed-up per step, and the steps after which it is ahead, start included."""

    batch: int
    faster: str
    speedup: Range
    steps: Range | None


@dataclass(frozen=True)
class Crossover:
    """Two sides. ``winner`` has the flatter line; it is faster from ``batch`` on. None if no line could be fitted."""

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
