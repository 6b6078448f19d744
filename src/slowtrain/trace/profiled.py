"""From somebody's profile to a trace: steps, what the device did in them, and why it waited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slowtrain.errors import InputError
from slowtrain.figures import plain
from slowtrain.model import Attribution, Category, Part, Phase, Signal
from slowtrain.trace import (
    Copies,
    Device,
    Floats,
    Kernels,
    Pageable,
    Steps,
    Trace,
    ahead,
    cadence,
    horizon,
    hosted,
    idle,
    intervals,
    kernels,
    lacking,
    names,
    observed,
    pools,
    tensor_cores,
    timeline,
    xplane,
)
from slowtrain.trace.activities import COLLECTIVE, D2D, D2H, H2D, KERNEL, KINDS, MEMSET, PAGEABLE, UNTOLD, Activities
from slowtrain.trace.cadence import Cadence
from slowtrain.trace.intervals import Intervals
from slowtrain.trace.pipeline import Pipeline
from slowtrain.trace.timeline import Timeline

MOST_NAMES = 2000  # of a table: models of some hundred layers have as many ops
USED_UP = 0.25  # of the batches in a profile from buffers that were full when it began: then it says little of input
MOST_HIDDEN = 0.05  # of the steps: kernels of graphs that the profile does not show (LITTLE of the causes)
LEAST_CORES = 2.0  # assumed of a machine that trains, where the profile shows fewer at work
DEEP_STEPS = 200  # so many of a long profile's steps tell what ops and input take; reading all would take long
DEVICE_CATEGORIES = {  # where several kinds overlap, the first counts
    Category.DEVICE: (KERNEL, D2D, MEMSET),
    Category.COLLECTIVE: (COLLECTIVE,),
    Category.FEED: (H2D,),
    Category.READBACK: (D2H,),
}
REASONS = {  # the category of an idle moment by its reason
    "input": Category.INPUT,
    "compile": Category.COMPILE,
    "callback": Category.CALLBACK,
    "sync": Category.READBACK,
    "d2h": Category.READBACK,
    "h2d": Category.FEED,
    **dict.fromkeys(("allocation", names.HOST_OP, "eager", "dispatch", "queue"), Category.DISPATCH),
    "python": Category.PYTHON,
    "unattributed": Category.UNATTRIBUTED,
}


def load(files: Sequence[Path], notes: Sequence[str] = ()) -> Trace:
    """The trace of one profiling session, a file per host. Raises ``InputError``."""
    spaces, broken = {}, []
    for file in files:
        try:
            spaces[file] = xplane.read(file)
        except InputError as error:
            broken.append(error)
    if not spaces and broken:
        raise broken[0]
    notes = [*notes, *(f"left out: {error}" for error in broken)]
    kept = _of_one_session(spaces)
    if len(kept) < len(spaces):
        left = [f.name for f in spaces if f not in kept]
        said = f"{', '.join(f.name for f in kept)}, the newest of its host; {', '.join(left)} beside it was not read"
        notes = [*notes, said]
    return build(list(kept.values()), str(next(iter(kept), "profile")), notes)


def _of_one_session(spaces: Mapping[Path, xplane.Space]) -> dict[Path, xplane.Space]:
    """A host records one profile at a time: of several by one host in a folder the newest."""
    newest: dict[object, tuple[int, Path]] = {}
    for file, space in spaces.items():
        begun = max((int(v) for p in space.planes for k, v in p.stats.items()
                     if k == names.PROFILE_START and isinstance(v, int)), default=0)  # fmt: skip
        host = space.hostnames or file
        newest[host] = max(newest.get(host, (-1, file)), (begun, file))
    return {file: space for file, space in spaces.items() if any(file == chosen for _, chosen in newest.values())}


def build(spaces: Sequence[xplane.Space], label: str = "profile", notes: Sequence[str] = ()) -> Trace:
    """``notes`` are what is already known. Raises ``InputError`` when nothing in the profile took any time."""
    whole = timeline.read(spaces)
    if whole.end_ms <= whole.start_ms:
        raise InputError(
            f"{label}: the profile holds no activity of a device and no op of a host; record it during training"
        )
    device = whole.active[0] if whole.active else None
    found = cadence.find(whole, device)
    if not found.source and any(horizon.of(timeline.lines(s), horizon.MOST_DEEP_EVENTS) for s in spaces):
        whole = timeline.read(spaces, horizon.MOST_DEEP_EVENTS)  # one stretch, all of which is looked into deeply
        device = whole.active[0] if whole.active else None
        found = cadence.find(whole, device)
    if device is not None and found.source:
        found = ahead.steps(found, whole, device)
    if device is not None and any(map(lacking.dropped, spaces)):
        found = lacking.recorded(found, whole, device)
    told = lacking.notes(spaces, whole, device, len(found) if found.source else 0)
    steps = _steps(found)
    if device is None:
        waits, columns, summary = None, {Category.UNATTRIBUTED: steps.ms}, None
    else:
        waits, columns = divided(whole, device, found)
        summary = _summary(whole, device, found, waits)
    trace = Trace(
        signals=frozenset(_signals(whole, summary, columns, waits)),
        steps=steps,
        facts={**_facts(whole, found, device), "notes": [*notes, *whole.notes, *told]},
        categories=columns,
        run=_run(whole, found),
        device=summary,
    )
    return pools.told(_with_host(trace, spaces, whole, device, found), spaces)


def _with_host(
    trace: Trace, spaces: Sequence[xplane.Space], whole: Timeline, device: timeline.Device | None, found: Cadence
) -> Trace:
    """What the threads of the device's host add: the input pipeline, ops started from Python, functions traced."""
    hosts = [timeline.host_of(spaces, i) for i in range(len(spaces))]
    mine = hosts.index(device.host) if device is not None and device.host in hosts else 0
    threads = [t for t in whole.threads if t.host == hosts[mine]]
    some = _some(spaces[mine], whole, found)
    deep = _kernels(spaces[mine], device, found, some)
    singly = hosted.op_by_op(threads, found.on_host)
    deep = replace(deep, eager_ops=singly) if deep is not None and singly else deep
    fed = observed.pipelines(spaces[mine], threads, some.on_host)
    made = observed.producers(fed) or hosted.producers(threads, found.on_host)
    traced = hosted.traces(threads)
    framed, nodes = hosted.framed(threads), any(p.nodes for p in fed)
    signals = set(trace.signals)
    seen = device is None or device.kind == "CPU" or Signal.DEVICE in trace.signals
    signals |= {Signal.KERNELS} if deep is not None and seen else set()
    signals |= {Signal.TRACES} if traced is not None else set()
    # Without a node it is certain that no data set is iterated where all Python was seen, or TensorFlow's executors.
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
    """The first steps: so many as can be looked into deeply."""
    count, lines = min(len(found), DEEP_STEPS), timeline.lines(space)
    part = (found.end_ms[count - 1] - whole.start_ms) / (whole.end_ms - whole.start_ms) if count else 0.0
    if part * sum(line.size_bytes for line in lines) > horizon.MOST_DEEP_EVENTS * horizon.LEAST_EVENT_BYTES:
        far = horizon.of(lines, horizon.MOST_DEEP_EVENTS)
        count = count if far is None else max(int(np.searchsorted(found.end_ms[:count], far.ps / 1e9, "right")), 1)
    return found.first(count)


