"""What devices and host threads did in a profile, as columns; all later analyses of a profile use it.

Read line by line. Of the host only these are kept: spans that can explain a device's wait, calls that started device
work, and op executions if the host itself computes. All times are ms from the profile's first line.

Of a very large profile only a first part is read, so that memory and time stay bounded. All lines are read up to the
same moment, the **horizon**. It is chosen before anything is decoded, from events sampled at some places of each long
line: their times, and the bytes per event there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from slowtrain.columns import intervals
from slowtrain.columns.arrays import NO_INTS, Floats, Ints, distinct_values
from slowtrain.model import Place
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.profile.device_activity import (
    COLLECTIVE,
    D2D,
    D2H,
    H2D,
    KERNEL,
    Activities,
    ProgramOps,
    activity_kind,
    join_activities,
    line_activities,
)
from slowtrain.profile.format import hlo_programs, xplane
from slowtrain.profile.host_threads import HostThread, read_threads, without_peer_waits

MAX_TIMELINE_EVENTS = 24_000_000  # about 700 MB of a profile; some 1.2 GB of memory
MAX_DEEP_EVENTS = 8_000_000  # of a profile whose events are all kept with their statistics
MIN_EVENT_BYTES = 12  # a name, a time and a duration; most profiles are known to be small by their size alone
MAX_SHORT_LINE_BYTES = 1 << 18  # lines up to this size are not sampled
MAX_SAMPLED_PLACES = 256  # sampled in all lines together


class Horizon(Struct, frozen=True):
    """Events from ``ps`` on are left out; the profile has about ``events`` and lasts about until ``end_ps``."""

    ps: int
    end_ps: int
    events: int

    def __str__(self) -> str:
        seconds, of = self.ps / 1e12, self.end_ps / 1e12
        return (
            f"the report covers only the first {format_number(seconds)} s of about {format_number(of)} s, because "
            f"about {self.events / 1e6:.0f} "
            "million events are too many to read; slowtrain cut --from-ms writes a profile of a later part"
        )


def find_horizon(lines: Sequence[xplane.Line], most: int | None = None) -> Horizon | None:
    """Return the horizon; None if all lines can be read. ``most`` overrides the default number of events."""
    most = MAX_TIMELINE_EVENTS if most is None else most
    if sum(line.size_bytes for line in lines) < most * MIN_EVENT_BYTES:
        return None
    long = [line for line in lines if line.size_bytes > MAX_SHORT_LINE_BYTES]
    grown = [
        found
        for line in long
        if (found := _events_over_time(line, max(MAX_SAMPLED_PLACES // len(long), 4))) is not None
    ]
    if not grown:
        return None
    times = distinct_values(np.concatenate([times for times, _ in grown]))
    events = sum((np.interp(times, *one) for one in grown), np.zeros(len(times)))
    if events[-1] <= most:
        return None
    return Horizon(int(np.interp(most, events, times)), int(times[-1]), int(events[-1]))


def _events_over_time(line: xplane.Line, places: int) -> tuple[Floats, Floats] | None:
    """Return moments, and about how many events of the line come before each; None if nothing could be sampled."""
    found = line.sample_events(places)
    if not found:
        return None
    at, times, each = (np.array(column, dtype=np.float64) for column in zip(*found, strict=True))
    until = np.append(at[1:], line.size_bytes)
    events = np.concatenate(([0.0], np.cumsum((until - at) / each)))
    times = np.maximum.accumulate(times)
    # The length of the last stretch is unknown: assumes the same time per byte as before it.
    pace = (times[-1] - times[0]) / max(at[-1] - at[0], 1.0)
    return np.append(times, times[-1] + pace * (until[-1] - at[-1])), events


class ProfiledDevice(Struct, frozen=True):
    """One accelerator of one host, or the host's own processors if ops ran on them (``kind`` CPU)."""

    name: str
    kind: str
    host: str
    facts: dict[str, Any]
    activities: Activities
    marked: tuple[Floats, Floats] | None = None  # steps from the device's own line of steps
    programs: tuple[Floats, Floats, Ints, tuple[str, ...]] | None = None  # XLA runs: start, end, name, names
    places: Mapping[str, tuple[Place, ...]] = field(default_factory=dict)  # the user's lines by op


class Timeline(Struct, frozen=True, dict=True):
    """A profile of one or several hosts. ``notes`` say what of it was not read."""

    devices: tuple[ProfiledDevice, ...]
    threads: tuple[HostThread, ...]
    start_ms: float
    end_ms: float
    notes: tuple[str, ...] = ()

    @cached_property
    def active(self) -> tuple[ProfiledDevice, ...]:
        """Devices that did more than copies, the busiest first."""
        found = [d for d in self.devices if intervals.total_length(d.activities.busy(KERNEL, COLLECTIVE)) > 0]
        return tuple(sorted(found, key=lambda d: -_device_busy_ms(d)))


def _device_busy_ms(device: ProfiledDevice) -> float:
    """Return a device's busy ms, for a CPU without the waits for other processes, which do not determine its step."""
    acts = device.activities
    if device.kind != "CPU":
        return intervals.total_length(acts.busy(KERNEL, COLLECTIVE))
    computing = acts.busy(KERNEL)
    return intervals.total_length(computing) - intervals.total_length(
        intervals.subtract(acts.busy(COLLECTIVE), computing)
    )


def device_and_host_lines(space: xplane.Space) -> list[xplane.Line]:
    """Return the lines of devices and hosts."""
    prefixes = (*framework_names.DEVICE_PLANES, framework_names.HOST_PLANE)
    return [line for plane in space.planes if plane.name.startswith(prefixes) for line in plane.lines]


