"""Copies between host and device, as a device's summary holds them."""

from __future__ import annotations

from slowtrain.values import dataclass


@dataclass(frozen=True)
class Pageable:
    """Of copies those whose end on the host is ordinary memory, which the driver copies into locked memory first."""

    bytes: float
    ms: float
    exposed_ms: float


@dataclass(frozen=True)
class Copies:
    """Copies of one direction, a step: how many, how many bytes, their time and the part that no kernel hides."""

    count: float
    bytes: float
    ms: float
    exposed_ms: float
    pageable: Pageable | None = None  # where the profile tells the memory of all of them
