"""Copies between host and device, in a device's summary."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PageableCopies:
    """Copies from or to pageable host memory, which the driver first copies into pinned memory."""

    bytes: float
    ms: float
    exposed_ms: float


@dataclass(frozen=True)
class DirectionCopies:
    """Copies of one direction per step: count, bytes, time, and the part of the time that no kernel hides."""

    count: float
    bytes: float
    ms: float
    exposed_ms: float
    pageable: PageableCopies | None = None  # set if the profile gives the kind of memory of every copy
