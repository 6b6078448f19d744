"""The time after a step that was cut from its mark: not part of the step, but reported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slowtrain.columns import intervals
from slowtrain.model import CATEGORY_PHRASES, IdleGap
from slowtrain.number_text import format_number
from slowtrain.profile.activity.device_activity import KIND_NAMES
from slowtrain.profile.activity.timeline import ProfiledDevice, Timeline
from slowtrain.profile.steps.profile_steps import StepTimes
from slowtrain.profile.waits import idle_reasons, step_division

OVERRUN_DETAIL = "after the step"


@dataclass(frozen=True)
class MarkOverrun:
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
        return f"{format_number(self.reason_ms)} ms {CATEGORY_PHRASES[step_division.CATEGORY_BY_REASON[self.reason]]}"

    @property
    def fact(self) -> dict[str, Any]:
        return {"ms": self.ms, "said": self.said}

    @property
    def note(self) -> str:
        cut = f"the profile's mark of the last step ends {format_number(self.ms)} ms after the call of its function"
        return f"{cut} ({self.said}), at an op of later work: that time is not counted as part of the step"


def find_mark_overrun(found: StepTimes, whole: Timeline, device: ProfiledDevice) -> MarkOverrun | None:
    """Return the time after the last step; None if the marks were right."""
    if found.behind is None:
        return None
    start, end = found.behind
    span = np.array([start]), np.array([end])
    busy = device.activities.busy(*range(len(KIND_NAMES)))
    waits = idle_reasons.device_idle_reasons(whole, device, intervals.subtract(span, busy))
    reason = max(waits.reasons, key=waits.ms, default=idle_reasons.UNATTRIBUTED_REASON)
    origin = float(found.start_ms[0])
    gaps = tuple(
        replace(gap, detail=OVERRUN_DETAIL) for gap in idle_reasons.longest_gaps(whole, device, waits, origin)[:1]
    )
    return MarkOverrun(end - start, reason, waits.ms(reason), gaps, len(found) == 1)


def merge_longest_gaps(gaps: tuple[IdleGap, ...], behind: MarkOverrun | None) -> tuple[IdleGap, ...]:
    """Return the longest gaps of the steps and of the time after the last one."""
    every = (*gaps, *(behind.gaps if behind is not None else ()))
    return tuple(sorted(every, key=lambda gap: -gap.ms)[: idle_reasons.MAX_LONGEST_GAPS])