def _buffered(fed: Sequence[Pipeline]) -> Iterable[str]:
    """Where steps lived on batches that buffers held."""
    used = observed.used_up(fed[0]) if fed and fed[0].nodes else 0.0
    if used >= 1 and used >= USED_UP * fed[0].batches:
        told = f"{plain(used, 2)} of {fed[0].batches} batches that the steps took were made before the profile began"
        yield f"{told}: input may be slower than it looks in so few steps; profile more of them"


def of_window(window: kernels.Window) -> tuple[Device, Kernels] | None:
    """What an accelerator did in the steps of a recording's own window; None where none wrote a timeline."""
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
    found = ahead.steps(found, whole, device)
    waits, _ = divided(whole, device, found)
    return _summary(whole, device, found, waits), _by_op(device.activities, found)


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
        # A timeline of which much is hidden tells neither that a cause is there nor that it is not.
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
    }


# -- where a step goes


def divided(whole: Timeline, device: timeline.Device, found: Cadence) -> tuple[idle.Idle, dict[Category, Floats]]:
    """Ms of each category in each step, which add up to it; and the device's waits."""
    acts = device.activities
    left = intervals.union(found.start_ms, found.end_ms)
    columns: dict[Category, Floats] = {}

    def add(category: Category, spans: Intervals) -> None:
        columns[category] = columns.get(category, 0.0) + intervals.covered(spans, found.start_ms, found.end_ms)

    for category, kinds in DEVICE_CATEGORIES.items():
        spans = intervals.intersect(left, acts.busy(*kinds))
        add(category, spans)
        left = intervals.subtract(left, spans)
    waits = idle.attribute(whole, device, left)
    for reason, spans in waits.reasons.items():
        add(REASONS[reason], spans)
    known = sum(columns.values(), np.zeros(len(found)))
    length = found.end_ms - found.start_ms
    unknown = columns.get(Category.UNATTRIBUTED, np.zeros(len(found)))
    columns[Category.UNATTRIBUTED] = unknown + np.maximum(length - known, 0.0)
    return waits, columns


