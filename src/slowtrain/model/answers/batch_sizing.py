"""Nouns of ``memory`` and ``batch``: what a script needs of a device's memory, and the effect of its batch size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Device:
    """Memory to fit into. ``source`` says where its size is from.

    ``known``: given by size (``given``), as a card of the table (``card``), or as this computer's (``here``).
    """

    name: str
    limit_bytes: int
    source: str
    known: str = "given"


@dataclass(frozen=True)
class Need:
    """The peak at one batch size, by what holds it; ``layers`` divides the activations."""

    batch: int
    peak_bytes: int
    parts: Mapping[str, int]
    layers: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class MemoryAnswer:
    """``largest_batch`` is None if no device was asked for, 0 if not even one sample fits.

    ``error_share``: the largest error of a peak predicted from smaller probes; None with two probes. ``tried``: each
    run under the device's limit, with its batch and whether it fitted. If only those runs gave the answer,
    ``largest_peak_bytes`` is None.
    """

    script: str
    allocator: str
    need: Need
    device: Device | None
    fits: bool | None
    largest_batch: int | None
    largest_peak_bytes: int | None
    measured: tuple[tuple[int, int], ...]  # (batch, peak bytes) of every probe
    error_share: float | None
    notes: tuple[str, ...] = ()
    tried: tuple[tuple[int, bool], ...] = ()


@dataclass(frozen=True)
class Point:
    """Steady steps at one batch size. The interval is that of the mean, over parts of the steps."""

    batch: int
    step_ms: float
    samples_per_s: float
    low: float
    high: float
    peak_bytes: int | None = None


@dataclass(frozen=True)
class BatchCurve:
    """Throughput over batch size, and its ``knee``: no doubling beyond it gained ``gain_share``.

    ``knee`` is None if it lies beyond the measured batches, or if no smaller batch or too few batches were measured
    (``still_gains`` distinguishes these). ``knee_low`` and ``knee_high``: the knee at the ends of the intervals.
    ``fixed_ms`` and ``ms_per_sample``: a line through the steps' times, with the range from leaving out any one point.
    ``measured_on``: kind and name of the device that took the steps. ``device``: the device for whose memory
    ``limit_batch`` is predicted.
    """

    script: str
    batch: int
    points: tuple[Point, ...]
    knee: int | None
    knee_low: int | None
    knee_high: int | None
    gain_share: float
    fixed_ms: float | None
    ms_per_sample: float | None
    fixed_low_ms: float | None = None
    fixed_high_ms: float | None = None
    limit_batch: int | None = None
    device: Device | None = None
    ended: str = ""  # why no further batch was tried
    measured_on: Mapping[str, str | None] = field(default_factory=dict)
    source_sha256: str | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def still_gains(self) -> bool:
        """Whether the last measured doubling gained ``gain_share``."""
        if len(self.points) < 2:
            return False
        before, last = self.points[-2:]
        return last.samples_per_s >= (1 + self.gain_share) * before.samples_per_s
