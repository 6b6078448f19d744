"""Builds a trace from somebody's profile: steps, what the device did in them, and why it waited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Floats
from slowtrain.columns.device import Device
from slowtrain.columns.input_pipeline import Pipeline
from slowtrain.columns.steps import Steps
from slowtrain.errors import InputError
from slowtrain.model import Attribution, Category, Part, Phase, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names, profile_steps, timeline
from slowtrain.profile.format import viewer_json, xplane
from slowtrain.profile.profile_steps import StepTimes
from slowtrain.profile.summaries import (
    device_summary,
    host_activity,
    idle_reasons,
    missing_data,
    step_division,
    tfdata_pipelines,
)
from slowtrain.profile.timeline import Timeline
from slowtrain.trace import Trace

# Of a profile's batches that were made before it began; with more it shows little of the input.
MIN_PREFILLED_SHARE = 0.25
MAX_HIDDEN_SHARE = 0.05  # of the steps' time in kernels that the profile hides (LITTLE of the causes)
MIN_ASSUMED_CORES = 2.0  # assumed for a training machine if the profile shows fewer
MAX_DEEP_STEPS = 200  # steps of a long profile that are read for ops and input; reading all would take long


def load_profile(files: Sequence[Path], notes: Sequence[str] = ()) -> Trace:
    """Load the trace of one profiling session, with a file per host. Raises ``InputError``."""
    spaces, broken, lacks = {}, [], []
    for file in files:
        try:
            if viewer_json.is_viewer_json(file):
                spaces[file], lack = viewer_json.read_viewer_json(file)
                lacks.append(lack)
            else:
                spaces[file] = xplane.read_space(file)
        except InputError as error:
            broken.append(error)
    if not spaces and broken:
        raise broken[0]
    notes = [*notes, *lacks, *(f"left out: {error}" for error in broken)]
    chosen = _files_of_one_session(spaces)
    if len(chosen) < len(spaces):
        left = [f.name for f in spaces if f not in chosen]
        note = f"{', '.join(f.name for f in chosen)}, the newest of its host, was read; {', '.join(left)} was not"
        notes = [*notes, note]
    return build_profile_trace(list(chosen.values()), str(next(iter(chosen), "profile")), notes)


def _files_of_one_session(spaces: Mapping[Path, xplane.Space]) -> dict[Path, xplane.Space]:
    """Keep of several profiles of one host the newest, and those of other processes at the same time."""
    newest: dict[object, tuple[int, int]] = {}
    times = {file: _session_times(space) for file, space in spaces.items()}
    for file, space in spaces.items():
        host = space.hostnames or file
        newest[host] = max(newest.get(host, (-1, -1)), times[file])
    chosen = {}
    for file, space in spaces.items():
        begun, ended = newest[space.hostnames or file]
        if times[file] == (begun, ended) or (times[file][0] <= ended and times[file][1] > begun):
            chosen[file] = space
    return chosen


def _session_times(space: xplane.Space) -> tuple[int, int]:
    """Return start and end in ns since 1970; 0 if unknown."""
    stats = [(k, v) for p in space.planes for k, v in p.stats.items() if isinstance(v, int)]
    begun, ended = (
        max((v for k, v in stats if k == key), default=0)
        for key in (framework_names.PROFILE_START, framework_names.PROFILE_STOP)
    )
    return begun, max(begun, ended)


def build_profile_trace(spaces: Sequence[xplane.Space], label: str = "profile", notes: Sequence[str] = ()) -> Trace:
    """Build the trace. ``notes`` are known already. Raises ``InputError`` if nothing in the profile took any time."""
    whole = timeline.read_timeline(spaces)
    if whole.end_ms <= whole.start_ms:
        raise InputError(f"{label}: the profile holds no device activity and no host op; record it during training")
    device = _computing_device(spaces, whole)
    found = profile_steps.find_profile_steps(whole, device)
    if not found.source and any(
        timeline.find_horizon(timeline.device_and_host_lines(s), timeline.MAX_DEEP_EVENTS) for s in spaces
    ):
        whole = timeline.read_timeline(
            spaces, timeline.MAX_DEEP_EVENTS
        )  # one stretch, which is read completely with statistics
        device = _computing_device(spaces, whole)
        found = profile_steps.find_profile_steps(whole, device)
    if device is not None and found.source:
        found = profile_steps.device_paced_times(found, whole, device)
    if device is not None and any(map(missing_data.dropped_event_count, spaces)):
        found = missing_data.recorded_steps(found, whole, device)
    missing = missing_data.missing_data_notes(spaces, whole, device, len(found) if found.source else 0)
    if device is not None and found.source:
        found = step_division.settled_steps(
            profile_steps.without_epoch_ends(found, [t for t in whole.threads if t.host == device.host])
        )
    steps = _all_steady_steps(found)
    if device is None:
        waits, columns, summary, behind = None, {Category.UNATTRIBUTED: steps.ms}, None, None
    else:
        waits, columns = step_division.divide_profile(whole, device, found)
        behind = step_division.find_mark_overrun(found, whole, device)
        summary = device_summary.summarize_device(whole, device, found, waits)
        summary = replace(summary, gaps=step_division.merge_longest_gaps(summary.gaps, behind))
    trace = Trace(
        signals=frozenset(_profile_signals(whole, summary, columns, waits)),
        steps=steps,
        facts={
            **_profile_facts(whole, found, device),
            "notes": [*notes, *whole.notes, *missing, *([behind.note] if behind is not None else [])],
            "behind": behind.fact if behind is not None and behind.alone else None,
        },
        categories=columns,
        run=_run_attribution(whole, found),
        device=summary,
    )
    pools = device_summary.read_pools(spaces)
    signals = trace.signals | ({Signal.ALLOCATOR} if pools else set())
    trace = replace(trace, signals=signals, facts={**trace.facts, "pools": pools})
    return _with_host_side(trace, spaces, whole, device, found)


def _computing_device(spaces: Sequence[xplane.Space], whole: Timeline) -> timeline.ProfiledDevice | None:
    """Return the busiest device.

    None if a GPU was used that the profile lacks, because then the host's ops only launched its work.
    """
    device = whole.active[0] if whole.active else None
    if device is None or device.kind != "CPU":
        return device
    return None if any(map(missing_data.unseen_gpu_reason, spaces)) else device


def _with_host_side(
    trace: Trace,
    spaces: Sequence[xplane.Space],
    whole: Timeline,
    device: timeline.ProfiledDevice | None,
    found: StepTimes,
) -> Trace:
    """Add what the threads of the device's host show: input pipeline, ops started from Python, traced functions."""
    hosts = [timeline.host_name(spaces, i) for i in range(len(spaces))]
    mine = hosts.index(device.host) if device is not None and device.host in hosts else 0
    threads = [t for t in whole.threads if t.host == hosts[mine]]
    some = _first_steps(spaces[mine], whole, found)
    deep = device_summary.profile_ops(spaces[mine], device, found, some)
    singly = host_activity.jax_calls_per_step(threads, found.on_host)
    deep = replace(deep, eager_ops=singly) if deep is not None and singly else deep
    fed = tfdata_pipelines.profile_pipelines(spaces[mine], threads, some.on_host)
    producers = tfdata_pipelines.pipeline_producers(fed) or host_activity.python_producers(threads, found.on_host)
    traced = host_activity.function_traces(threads)
    framed, nodes = host_activity.has_python_frames(threads), any(p.nodes for p in fed)
    signals = set(trace.signals)
    seen = device.kind == "CPU" or Signal.DEVICE in trace.signals if device is not None else not whole.active
    signals |= {Signal.KERNELS} if deep is not None and seen else set()
    signals |= {Signal.TRACES} if traced is not None else set()
    # No nodes means no data set only if all Python or TensorFlow's executors were recorded.
    signals |= (
        {Signal.PIPELINE} if nodes or (not fed and (framed or host_activity.has_executor_spans(threads))) else set()
    )
    signals |= {Signal.PYTHON} if nodes or framed else set()
    on_cpu = device is None or device.kind == "CPU"
    own = host_activity.host_busy_ms(threads, found, deep.ms if deep is not None and on_cpu else 0.0)
    feeding = (
        tfdata_pipelines.pipeline_busy_ms(fed[0]) / max(len(some), 1)
        if nodes
        else sum(p.ms_per_step for p in producers)
    )
    facts = {
        "notes": [*trace.facts["notes"], *_prefilled_notes(fed)],
        "eager_step": bool(singly) or host_activity.is_eager_step(threads, found.on_host),
        "jax": host_activity.has_jax_calls(threads),
        "host_callbacks": host_activity.host_callbacks_per_step(threads, found.on_host),
        "fed_by_keras": host_activity.is_fed_by_keras(threads),
        "usable_cores": max(
            [MIN_ASSUMED_CORES, host_activity.pool_cores(threads), *(p.cpu_budget or 0.0 for p in fed)]
        ),
        "step_cpu_ms": own,
        "cpu_ms_per_step": own + feeding,
    }
    return replace(
        trace, signals=frozenset(signals), facts={**trace.facts, **facts}, kernels=deep, pipelines=fed,
        producers=producers, names=traced.names if traced is not None else (),
        lanes={"function": traced.calls} if traced is not None else {},
        events=traced.events if traced is not None else (),
    )  # fmt: skip


