"""Builds a trace from somebody's profile: steps, what the device did in them, and why it waited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from slowtrain.errors import InputError
from slowtrain.figures import plain
from slowtrain.model import Attribution, Category, Part, Phase, Signal
from slowtrain.trace import (
    Device,
    Floats,
    Kernels,
    Steps,
    Trace,
    ahead,
    cadence,
    division,
    horizon,
    hosted,
    idle,
    intervals,
    kernels,
    lacking,
    lateness,
    mainthread,
    names,
    observed,
    pools,
    summed,
    timeline,
    trace_json,
    xplane,
)
from slowtrain.trace.cadence import Cadence
from slowtrain.trace.intervals import Intervals
from slowtrain.trace.pipeline import Pipeline
from slowtrain.trace.timeline import Timeline
from slowtrain.values import dataclass

USED_UP = 0.25  # of a profile's batches that were made before it began; with more it shows little of the input
MOST_HIDDEN = 0.05  # of the steps' time in kernels that the profile hides (LITTLE of the causes)
LEAST_CORES = 2.0  # assumed for a training machine if the profile shows fewer
DEEP_STEPS = 200  # steps of a long profile that are read for ops and input; reading all would take long


def load(files: Sequence[Path], notes: Sequence[str] = ()) -> Trace:
    """Load the trace of one profiling session, with a file per host. Raises ``InputError``."""
    spaces, broken, lacks = {}, [], []
    for file in files:
        try:
            if trace_json.is_trace(file):
                spaces[file], lack = trace_json.read(file)
                lacks.append(lack)
            else:
                spaces[file] = xplane.read(file)
        except InputError as error:
            broken.append(error)
    if not spaces and broken:
        raise broken[0]
    notes = [*notes, *lacks, *(f"left out: {error}" for error in broken)]
    kept = _of_one_session(spaces)
    if len(kept) < len(spaces):
        left = [f.name for f in spaces if f not in kept]
        said = f"{', '.join(f.name for f in kept)}, the newest of its host; {', '.join(left)} beside it was not read"
        notes = [*notes, said]
    return build(list(kept.values()), str(next(iter(kept), "profile")), notes)


def _of_one_session(spaces: Mapping[Path, xplane.Space]) -> dict[Path, xplane.Space]:
    """Keep of several profiles of one host the newest, and those of other processes at the same time."""
    newest: dict[object, tuple[int, int]] = {}
    times = {file: _session(space) for file, space in spaces.items()}
    for file, space in spaces.items():
        host = space.hostnames or file
        newest[host] = max(newest.get(host, (-1, -1)), times[file])
    kept = {}
    for file, space in spaces.items():
        begun, ended = newest[space.hostnames or file]
        if times[file] == (begun, ended) or (times[file][0] <= ended and times[file][1] > begun):
            kept[file] = space
    return kept


def _session(space: xplane.Space) -> tuple[int, int]:
    """Return start and end in ns since 1970; 0 if unknown."""
    told = [(k, v) for p in space.planes for k, v in p.stats.items() if isinstance(v, int)]
    begun, ended = (
        max((v for k, v in told if k == key), default=0) for key in (names.PROFILE_START, names.PROFILE_STOP)
    )
    return begun, max(begun, ended)


def build(spaces: Sequence[xplane.Space], label: str = "profile", notes: Sequence[str] = ()) -> Trace:
    """Build the trace. ``notes`` are known already. Raises ``InputError`` if nothing in the profile took any time."""
    whole = timeline.read(spaces)
    if whole.end_ms <= whole.start_ms:
        raise InputError(
            f"{label}: the profile holds no activity of a device and no op of a host; record it during training"
        )
    device = _computing(spaces, whole)
    found = cadence.find(whole, device)
    if not found.source and any(horizon.of(timeline.lines(s), horizon.MOST_DEEP_EVENTS) for s in spaces):
        whole = timeline.read(spaces, horizon.MOST_DEEP_EVENTS)  # one stretch, which is read completely with statistics
        device = _computing(spaces, whole)
        found = cadence.find(whole, device)
    if device is not None and found.source:
        found = ahead.steps(found, whole, device)
    if device is not None and any(map(lacking.dropped, spaces)):
        found = lacking.recorded(found, whole, device)
    told = lacking.notes(spaces, whole, device, len(found) if found.source else 0)
    if device is not None and found.source:
        found = division.settled(cadence.within_epochs(found, [t for t in whole.threads if t.host == device.host]))
    steps = _steps(found)
    if device is None:
        waits, columns, summary, behind = None, {Category.UNATTRIBUTED: steps.ms}, None, None
    else:
        waits, columns = division.divide_profile(whole, device, found)
        behind = lateness.find(found, whole, device)
        summary = summed.summary(whole, device, found, waits)
        summary = replace(summary, gaps=lateness.with_gaps(summary.gaps, behind))
    trace = Trace(
        signals=frozenset(_signals(whole, summary, columns, waits)),
        steps=steps,
        facts={
            **_facts(whole, found, device),
            "notes": [*notes, *whole.notes, *told, *([behind.note] if behind is not None else [])],
            "behind": behind.fact if behind is not None and behind.alone else None,
        },
        categories=columns,
        run=_run(whole, found),
        device=summary,
    )
    return _with_pools(_with_host(trace, spaces, whole, device, found), spaces)


def _computing(spaces: Sequence[xplane.Space], whole: Timeline) -> timeline.Device | None:
    """Return the busiest device.

    None if a GPU was used that the profile lacks, because then the host's ops only launched its work.
    """
    device = whole.active[0] if whole.active else None
    if device is None or device.kind != "CPU":
        return device
    return None if any(map(lacking.unseen_gpu, spaces)) else device


def _with_host(
    trace: Trace, spaces: Sequence[xplane.Space], whole: Timeline, device: timeline.Device | None, found: Cadence
) -> Trace:
    """Add what the threads of the device's host show: input pipeline, ops started from Python, traced functions."""
    hosts = [timeline.host_of(spaces, i) for i in range(len(spaces))]
    mine = hosts.index(device.host) if device is not None and device.host in hosts else 0
    threads = [t for t in whole.threads if t.host == hosts[mine]]
    some = _some(spaces[mine], whole, found)
    deep = summed.ops(spaces[mine], device, found, some)
    singly = hosted.op_by_op(threads, found.on_host)
    deep = replace(deep, eager_ops=singly) if deep is not None and singly else deep
    fed = observed.pipelines(spaces[mine], threads, some.on_host)
    made = observed.producers(fed) or hosted.producers(threads, found.on_host)
    traced = hosted.traces(threads)
    framed, nodes = hosted.framed(threads), any(p.nodes for p in fed)
    signals = set(trace.signals)
    seen = device.kind == "CPU" or Signal.DEVICE in trace.signals if device is not None else not whole.active
    signals |= {Signal.KERNELS} if deep is not None and seen else set()
    signals |= {Signal.TRACES} if traced is not None else set()
    # No nodes means no data set only if all Python or TensorFlow's executors were recorded.
    signals |= {Signal.PIPELINE} if nodes or (not fed and (framed or hosted.executing(threads))) else set()
    signals |= {Signal.PYTHON} if nodes or framed else set()
    on_cpu = device is None or device.kind == "CPU"
    own = hosted.busy_ms(threads, found, deep.ms if deep is not None and on_cpu else 0.0)
    feeding = observed.busy_ms(fed[0]) / max(len(some), 1) if nodes else sum(p.ms_per_step for p in made)
    facts = {
        "notes": [*trace.facts["notes"], *_buffered(fed)],
        "eager_step": bool(singly) or hosted.eagerly(threads, found.on_host),
        "jax": hosted.in_jax(threads),
        "host_callbacks": hosted.called_back(threads, found.on_host),
        "fed_by_keras": hosted.fed_by_keras(threads),
        "usable_cores": max([LEAST_CORES, hosted.pool_cores(threads), *(p.cpu_budget or 0.0 for p in fed)]),
        "step_cpu_ms": own,
        "cpu_ms_per_step": own + feeding,
    }
    return replace(
        trace, signals=frozenset(signals), facts={**trace.facts, **facts}, kernels=deep, pipelines=fed, producers=made,
        names=traced.names if traced is not None else (),
        lanes={"function": traced.calls} if traced is not None else {},
        events=traced.events if traced is not None else (),
    )  # fmt: skip


