"""What a profile lacks, as far as it shows it: dropped events, devices without a timeline, hidden kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from slowtrain.figures import few
from slowtrain.patterns import late
from slowtrain.trace import FEW_STEPS, Floats, intervals, names, xplane
from slowtrain.trace.cadence import Cadence
from slowtrain.trace.intervals import Intervals
from slowtrain.trace.ordered import among
from slowtrain.trace.timeline import Device, Thread, Timeline, calls, host_of

# Calls of the driver or its runtime on a host thread. [V J], source marks as for the framework's names
_GPU_CALL = late(r"(?:cu(?:da)?|hip)(?:ExtModule|Module|Graph)?(?:Launch|Memcpy|Memset)\w{0,40}")
MOST_NAMED = 8  # devices in one note
_PERMIT = "not permitted: the driver's option NVreg_RestrictProfilingToAdminUsers=0 permits it, or run as root"
_INSTALL = "missing: install it beside the framework, and let LD_LIBRARY_PATH lead to it"


def notes(spaces: Sequence[xplane.Space], whole: Timeline, device: Device | None, steps: int) -> Iterator[str]:
    """Yield what the reader should know. ``steps``: how many steps were found, 0 if they are unknown."""
    if 0 < steps < FEW_STEPS:
        what = "only one step" if steps == 1 else f"only {steps} steps"
        yield f"{what} in the profile: whether that is usual, and what comes now and then, it cannot tell"
    if not steps:
        yield "no steps could be told in the profile, neither by marks nor by what repeats: all of it counts as one"
    for number, space in enumerate(spaces):
        host = host_of(spaces, number)
        yield from _recorded(space, [d for d in whole.devices if d.host == host and d.kind != "CPU"])
        yield from _graphs(whole, host)
    yield from _devices(whole, device)


def _recorded(space: xplane.Space, devices: Sequence[Device]) -> Iterator[str]:
    """Yield the profiler's own errors and warnings, and what it should have recorded."""
    yield from (f"the profiler noted an error: {e.splitlines()[0][:300]}" for e in space.errors if e.strip())
    yield from (f"the profiler warned: {w.splitlines()[0][:300]}" for w in space.warnings if w.strip())
    if (lost := dropped(space)) > 0:
        yield f"{lost:,} events were dropped while it was recorded: steps behind the last that is there are left out"
    if not any(len(d.activities) for d in devices) and (why := unseen_gpu(space)):
        yield why


def unseen_gpu(space: xplane.Space) -> str:
    """Return why a profile has no events of a GPU that was used; empty if no GPU was used."""
    said = {text for p in space.planes for text in (*p.stat_names.values(), *p.event_names.values())}
    forbidden, absent = (any(text in e for e in space.errors) for text in (names.NOT_PERMITTED, names.NOT_THERE))
    silent = any(p.name.startswith(names.GPU_PLANE) for p in space.planes)
    used = silent or any(names.DEVICE_ALLOCATOR.fullmatch(text) or _GPU_CALL.fullmatch(text) for text in said)
    if not (forbidden or absent or used):
        return ""
    why = _PERMIT if forbidden else _INSTALL if absent else f"{_INSTALL}; or {_PERMIT}; the run's log tells which"
    interface = "the driver's profiling interface (CUPTI, rocprofiler)"
    return f"a GPU was used, but the profile holds nothing of what it did: {interface} was {why}"


def dropped(space: xplane.Space) -> int:
    """Return how many events the profiler had no room for."""
    counted = sum(v for p in space.planes for k, v in p.stats.items() if k == names.DROPPED and isinstance(v, int))
    warned = sum(int(count[:18]) for warning in space.warnings for count in names.DROPPED_WARNING.findall(warning))
    return max(counted, warned)


def recorded(found: Cadence, whole: Timeline, device: Device) -> Cadence:
    """Keep the steps before the profiler's event buffer filled up, if device events were dropped."""
    ends = [float(d.activities.end_ms.max()) for d in whole.devices if d.host == device.host and len(d.activities)]
    keep = found.start_ms < max(ends, default=0.0)
    # The last of these may be incomplete.
    keep[np.flatnonzero(keep)[-1:]] = bool(keep.all()) or keep.sum() == 1
    return found.where(slice(int(keep.sum()))) if keep.any() else found