def _first_steps(space: xplane.Space, whole: Timeline, found: StepTimes) -> StepTimes:
    """Return the first steps, as many as can be read with statistics."""
    count, lines = min(len(found), MAX_DEEP_STEPS), timeline.device_and_host_lines(space)
    part = (found.end_ms[count - 1] - whole.start_ms) / (whole.end_ms - whole.start_ms) if count else 0.0
    if part * sum(line.size_bytes for line in lines) > timeline.MAX_DEEP_EVENTS * timeline.MIN_EVENT_BYTES:
        far = timeline.find_horizon(lines, timeline.MAX_DEEP_EVENTS)
        count = count if far is None else max(int(np.searchsorted(found.end_ms[:count], far.ps / 1e9, "right")), 1)
    return found.where(slice(count))


def _prefilled_notes(fed: Sequence[Pipeline]) -> Iterable[str]:
    """Yield a note if many batches of the steps came from buffers."""
    used = tfdata_pipelines.prefilled_batches(fed[0]) if fed and fed[0].nodes else 0.0
    if used >= 1 and used >= MIN_PREFILLED_SHARE * fed[0].batches:
        start = (
            f"{format_number(used, 2)} of {fed[0].batches} batches that the steps used were made before the profile "
            "began"
        )
        yield f"{start}: input may be slower than these few steps show; profile more steps"