def _some(space: xplane.Space, whole: Timeline, found: Cadence) -> Cadence:
    """Return the first steps, as many as can be read with statistics."""
    count, lines = min(len(found), DEEP_STEPS), timeline.lines(space)
    part = (found.end_ms[count - 1] - whole.start_ms) / (whole.end_ms - whole.start_ms) if count else 0.0
    if part * sum(line.size_bytes for line in lines) > horizon.MOST_DEEP_EVENTS * horizon.LEAST_EVENT_BYTES:
        far = horizon.of(lines, horizon.MOST_DEEP_EVENTS)
        count = count if far is None else max(int(np.searchsorted(found.end_ms[:count], far.ps / 1e9, "right")), 1)
    return found.where(slice(count))


def _buffered(fed: Sequence[Pipeline]) -> Iterable[str]:
    """Yield a note if many batches of the steps came from buffers."""
    used = observed.used_up(fed[0]) if fed and fed[0].nodes else 0.0
    if used >= 1 and used >= USED_UP * fed[0].batches:
        told = f"{plain(used, 2)} of {fed[0].batches} batches that the steps took were made before the profile began"
        yield f"{told}: input may be slower than it looks in so few steps; profile more of them"


@dataclass(frozen=True)
class Seen:
    """What an accelerator did in a recording's profiler window: its summary, its ops, the division of a step."""

    device: Device
    ops: Kernels
    window: division.WindowDivision


