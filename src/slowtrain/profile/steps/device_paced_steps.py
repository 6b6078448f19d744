"""Steps of a device that is behind its host, which has already called the next steps.

JAX returns from a call as soon as the work is queued, and TensorFlow from a function's asynchronous ops. A step of
0.4 ms on the host can be 97 ms on the device. A step then lasts from the first kernel that was launched in it to the
first kernel of the next step.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slowtrain.columns import intervals
from slowtrain.columns.array_statistics import median_value
from slowtrain.profile.activity.device_activity import COLLECTIVE, KERNEL
from slowtrain.profile.activity.timeline import ProfiledDevice, Timeline, launch_calls
from slowtrain.profile.steps.profile_steps import StepTimes

MIN_OUTSIDE_WORK_SHARE = (
    0.1  # of the work computed outside the step that launched it; below this the host's steps are used
)
MIN_LAST_KERNEL_SHARE = 0.9  # of the usual number of kernels; a last step with fewer was cut off
MIN_LAST_STEP_SHARE = 0.7  # of the usual time; a shorter last step lacks the wait before the next one


def device_paced_times(found: StepTimes, whole: Timeline, device: ProfiledDevice) -> StepTimes:
    """Return the host's steps, or the same steps as ``device`` took them if it was behind."""
    work = device.activities.of(KERNEL, COLLECTIVE)
    if device.kind == "CPU" or found.by_device or not len(work) or not len(found):
        return found
    threads = [t for t in whole.threads if t.host == device.host]
    _, called, _ = launch_calls(threads, work.correlation)
    # Work launched between two steps belongs to the previous one: its callbacks, its metrics.
    at = intervals.sorted_positions(found.start_ms, called, "right") - 1
    mine = (at >= 0) & (called < found.end_ms[-1])
    work, at = work.where(mine), at[mine]
    if not len(work):
        return found
    inside = np.minimum(work.end_ms, found.end_ms[at]) - np.maximum(work.start_ms, found.start_ms[at])
    if np.maximum(inside, 0.0).sum() >= (1 - MIN_OUTSIDE_WORK_SHARE) * work.ms.sum():
        return found
    count = np.bincount(at, minlength=len(found))
    began = np.full(len(found), np.inf)
    np.minimum.at(began, at, work.start_ms)
    # The device takes steps in the order of their calls; a step without a kernel is part of the previous one.
    taken = np.flatnonzero(count)
    last = taken[-1]
    if len(taken) > 1 and count[last] < MIN_LAST_KERNEL_SHARE * float(median_value(count[taken])):
        taken = taken[:-1]
        end = np.append(began[taken[1:]], began[last])
    else:
        end = np.append(began[taken[1:]], work.end_ms[at == last].max())
    start = np.maximum.accumulate(began[taken])
    if len(taken) > 2 and end[-1] - start[-1] < MIN_LAST_STEP_SHARE * float(median_value(end[:-1] - start[:-1])):
        taken, start, end = taken[:-1], start[:-1], end[:-1]
    says = f"{found.source}, with the times of the device because the host ran ahead of it"
    host = (found.start_ms[taken], found.end_ms[taken])
    return replace(found, start_ms=start, end_ms=np.maximum(end, start), source=says, called=host)