def read_timeline(spaces: Sequence[xplane.Space], most_events: int | None = None) -> Timeline:
    """Read the timeline of a profile; each host keeps its own clock. Raises ``InputError`` for broken events.

    Of a profile with more than ``most_events`` events only the first part is read.
    """
    devices: list[ProfiledDevice] = []
    threads: list[HostThread] = []
    notes: list[str] = []
    for number, space in enumerate(spaces):
        host = host_name(spaces, number)
        far = find_horizon(device_and_host_lines(space), most_events)
        until_ps = None if far is None else far.ps
        notes += [str(far)] if far is not None else []
        on_gpu = any(p.name.startswith(framework_names.GPU_PLANE) and p.lines for p in space.planes)
        ops_of = hlo_programs.read_programs(space) if on_gpu else {}
        planes = (p for p in space.planes if p.name.startswith(framework_names.DEVICE_PLANES))
        found = [_read_device(plane, host, until_ps, ops_of) for plane in planes]
        busy = any(len(d.activities) for d in found)
        mine, ops = read_threads(space, host, until_ps, devices=busy)
        devices += [replace(d, activities=_copy_directions_by_call(d.activities, mine)) for d in found]
        threads += mine
        if not busy and len(ops):
            devices.append(ProfiledDevice("CPU", "CPU", host, {}, without_peer_waits(ops)))
    every: list[Activities | HostThread] = [*(d.activities for d in devices), *threads]
    timed = [one for one in every if len(one.start_ms)]
    start = float(min((t.start_ms.min() for t in timed), default=0))
    end = float(max((t.end_ms.max() for t in timed), default=0))
    return Timeline(tuple(devices), tuple(threads), start, end, tuple(notes))


def launch_calls(threads: Sequence[HostThread], correlation: Ints) -> tuple[Ints, Floats, Floats]:
    """Return for each correlation id the thread that made its call (-1: none), and the call's start and end."""
    owner = np.concatenate([NO_INTS, *(np.full(len(t.launches[0]), i) for i, t in enumerate(threads))])
    start, stop, known = (np.concatenate([NO_INTS, *(t.launches[i] for t in threads)]) for i in range(3))
    if not len(known):
        never = np.full(len(correlation), np.inf)
        return np.full(len(correlation), -1), never, never
    order = np.argsort(known, kind="stable")
    chosen = order[np.minimum(np.searchsorted(known[order], correlation), len(order) - 1)]
    hit = (known[chosen] == correlation) & (correlation > 0)
    return np.where(hit, owner[chosen], -1), np.where(hit, start[chosen], np.inf), np.where(hit, stop[chosen], np.inf)


def host_name(spaces: Sequence[xplane.Space], number: int) -> str:
    """Return the host name of one profile; for several processes on one host also which of them it is."""
    known = [space.hostnames[:1] for space in spaces]
    if not known[number]:
        return f"host {number}" if len(spaces) > 1 else ""
    alike = [i for i, name in enumerate(known) if name == known[number]]
    return known[number][0] if len(alike) < 2 else f"{known[number][0]}, process {alike.index(number)}"


# -- devices


def _read_device(plane: xplane.Plane, host: str, until_ps: int | None, program_ops: ProgramOps) -> ProfiledDevice:
    kind = "GPU" if plane.name.startswith(framework_names.GPU_PLANE) else plane.name.split(":")[1]
    facts = {k: v for k, v in plane.stats.items() if k in framework_names.DEVICE_FACTS}
    lines = [line for line in plane.lines if line.name not in framework_names.DERIVED_LINES]
    stream, overhead = framework_names.STREAM_LINE, framework_names.OVERHEAD_LINE
    # Without streams, the compiled program's ops are in a line of their own.
    streams = [line for line in lines if re.match(stream, line.name) or line.name == overhead] or [
        line for line in plane.lines if line.name == framework_names.XLA_OPS_LINE
    ]
    parts = [part for line in streams if (part := line_activities(plane, line, until_ps, program_ops)) is not None]
    marked, programs = None, None
    for line in plane.lines:
        if line.name in (framework_names.STEPS_LINE, framework_names.MODULES_LINE):
            events = line.events(before_ps=until_ps)
            start = events.start_ps / 1e9
            end = start + events.duration_ps / 1e9
            if line.name == framework_names.STEPS_LINE:
                marked = (start, end) if len(events) else None
            else:
                texts, code = plane.event_texts(events.metadata_id)
                programs = (start, end, code, texts) if len(events) else None
    places: dict[str, tuple[Place, ...]] = {}
    for op in (op for ops in program_ops.values() for op in ops.values()):
        known = places.get(op.text, ())
        if op.place is not None and op.place not in known:
            places[op.text] = (*known, op.place)
    return ProfiledDevice(plane.name, kind, host, facts, join_activities(parts), marked, programs, places)


def _copy_directions_by_call(found: Activities, threads: Sequence[HostThread]) -> Activities:
    """AMD's copies have the same kernel name for all directions: take the direction from the host's call."""
    unclear = np.flatnonzero((found.kind == D2D) & (found.correlation > 0))
    if not len(unclear):
        return found
    kind = found.kind.copy()
    for thread in threads:
        _, _, correlation, name = thread.launches
        calls = [t.removeprefix("hip").removeprefix("cu") for t in thread.texts]
        kinds = np.array([activity_kind(t) for t in calls], dtype=np.int64)
        order = np.argsort(correlation)
        at = np.searchsorted(correlation[order], found.correlation[unclear])
        hit = at < len(order)
        hit[hit] = correlation[order][at[hit]] == found.correlation[unclear][hit]
        call_kind = kinds[name[order[at[hit]]]]
        kind[unclear[hit]] = np.where(np.isin(call_kind, (H2D, D2H)), call_kind, D2D)
    return replace(found, kind=kind)
