"""What a profile lacks, as far as it shows it: dropped events, devices without a timeline, hidden kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Floats
from slowtrain.columns.intervals import Intervals
from slowtrain.columns.steps import MIN_TELLING_STEPS
from slowtrain.number_text import first_names
from slowtrain.profile import framework_names
from slowtrain.profile.format import xplane
from slowtrain.profile.host_threads import HostThread
from slowtrain.profile.profile_steps import StepTimes
from slowtrain.profile.timeline import ProfiledDevice, Timeline, host_name, launch_calls

# Calls of the driver or its runtime on a host thread. [V J], source marks as for the framework's names
_GPU_CALL = r"(?:cu(?:da)?|hip)(?:ExtModule|Module|Graph)?(?:Launch|Memcpy|Memset)\w{0,40}"
MAX_NAMED_DEVICES = 8  # devices in one note
_PERMIT_HINT = "not permitted: set the driver's option NVreg_RestrictProfilingToAdminUsers=0, or run as root"
_INSTALL_HINT = "missing: install it for the framework, and add its folder to LD_LIBRARY_PATH"
_WITHOUT_BUFFERS_HINT = "set XLA_FLAGS=--xla_gpu_enable_command_buffer= to record without them"


def missing_data_notes(
    spaces: Sequence[xplane.Space], whole: Timeline, device: ProfiledDevice | None, steps: int
) -> Iterator[str]:
    """Yield what the reader should know. ``steps``: how many steps were found, 0 if they are unknown."""
    if 0 < steps < MIN_TELLING_STEPS:
        what = "only one step" if steps == 1 else f"only {steps} steps"
        yield f"the profile has {what}, which does not show how much steps vary or what happens only in some of them"
    if not steps:
        yield (
            "no steps were found in the profile, neither from marks nor from repetition: the whole profile counts "
            "as one step"
        )
    for number, space in enumerate(spaces):
        host = host_name(spaces, number)
        yield from _profiler_notes(space, [d for d in whole.devices if d.host == host and d.kind != "CPU"])
        yield from _command_buffer_notes(whole, host)
    yield from _device_notes(whole, device)


def _profiler_notes(space: xplane.Space, devices: Sequence[ProfiledDevice]) -> Iterator[str]:
    """Yield the profiler's own errors and warnings, and what it should have recorded."""
    yield from (f"the profiler reported an error: {e.splitlines()[0][:300]}" for e in space.errors if e.strip())
    yield from (f"the profiler reported a warning: {w.splitlines()[0][:300]}" for w in space.warnings if w.strip())
    if (lost := dropped_event_count(space)) > 0:
        yield f"the profiler dropped {lost:,} events: steps after the last recorded event are left out"
    if not any(len(d.activities) for d in devices) and (why := unseen_gpu_reason(space)):
        yield why


def unseen_gpu_reason(space: xplane.Space) -> str:
    """Return why a profile has no events of a GPU that was used; empty if no GPU was used."""
    names = {text for p in space.planes for text in (*p.stat_names.values(), *p.event_names.values())}
    forbidden, absent = (
        any(text in e for e in space.errors)
        for text in (framework_names.CUPTI_NOT_PERMITTED, framework_names.CUPTI_NOT_FOUND)
    )
    silent = any(p.name.startswith(framework_names.GPU_PLANE) for p in space.planes)
    used = silent or any(
        re.fullmatch(framework_names.DEVICE_ALLOCATOR, text) or re.fullmatch(_GPU_CALL, text) for text in names
    )
    if not (forbidden or absent or used):
        return ""
    why = (
        _PERMIT_HINT
        if forbidden
        else _INSTALL_HINT
        if absent
        else f"{_INSTALL_HINT}; or {_PERMIT_HINT}; the run's log shows which"
    )
    interface = "the driver's profiling interface (CUPTI, rocprofiler)"
    return f"the run used a GPU, but the profile has no GPU events: {interface} was {why}"


def dropped_event_count(space: xplane.Space) -> int:
    """Return how many events the profiler had no room for."""
    counted = sum(
        v for p in space.planes for k, v in p.stats.items() if k == framework_names.DROPPED_STAT and isinstance(v, int)
    )
    warned = sum(
        int(count[:18]) for warning in space.warnings for count in re.findall(framework_names.DROPPED_WARNING, warning)
    )
    return max(counted, warned)