def _run(whole: Timeline, found: Cadence) -> Attribution:
    total = whole.end_ms - whole.start_ms
    inside = intervals.union(found.start_ms, found.end_ms)
    ms = intervals.total(intervals.intersect(inside, (np.array([whole.start_ms]), np.array([whole.end_ms]))))
    parts = [(str(Phase.STEPS), ms), (str(Phase.OUTSIDE), max(total - ms, 0.0))]
    return Attribution(total, tuple(Part(n, v, v / total) for n, v in parts if v > 0))


# -- the device


def _summary(whole: Timeline, device: timeline.Device, found: Cadence, waits: idle.Idle) -> Device:
    inside = _inside(device.activities, found)
    steps = max(len(found), 1)
    kernels = inside.of(KERNEL, COLLECTIVE)
    span = intervals.union(found.start_ms, found.end_ms)
    busy = intervals.total(intervals.intersect(span, inside.busy(*range(len(KINDS)))))
    by_kernel = _table(kernels, kernels.name, steps)
    by_op = by_kernel if inside is kernels and kernels.op is kernels.name else _table(inside, inside.op, steps)
    precision, matrix, cores = _formats(kernels, steps)
    delay, queued = _launches(whole, device, kernels)
    origin = float(found.start_ms[0]) if len(found) else whole.start_ms
    return Device(
        device.name, device.kind, device.facts, len(found),
        float((found.end_ms - found.start_ms).mean()) if len(found) else 0.0,
        busy / steps, float(kernels.ms.sum()) / steps, len(kernels) / steps,
        float(np.median(kernels.ms)) * 1e3 if len(kernels) else 0.0,
        by_kernel, by_op,
        {KINDS[kind]: _copies(inside, kind, steps) for kind in (H2D, D2H, D2D) if (inside.kind == kind).any()},
        {reason: intervals.total(spans) / steps for reason, spans in waits.reasons.items()},
        idle.longest(whole, device, waits, origin), precision, matrix, cores, delay, queued,
    )  # fmt: skip


def _formats(kernels: Activities, steps: int) -> tuple[dict[str, float], dict[str, float], float]:
    """Ms a step by number format, the same of matrix work, and how much of that ran on tensor cores.

    Kernels' own names tell it, else the operands of their ops. All that a convolution's op runs is matrix work: a
    library that takes it through Fourier's or Winograd's transforms does so for want of a quicker unit.
    """
    precision: dict[str, float] = {}
    matrix: dict[str, float] = {}
    cores = 0.0
    different = np.stack([kernels.name, kernels.op])
    pairs, which = np.unique(different, axis=1, return_inverse=True)
    spent = np.bincount(which.reshape(-1), kernels.ms, minlength=pairs.shape[1]) / steps
    for (name, op), ms in zip(pairs.T.tolist(), spent.tolist(), strict=True):
        text = kernels.texts[name]
        of = kernels.texts[op] if op >= 0 else ""
        told = tensor_cores.product_format(of)
        format_ = names.kernel_precision(text) or told
        if format_ is not None:
            precision[format_] = precision.get(format_, 0.0) + ms
        if names.GRAPH_RUN.match(text):
            matrix["unknown"] = matrix.get("unknown", 0.0) + ms  # of whatever kernels it hides
        elif names.MATRIX_KERNEL.search(text) or told is not None:
            matrix[format_ or "unknown"] = matrix.get(format_ or "unknown", 0.0) + ms
            by_xla = names.XLA_MATRIX_KERNEL.match(text) is not None and format_ in tensor_cores.MULTIPLE
            cores += ms if by_xla or names.TENSOR_CORE.search(text) else 0.0
    return precision, matrix, cores


def _inside(acts: Activities, found: Cadence) -> Activities:
    """Activities that start in a step."""
    if not len(found):
        return acts
    at = intervals.before(found.start_ms, acts.start_ms, "right") - 1
    return acts.where((at >= 0) & (acts.start_ms < found.end_ms[np.maximum(at, 0)]))


