"""What a script needs of a device's memory, and what its batch size does: the nouns of ``memory`` and ``batch``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from slowtrain.values import dataclass


@dataclass(frozen=True)
class Device:
    """Memory to fit into. ``source`` says where its size is from.

    ``known``: by its size alone (``given``), as a card of the table (``card``), or as this computer's (``here``).
    """

    name: str
    limit_bytes: int
    source: str
    known: str = "given"


@dataclass(frozen=True)
class Need:
    """What one batch size takes at its peak, by what holds it; ``layers`` divides the activations."""

    batch: int
    peak_bytes: int
    parts: Mapping[str, int]
    layers: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class MemoryAnswer:
    """``largest_batch`` is None where no device was asked for, 0 where not even one sample fits.

    ``error_share``: the furthest that a peak foretold from the smaller probes was from the measured one; None with two.
    ``tried``: each run under the device's limit, its batch and whether it fitted; of an answer that only they gave
    the replay knows no ``largest_peak_bytes``.
    """

    script: str
    allocator: str
    need: Need
    device: Device | None
    fits: bool | None
    largest_batch: int | None
    largest_peak_bytes: int | None
    measured: tuple[tuple[int, int], ...]  # batch and peak bytes of every probe
    error_share: float | None
    notes: tuple[str, ...] = ()
    tried: tuple[tuple[int, bool], ...] = ()


@dataclass(frozen=True)
class Point:
    """Steady steps at one batch size. The interval is of the mean, over parts of the steps."""

    batch: int
    step_ms: float
    samples_per_s: float
    low: float
    high: float
    peak_bytes: int | None = None


@dataclass(frozen=True)
class BatchCurve:
    """``knee``: beyond it no doubling gained ``gain_share``; None where it lies beyond what was measured, or where no
    batch below it, or too few in all, were measured (``still_gains`` tells these apart).

    ``knee_low`` and ``knee_high`` are where it would lie at the ends of the intervals. ``fixed_ms`` and
    ``ms_per_sample`` are a line through the steps' times, with the range that leaving any one point out gives.
    ``measured_on`` is kind and name of the device that took the steps, ``device`` the one whose memory
    ``limit_batch`` is foretold for.
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
        """Whether the last doubling that was measured gained ``gain_share``."""
        if len(self.points) < 2:
            return False
        before, last = self.points[-2:]
        return last.samples_per_s >= (1 + self.gain_share) * before.samples_per_s