def recorded_steps(found: StepTimes, whole: Timeline, device: ProfiledDevice) -> StepTimes:
    """Keep the steps before the profiler's event buffer filled up, if device events were dropped."""
    ends = [float(d.activities.end_ms.max()) for d in whole.devices if d.host == device.host and len(d.activities)]
    keep = found.start_ms < max(ends, default=0.0)
    # The last of these may be incomplete.
    keep[np.flatnonzero(keep)[-1:]] = bool(keep.all()) or keep.sum() == 1
    return found.where(slice(int(keep.sum()))) if keep.any() else found


# -- CUDA and HIP graphs, which XLA calls command buffers: one launch for many kernels


def _command_buffer_notes(whole: Timeline, host: str) -> Iterator[str]:
    threads = [t for t in whole.threads if t.host == host]
    count = sum(len(start) for start, _ in map(_graph_launches, threads))
    runs = sum(_graph_run_count(d) for d in whole.devices if d.host == host)
    if not count and not runs:
        return
    unseen = len(_unseen_launches(whole, host))
    if unseen:
        what = f"{unseen:,} of {count:,} launches of command buffers (CUDA or HIP graphs) have no kernel in the profile"
        yield f"{what}: the device time of these is unattributed; {_WITHOUT_BUFFERS_HINT}"
    elif runs:
        yield f"{runs:,} runs of command buffers (CUDA or HIP graphs) hide their kernels; {_WITHOUT_BUFFERS_HINT}"
    else:
        what = f"{count:,} launches of command buffers (CUDA or HIP graphs): all kernels of one buffer share a launch"
        yield f"{what}; {_WITHOUT_BUFFERS_HINT}"


def _graph_launches(thread: HostThread) -> tuple[Floats, Floats]:
    """Return when CUDA or HIP graphs were launched, and the correlation ids."""
    start, _, correlation, name = thread.launches
    graph = np.array([re.search(framework_names.GRAPH_LAUNCH, text) is not None for text in thread.texts], dtype=bool)
    mine = graph[name] if len(name) else np.zeros(0, dtype=bool)
    return start[mine], correlation[mine]


def _graph_run_count(device: ProfiledDevice) -> int:
    acts = device.activities
    whole = np.array([re.match(framework_names.GRAPH_RUN, text) is not None for text in acts.texts], dtype=bool)
    return int(whole[acts.name].sum()) if len(acts) else 0


def _unseen_launches(whole: Timeline, host: str) -> Floats:
    """Return when graphs were launched that have no kernel on any device."""
    seen = [d.activities.correlation for d in whole.devices if d.host == host]
    found = [_graph_launches(t) for t in whole.threads if t.host == host]
    if not found:
        return np.zeros(0)
    start, correlation = (np.concatenate([one[i] for one in found]) for i in range(2))
    return np.sort(start[~np.isin(correlation, np.concatenate(seen))]) if seen else np.zeros(0)


def hidden_graph_times(whole: Timeline, device: ProfiledDevice) -> Intervals:
    """Return when ``device`` may have run hidden graphs: from a graph's launch to the next visible work."""
    at = _unseen_launches(whole, device.host)
    acts = device.activities
    if not len(at) or not len(acts):
        return intervals.EMPTY
    _, called, _ = launch_calls([t for t in whole.threads if t.host == device.host], acts.correlation)
    order = np.argsort(called, kind="stable")
    # The earliest start of work that was launched at each moment or later.
    first = np.append(np.minimum.accumulate(acts.start_ms[order][::-1])[::-1], whole.end_ms)
    later = first[np.searchsorted(called[order], at, side="right")]
    return intervals.union(at, np.maximum(later, at))


# -- the devices


def _device_notes(whole: Timeline, device: ProfiledDevice | None) -> Iterator[str]:
    """Yield what the reader should know of the devices themselves."""
    accelerators = [d for d in whole.devices if d.kind != "CPU"]
    several = len({d.host for d in accelerators}) > 1

    def device_names(devices: Sequence[ProfiledDevice]) -> str:
        each = [d.name.removeprefix("/device:") + (f" of {d.host}" if several else "") for d in devices]
        return ", ".join(first_names(each, MAX_NAMED_DEVICES))

    silent = [d for d in accelerators if not len(d.activities)]
    active = {id(d) for d in whole.active}  # devices of two hosts may have the same name
    copying = [d for d in accelerators if len(d.activities) and id(d) not in active]
    if device is not None and len(accelerators) > 1:
        others = [d for d in whole.active[1:] if d.kind != "CPU"]
        yield f"the report covers {device_names([device])}, the busiest of {len(accelerators)} devices" + (
            f"; {device_names(others)} also computed" if others else ""
        )
    if silent and accelerators:
        yield f"{len(silent)} of {len(accelerators)} devices have no events in the profile: {device_names(silent)}"
    if copying:
        yield f"only copies, no kernels, on {device_names(copying)}"