def unseen_gpu(window: kernels.Window) -> str:
    """Return why the profile of a recording's window lacks the GPU that was used; empty if it does not."""
    try:
        space = xplane.read(window.path)
    except (InputError, OSError):
        return ""
    shown = any(p.name.startswith(names.DEVICE_PLANES) and p.lines for p in space.planes)
    return "" if shown else lacking.unseen_gpu(space)


def of_window(
    window: kernels.Window,
    noted: Mapping[str, Intervals] = MappingProxyType({}),
    lanes: Callable[[Floats, Floats], Mapping[division.Lane, Intervals]] | None = None,
) -> Seen | None:
    """Return what an accelerator did in a recording's profiler window; None if none wrote a timeline.

    ``noted``: what the recorder knows of the main thread, as times by reason in ms of the run. Without Python's
    frames the profiler does not record how Python makes a batch. ``lanes`` returns the same by lane, between given
    moments of the run.
    """
    try:
        space = xplane.read(window.path)
        if not any(p.name.startswith(names.DEVICE_PLANES) and p.lines for p in space.planes):
            return None
        whole = timeline.read([space])
    except (InputError, OSError):
        return None
    device = whole.active[0] if whole.active else None
    if device is None or device.kind == "CPU" or not len(window.start_ms):
        return None
    origin_ms = kernels.origin_ms(space, window)
    found = Cadence(window.start_ms - origin_ms, window.end_ms - origin_ms, "the recorder's own steps")
    found = division.settled(ahead.steps(found, whole, device))
    main = more = mainthread.find(whole.threads)
    if main is not None and more is not None:
        for reason, (start, end) in noted.items():
            more = more.told(reason, "as the recorder noted", (start - origin_ms, end - origin_ms))
        whole = replace(whole, threads=tuple(more if t is main else t for t in whole.threads))
    spans, waits = division.device_spans(whole, device, found)
    own = lanes(found.start_ms + origin_ms, found.end_ms + origin_ms) if lanes is not None else {}
    by_lane = {lane: (start - origin_ms, end - origin_ms) for lane, (start, end) in own.items()}
    by_lane = by_lane or {None: (found.start_ms[:1], found.end_ms[-1:])}
    summary = summed.summary(whole, device, found, waits)
    divided = division.divide_window(spans, waits, found, by_lane)
    return Seen(summary, summed.by_op(device.activities, found), divided)


def _steps(found: Cadence) -> Steps:
    n = len(found)
    every = np.ones(n, dtype=bool)
    return Steps(
        found.source or "the whole profile", found.start_ms, found.end_ms, every, ~every,
        np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64),
    )  # fmt: skip


def _signals(
    whole: Timeline, device: Device | None, columns: Mapping[Category, Floats], waits: idle.Idle | None
) -> Iterable[Signal]:
    yield Signal.STEPS
    if device is not None:
        # A timeline with much hidden time neither proves nor excludes a cause.
        hidden = waits.hidden_ms if waits is not None else 0.0
        if device.kind != "CPU" and hidden <= MOST_HIDDEN * sum(float(c.sum()) for c in columns.values()):
            yield Signal.DEVICE
        if whole.threads:
            yield Signal.INPUT


def _facts(whole: Timeline, found: Cadence, device: timeline.Device | None) -> dict[str, Any]:
    devices = [{"kind": d.kind, "name": d.name} for d in whole.devices] or [{"kind": "CPU"}]
    return {
        "profile": True,
        "told_steps": bool(found.source),
        "devices": devices,
        "device_name": device.facts.get(names.DEVICE_NAME) if device is not None else None,
        # Hardware of the host whose device computed.
        "hardware": [{**d.facts, "kind": d.kind} for d in whole.devices if device is None or d.host == device.host],
    }


def _run(whole: Timeline, found: Cadence) -> Attribution:
    total = whole.end_ms - whole.start_ms
    inside = intervals.union(found.start_ms, found.end_ms)
    ms = intervals.total(intervals.intersect(inside, (np.array([whole.start_ms]), np.array([whole.end_ms]))))
    parts = [(str(Phase.STEPS), ms), (str(Phase.OUTSIDE), max(total - ms, 0.0))]
    return Attribution(total, tuple(Part(n, v, v / total) for n, v in parts if v > 0))


def _with_pools(trace: Trace, spaces: Iterable[xplane.Space]) -> Trace:
    """Return the trace with its profile's figures of allocators."""
    found = pools.pools(spaces)
    signals = trace.signals | ({Signal.ALLOCATOR} if found else set())
    return replace(trace, signals=signals, facts={**trace.facts, "pools": found})