def _table(acts: Activities, key: Any, steps: int) -> Mapping[str, tuple[float, float]]:
    """Ms and count a step by text, costliest first."""
    code, ms_each = key, acts.ms
    if not (known := key >= 0).all():
        code, ms_each = code[known], ms_each[known]
    if not len(code):
        return {}
    ms = np.bincount(code, ms_each, minlength=len(acts.texts))
    count = np.bincount(code, minlength=len(acts.texts))
    found: dict[str, list[float]] = {}
    for i in np.flatnonzero(count):
        row = found.setdefault(acts.texts[i], [0.0, 0.0])
        row[0] += float(ms[i]) / steps
        row[1] += float(count[i]) / steps
    ordered = sorted(found.items(), key=lambda item: -item[1][0])[:MOST_NAMES]
    return {name: (row[0], row[1]) for name, row in ordered}


def _copies(acts: Activities, kind: int, steps: int) -> Copies:
    mine = acts.where(acts.kind == kind)
    spans = intervals.union(mine.start_ms, mine.end_ms)
    others = acts.busy(KERNEL, COLLECTIVE, MEMSET)
    exposed = intervals.total(intervals.subtract(spans, others)) / steps
    found = Copies(len(mine) / steps, float(mine.bytes.sum()) / steps, float(mine.ms.sum()) / steps, exposed)
    if not len(mine.memory) or (mine.memory == UNTOLD).any():
        return found
    slow = mine.where(mine.memory == PAGEABLE)
    alone = intervals.subtract(intervals.union(slow.start_ms, slow.end_ms), others)
    of_host = Pageable(float(slow.bytes.sum()) / steps, float(slow.ms.sum()) / steps, intervals.total(alone) / steps)
    return replace(found, pageable=of_host)


def _launches(whole: Timeline, device: timeline.Device, kernels: Activities) -> tuple[float | None, float | None]:
    """Median delay from a call to its kernel in us, and the share of kernels that waited in the device's queue."""
    threads = [t for t in whole.threads if t.host == device.host]
    if not any(len(t.launches[0]) for t in threads):
        return None, None
    owner, start, stop = timeline.calls(threads, kernels.correlation)
    hit = owner >= 0
    if hit.sum() < 2:
        return None, None
    before = np.concatenate(([-np.inf], np.maximum.accumulate(kernels.end_ms)[:-1]))
    return float(np.median((kernels.start_ms - start)[hit])) * 1e3, float((stop <= before)[hit].mean())


def _kernels(space: xplane.Space, device: timeline.Device | None, found: Cadence, some: Cadence) -> Kernels | None:
    """Ops in the words that causes of recordings know; of an accelerator's with what its host adds to them."""
    if not len(found):
        return None
    host = kernels.of(space, 0.0, some.on_host.start_ms, some.on_host.end_ms)
    if device is None or device.kind == "CPU":
        return host
    own = _by_op(device.activities, found)
    if host is None:
        return own
    # What ops started from Python compute is among the device's kernels: no time of their own.
    return replace(own, wait_ms=host.wait_ms, eager_ops=host.eager_ops, function_ms=host.function_ms,
                   by_input=host.by_input)  # fmt: skip


def _by_op(acts: Activities, found: Cadence) -> Kernels:
    """An accelerator's kernels by type and name of their ops."""
    inside = _inside(acts, found)
    mine = inside.of(KERNEL, COLLECTIVE)
    steps = len(found)
    span = found.end_ms - found.start_ms
    busy = intervals.covered(mine.busy(KERNEL, COLLECTIVE), found.start_ms, found.end_ms)
    named = _table(mine, np.where(mine.op >= 0, mine.op, mine.name), steps)
    by_name: dict[str, tuple[float, float]] = {}
    by_type: dict[str, tuple[float, float]] = {}
    for text, (ms, count) in named.items():
        name = text.split("#")[0]
        parsed = names.graph_op(name)
        kind = parsed[1] if parsed else name
        for table, key in ((by_name, name if parsed else f"{name}:{name}"), (by_type, kind)):
            old = table.get(key, (0.0, 0.0))
            table[key] = (old[0] + ms, old[1] + count)
    return Kernels(steps, float(span.mean()), float(busy.mean()), float(mine.ms.sum()) / steps, len(mine) / steps, 0.0,
                   by_type, by_name)  # fmt: skip