def _all_steady_steps(found: StepTimes) -> Steps:
    n = len(found)
    every = np.ones(n, dtype=bool)
    return Steps(
        found.source or "the whole profile", found.start_ms, found.end_ms, every, ~every,
        np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64),
    )  # fmt: skip


def _profile_signals(
    whole: Timeline, device: Device | None, columns: Mapping[Category, Floats], waits: idle_reasons.IdleMoments | None
) -> Iterable[Signal]:
    yield Signal.STEPS
    if device is not None:
        # A timeline with much hidden time neither proves nor excludes a cause.
        hidden = waits.hidden_ms if waits is not None else 0.0
        if device.kind != "CPU" and hidden <= MAX_HIDDEN_SHARE * sum(float(c.sum()) for c in columns.values()):
            yield Signal.DEVICE
        if whole.threads:
            yield Signal.INPUT


def _profile_facts(whole: Timeline, found: StepTimes, device: timeline.ProfiledDevice | None) -> dict[str, Any]:
    devices = [{"kind": d.kind, "name": d.name} for d in whole.devices] or [{"kind": "CPU"}]
    return {
        "profile": True,
        "told_steps": bool(found.source),
        "devices": devices,
        "device_name": device.facts.get(framework_names.DEVICE_NAME) if device is not None else None,
        # Hardware of the host whose device computed.
        "hardware": [{**d.facts, "kind": d.kind} for d in whole.devices if device is None or d.host == device.host],
    }


def _run_attribution(whole: Timeline, found: StepTimes) -> Attribution:
    total = whole.end_ms - whole.start_ms
    inside = intervals.union(found.start_ms, found.end_ms)
    ms = intervals.total_length(intervals.intersect(inside, intervals.single(whole.start_ms, whole.end_ms)))
    parts = [(str(Phase.STEPS), ms), (str(Phase.OUTSIDE), max(total - ms, 0.0))]
    return Attribution(total, tuple(Part(n, v, v / total) for n, v in parts if v > 0))
