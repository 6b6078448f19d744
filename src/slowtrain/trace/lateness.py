"""The time after a step that was cut from its mark: not part of the step, but reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from slowtrain.figures import plain
from slowtrain.model import SAID, IdleGap
from slowtrain.trace import division, idle, intervals
from slowtrain.trace.activities import KINDS
from slowtrain.trace.cadence import Cadence
from slowtrain.trace.timeline import Device, Timeline
from slowtrain.values import dataclass

DETAIL = "behind the step"


@dataclass(frozen=True)
class Behind:
    """``ms`` after the last step's call; for ``reason_ms`` of it the device waits for one reason.

    ``alone``: the profile has no other step, so that it is unknown whether every step has this time.
    """

    ms: float
    reason: str
    reason_ms: float
    gaps: tuple[IdleGap, ...]
    alone: bool

    @property
    def said(self) -> str:
        return f"{plain(self.reason_ms)} ms {SAID[division.REASONS[self.reason]]}"

    @property
    def fact(self) -> dict[str, Any]:
        return {"ms": self.ms, "said": self.said}

    @property
    def note(self) -> str:
        cut = f"the profile's mark of the last step reaches {plain(self.ms)} ms beyond the call of its function"
        return f"{cut} ({self.said}), to an op of what came then: that is no part of the step here"


def find(found: Cadence, whole: Timeline, device: Device) -> Behind | None:
    """Return the time after the last step; None if the marks were right."""
    if found.behind is None:
        return None
    start, end = found.behind
    span = np.array([start]), np.array([end])
    busy = device.activities.busy(*range(len(KINDS)))
    waits = idle.attribute(whole, device, intervals.subtract(span, busy))
    reason = max(waits.reasons, key=waits.ms, default=idle.UNKNOWN)
    origin = float(found.start_ms[0])
    gaps = tuple(replace(gap, detail=DETAIL) for gap in idle.longest(whole, device, waits, origin)[:1])
    return Behind(end - start, reason, waits.ms(reason), gaps, len(found) == 1)


def with_gaps(gaps: tuple[IdleGap, ...], behind: Behind | None) -> tuple[IdleGap, ...]:
    """Return the longest gaps of the steps and of the time after the last one."""
    every = (*gaps, *(behind.gaps if behind is not None else ()))
    return tuple(sorted(every, key=lambda gap: -gap.ms)[: idle.LONGEST])