# -- CUDA and HIP graphs, which XLA calls command buffers: one launch for many kernels


def _graphs(whole: Timeline, host: str) -> Iterator[str]:
    threads = [t for t in whole.threads if t.host == host]
    count = sum(len(start) for start, _ in map(_launches, threads))
    runs = sum(_runs(d) for d in whole.devices if d.host == host)
    if not count and not runs:
        return
    unseen = len(_unseen(whole, host))
    if unseen:
        what = f"{unseen:,} of {count:,} launches of command buffers (CUDA or HIP graphs) have no kernel in the profile"
        yield f"{what}: what the device did then is unattributed; {_WITHOUT}"
    elif runs:
        yield f"{runs:,} runs of command buffers (CUDA or HIP graphs) hide their kernels; {_WITHOUT}"
    else:
        what = f"{count:,} launches of command buffers (CUDA or HIP graphs): the kernels of one have one launch"
        yield f"{what}; {_WITHOUT}"


_WITHOUT = "XLA_FLAGS=--xla_gpu_enable_command_buffer= records without them"


def _launches(thread: Thread) -> tuple[Floats, Floats]:
    """Return when CUDA or HIP graphs were launched, and the correlation ids."""
    start, _, correlation, name = thread.launches
    graph = np.array([names.GRAPH_LAUNCH.search(text) is not None for text in thread.texts], dtype=bool)
    mine = graph[name] if len(name) else np.zeros(0, dtype=bool)
    return start[mine], correlation[mine]


def _runs(device: Device) -> int:
    acts = device.activities
    whole = np.array([names.GRAPH_RUN.match(text) is not None for text in acts.texts], dtype=bool)
    return int(whole[acts.name].sum()) if len(acts) else 0


def _unseen(whole: Timeline, host: str) -> Floats:
    """Return when graphs were launched of which no device shows any kernel."""
    seen = [d.activities.correlation for d in whole.devices if d.host == host]
    found = [_launches(t) for t in whole.threads if t.host == host]
    if not found:
        return np.zeros(0)
    start, correlation = (np.concatenate([one[i] for one in found]) for i in range(2))
    return np.sort(start[~among(correlation, np.concatenate(seen))]) if seen else np.zeros(0)


def hidden(whole: Timeline, device: Device) -> Intervals:
    """Return when ``device`` may have run hidden graphs: from a graph's launch to the next visible work."""
    at = _unseen(whole, device.host)
    acts = device.activities
    if not len(at) or not len(acts):
        return intervals.EMPTY
    _, called, _ = calls([t for t in whole.threads if t.host == device.host], acts.correlation)
    order = np.argsort(called, kind="stable")
    # The earliest start of work that was launched at each moment or later.
    first = np.append(np.minimum.accumulate(acts.start_ms[order][::-1])[::-1], whole.end_ms)
    later = first[np.searchsorted(called[order], at, side="right")]
    return intervals.union(at, np.maximum(later, at))


# -- the devices


def _devices(whole: Timeline, device: Device | None) -> Iterator[str]:
    """Yield what the reader should know of the devices themselves."""
    accelerators = [d for d in whole.devices if d.kind != "CPU"]
    several = len({d.host for d in accelerators}) > 1

    def named(devices: Sequence[Device]) -> str:
        each = [d.name.removeprefix("/device:") + (f" of {d.host}" if several else "") for d in devices]
        return ", ".join(few(each, MOST_NAMED))

    silent = [d for d in accelerators if not len(d.activities)]
    active = {id(d) for d in whole.active}  # devices of two hosts may have the same name
    copying = [d for d in accelerators if len(d.activities) and id(d) not in active]
    if device is not None and len(accelerators) > 1:
        others = [d for d in whole.active[1:] if d.kind != "CPU"]
        yield f"told of {named([device])}, the busiest of {len(accelerators)} devices" + (
            f"; {named(others)} computed too" if others else ""
        )
    if silent and accelerators:
        yield f"{len(silent)} of {len(accelerators)} devices have no event in the profile: {named(silent)}"
    if copying:
        yield f"only copies, no kernels, on {named(copying)}"
