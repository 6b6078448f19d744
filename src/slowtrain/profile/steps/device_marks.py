"""Checks a device's own marks of steps against the calls of the training function.

A mark covers the first to the last work that the profiler assigned to the step. The callback that ends the profile
often starts a tiny op after its Python code, and that op counts as work of the last step. The mark then covers the
whole callback. In one project 89 of 107 published profiles had such a mark, 2 to 11 times too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slowtrain.columns.array_statistics import median_value
from slowtrain.columns.arrays import Bools, Floats
from slowtrain.profile.activity.device_activity import Activities
from slowtrain.profile.activity.host_threads import HostThread
from slowtrain.profile.activity.timeline import ProfiledDevice, launch_calls

# Largest share of a mark's work that callback ops after the calls can have. Logical ops and copies of a number
# take microseconds; the shortest step that is profiled takes a millisecond.
MAX_OVERRUN_WORK_SHARE = 0.05
# Relative to the calls. A smaller overrun changes no share of the step by more than a tenth, and is kept.
MIN_OVERRUN_SHARE = 0.1
# Relative to the usual mark. A last mark as long as the others contains what every step has after its call.
MAX_USUAL_MARK_RATIO = 1.25


@dataclass(frozen=True)
class CheckedMarks:
    """The steps; ``behind``: start and end of what was cut from the last mark, None if nothing was cut."""

    start_ms: Floats
    end_ms: Floats
    behind: tuple[float, float] | None = None


def check_device_marks(
    marked: tuple[Floats, Floats], device: ProfiledDevice, threads: Sequence[HostThread], called: Sequence[Floats]
) -> CheckedMarks:
    """Return the marks, the last one cut if it is too long. ``called``: start and end of each training call.

    Only the last mark can be wrong in this way, because the time between two calls belongs to an iteration.
    """
    order = np.argsort(marked[0], kind="stable")
    start, end = marked[0][order], marked[1][order]
    whole = CheckedMarks(start, end)
    at = int(end.argmax())
    before = called[0] < end[at]
    if not before.any() or at != len(start) - 1:
        return whole
    usual = float(median_value(end[:at] - start[:at])) if at else 0.0
    if end[at] - start[at] <= MAX_USUAL_MARK_RATIO * usual:
        return whole
    last = float(called[1][before].max())
    # If the host was ahead, its call had ended when the device began.
    first = float(called[0][before & (called[1] > start[at])].min(initial=np.inf))
    near = (device.activities.end_ms > start[at]) & (device.activities.start_ms < end[at])
    work = device.activities.where(near)
    own = _launched_before(work, threads, last)
    if not own.any() or float(work.ms[~own].sum()) > MAX_OVERRUN_WORK_SHARE * float(work.ms.sum()):
        return whole
    begun = max(min(first, float(start[at])), float(end[:at].max(initial=-np.inf)))
    done = max(last, float(work.end_ms[own].max()))
    if end[at] - done <= MIN_OVERRUN_SHARE * (done - begun):
        return whole
    start, cut = start.copy(), end.copy()
    start[at], cut[at] = begun, done
    return CheckedMarks(start, cut, (done, float(end[at])))


def _launched_before(work: Activities, threads: Sequence[HostThread], moment_ms: float) -> Bools:
    """Return which work the host had started by then; for work without a known call, which work had begun."""
    caller, begun, _ = launch_calls(threads, work.correlation)
    return np.asarray(np.where(caller >= 0, begun, work.start_ms) <= moment_ms)
