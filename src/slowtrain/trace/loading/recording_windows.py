"""What the profiler's windows in a recording show: the host's ops, and what an accelerator did in the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns.arrays import Floats
from slowtrain.columns.device import Device, Kernels
from slowtrain.columns.intervals import Intervals
from slowtrain.columns.steps import Steps
from slowtrain.errors import InputError
from slowtrain.profile import framework_names, host_threads, profile_steps, timeline
from slowtrain.profile.format import xplane
from slowtrain.profile.profile_steps import StepTimes
from slowtrain.profile.summaries import device_summary, missing_data, step_division, window_ops
from slowtrain.profile.summaries.window_ops import ProfileWindow
from slowtrain.recording.reader import Recording
from slowtrain.trace.loading import side_files
from slowtrain.trace.run_division import attribution

# For a window without the GPU's timeline: the host's ops only start its work, and do not compute.
HOST_OPS_UNKNOWN: Mapping[str, Any] = {
    **dict.fromkeys(("busy_ms", "ms", "count", "eager_ms", "eager_work_ms"), 0.0), "by_type": {}, "by_name": {},
}  # fmt: skip
DeepWindows = tuple[Kernels | None, Device | None, step_division.WindowDivision | None]


class WindowSummary(Struct, frozen=True):
    """What an accelerator did in a recording's profiler window: its summary, its ops, the division of a step."""

    device: Device
    ops: Kernels
    window: step_division.WindowDivision


def read_deep_windows(raw: Recording, found: Steps, *, eager: bool) -> DeepWindows:
    """Return the content of the window with the most steps; on an accelerator from its own timeline."""
    window, deep = next(_readable_windows(raw, found), (None, None))
    if window is None or deep is None:
        return None, None, None
    lanes = partial(attribution.main_lanes, raw, eager=eager)
    seen = summarize_window(window, attribution.main_thread_waits(raw), lanes)
    if seen is None:
        unseen = not _has_device_lines(window.space) and missing_data.unseen_gpu_reason(window.space)
        return replace(deep, **HOST_OPS_UNKNOWN) if unseen else deep, None, None
    onto = {name: getattr(seen.ops, name) for name in ("busy_ms", "ms", "count", "by_type", "by_name")}
    # Ops started from Python compute in the device's kernels, so that they have no time of their own.
    return replace(deep, **onto, eager_ms=0.0, eager_work_ms=0.0), seen.device, seen.window


def _readable_windows(raw: Recording, found: Steps) -> Iterator[tuple[ProfileWindow, Kernels]]:
    """Yield the windows that can be read, with what the host ran in their steps; those with the most steps first."""
    for file, clock_ms, begun_ms, steps in sorted(_window_files(raw, found), key=lambda row: -len(row[3])):
        try:
            window = window_ops.open_window(file, clock_ms, begun_ms, steps)
            ops = window_ops.host_window_ops(window.space, window.origin_ms, steps, whole=True)
        except (InputError, OSError):
            continue
        if ops is not None:
            yield window, ops


def _window_files(raw: Recording, found: Steps) -> Iterator[tuple[Path, float, float, StepTimes]]:
    """Yield each window's profile, its clock, when it began, and the steps inside it, in ms of the run."""
    for event, _, file in side_files.deep_window_files(raw.folder, raw.events):
        if file is None:
            continue
        stop = (float(event.data["last_step_ns"]) - raw.start_ns) / 1e6
        inside = (found.start_ms >= event.start_ms - 0.2) & (found.end_ms <= stop + 0.2)
        clock = -(float(event.data["clock_ns"]) + raw.start_ns) / 1e6
        begun = (float(event.data["begun_ns"]) - raw.start_ns) / 1e6
        if inside.any():
            steps = StepTimes(found.start_ms[inside], found.end_ms[inside], "the recorder's own steps")
            yield file, clock, begun, steps


def _has_device_lines(space: xplane.Space) -> bool:
    return any(p.name.startswith(framework_names.DEVICE_PLANES) and p.lines for p in space.planes)


def summarize_window(
    window: ProfileWindow,
    noted: Mapping[str, Intervals] = MappingProxyType({}),
    lanes: Callable[[Floats, Floats], Mapping[step_division.LaneGroup, Intervals]] | None = None,
) -> WindowSummary | None:
    """Return what an accelerator did in a recording's profiler window; None if none wrote a timeline.

    ``noted``: what the recorder knows of the main thread, as times by reason in ms of the run. Without Python's
    frames the profiler does not record how Python makes a batch. ``lanes`` returns the same by lane, between given
    moments of the run.
    """
    if not _has_device_lines(window.space):
        return None
    try:
        whole = timeline.read_timeline([window.space])
    except (InputError, OSError):
        return None
    device = whole.active[0] if whole.active else None
    if device is None or device.kind == "CPU":
        return None
    origin_ms = window.origin_ms
    found = replace(window.steps, start_ms=window.steps.start_ms - origin_ms, end_ms=window.steps.end_ms - origin_ms)
    found = step_division.settled_steps(profile_steps.device_paced_times(found, whole, device))
    main = more = host_threads.find_main_thread(whole.threads)
    if main is not None and more is not None:
        for reason, (start, end) in noted.items():
            more = more.with_spans(reason, "as the recorder noted", (start - origin_ms, end - origin_ms))
        whole = replace(whole, threads=tuple(more if t is main else t for t in whole.threads))
    spans, waits = step_division.device_spans(whole, device, found)
    own = lanes(found.start_ms + origin_ms, found.end_ms + origin_ms) if lanes is not None else {}
    by_lane = {lane: (start - origin_ms, end - origin_ms) for lane, (start, end) in own.items()}
    by_lane = by_lane or {None: (found.start_ms[:1], found.end_ms[-1:])}
    summary = device_summary.summarize_device(whole, device, found, waits)
    divided = step_division.divide_window(spans, waits, found, by_lane)
    return WindowSummary(summary, device_summary.device_ops(device.activities, found), divided)
