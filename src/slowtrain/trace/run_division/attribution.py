"""Where a steady step goes, and where the whole run goes. The parts always add up.

On the main thread the innermost span owns the moment. What a function call does inside (waiting for the iterator,
computing, overhead) is not visible from Python. It is divided by what the consumer's gaps and the deep windows
measured, and is ``unattributed`` without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Floats, Ints, median_value
from slowtrain.columns.device import Kernels
from slowtrain.columns.intervals import Intervals
from slowtrain.columns.spans import Spans, times_of
from slowtrain.columns.steps import Steps
from slowtrain.model import Attribution, Category, Part, Phase
from slowtrain.profile.summaries import step_division
from slowtrain.recording.reader import Recording
from slowtrain.trace.run_division import step_disturbances, thinned_run

# The category of a lane's self time on the main thread, without a device's timeline. "function" is divided
# further.
LANE_CATEGORIES = {
    **step_division.MAIN_LANE_CATEGORIES,
    "gradient": Category.DISPATCH,
    "step": Category.DISPATCH,
    "on_batch": Category.DISPATCH,
    "loop": Category.DISPATCH,
    "function": Category.UNATTRIBUTED,
    "sync": Category.UNATTRIBUTED,
}

# First phases, also known for thinned stretches: launch, end, stops, compilations, windows, validation.
PHASES_KNOWN_IN_HOLES = 6

MIN_STEP_SHARES = (0.9, 0.75, 0.6)  # of the time between two samples; uses the first share that any stretch reaches


class InsideCalls(Struct, frozen=True):
    """What is known of the time inside function calls: ``wait_ms`` per step for input (None: not measured).

    ``window``: a step of the window, divided by what an accelerator did; None if the processor computes.
    """

    wait_ms: float | None
    kernels: Kernels | None
    eager: bool
    window: step_division.WindowDivision | None = None


def _main_thread_spans(recording: Recording) -> Iterator[tuple[str, Spans]]:
    """Yield each lane's spans on the main thread. Readbacks without a line of the script are Keras' own."""
    for lane, spans in recording.lanes.items():
        if lane not in LANE_CATEGORIES:
            continue
        mine = spans.where(spans.thread == recording.main)
        if lane == "readback" and len(mine):
            sited = np.array([n.place is not None for n in recording.names], dtype=bool)[mine.name]
            yield "loop", mine.where(~sited)
            mine = mine.where(sited)
        yield lane, mine


def self_time_by_lane(recording: Recording, steps: Steps) -> dict[str, Floats]:
    """Return each lane's self time on the main thread in ms for each step; ``python`` is time without spans."""
    parts = [(lane, s) for lane, s in _main_thread_spans(recording) if len(s)]
    result = {lane: np.zeros(len(steps)) for lane, _ in parts}
    if parts and len(steps):
        start = np.concatenate([s.start_ms for _, s in parts])
        end = np.concatenate([s.end_ms for _, s in parts])
        lane_of = np.concatenate([np.full(len(s), i) for i, (_, s) in enumerate(parts)])
        order = np.lexsort((-end, start))
        start, end, lane_of = start[order], end[order], lane_of[order]
        parent = intervals.enclosing_spans(start, end)
        above = np.where(parent >= 0, lane_of[parent], -1)
        for i, (lane, _) in enumerate(parts):
            mine, child = lane_of == i, above == i
            own = intervals.overlap_per_range(start[mine], end[mine], steps.start_ms, steps.end_ms)
            taken = intervals.overlap_per_range(start[child], end[child], steps.start_ms, steps.end_ms)
            result[lane] = result[lane] + np.maximum(own - taken, 0.0)
    known = sum(result.values(), np.zeros(len(steps)))
    result["python"] = np.maximum(steps.ms - known, 0.0)
    return result


def main_thread_waits(recording: Recording) -> dict[str, Intervals]:
    """Return when the main thread waited for a batch, copied one, or ran a callback, by reason."""

    def of(*lanes: str) -> Intervals:
        spans = (recording.lanes.get(lane, Spans()) for lane in lanes)
        return intervals.union_all((s.where(s.thread == recording.main)).times for s in spans)

    feeding = of("feed")  # inside the wait for a batch if Keras copies it
    asking = intervals.subtract(of("next", "iterator"), feeding)
    found = {"input": asking, "convert": feeding, "callback": of("callback")}
    return {reason: spans for reason, spans in found.items() if len(spans[0])}


def divide_accelerator_steps(
    recording: Recording, steps: Steps, window: step_division.WindowDivision, wait_ms: float | None, *, eager: bool
) -> step_division.UnprofiledSteps:
    """Divide steps whose ops an accelerator computes; the columns add up to each step."""
    lanes: dict[step_division.LaneGroup, Floats] = {}
    for lane, column in self_time_by_lane(recording, steps).items():
        group = lane_group(lane, eager=eager)
        lanes[group] = lanes.get(group, np.zeros(len(steps))) + column
    calls = lanes.get(None, np.zeros(len(steps)))
    at_work_ms = sum(window.device.get(None, {}).values())  # also during a call that compiles
    first = np.minimum(_first_call_ms(recording, steps, calls), np.maximum(calls - at_work_ms, 0.0))
    lanes[None] = calls - first
    compiling = bool(first[steps.steady].any())
    divided = step_division.divide_steps(lanes, steps.steady, window, wait_ms, eager=eager, compiling=compiling)
    columns = dict(divided.columns)
    columns[Category.COMPILE] = columns[Category.COMPILE] + first
    return step_division.UnprofiledSteps(_scale_to_steps(columns, steps), divided.idle)


def lane_group(lane: str, *, eager: bool) -> step_division.LaneGroup:
    """Return the group of a lane; None for framework calls, which in eager steps include the Python between ops."""
    if lane == "python":
        return None if eager else Category.PYTHON
    return step_division.MAIN_LANE_CATEGORIES.get(lane)


def main_lanes(
    recording: Recording, start: Floats, end: Floats, *, eager: bool
) -> dict[step_division.LaneGroup, Intervals]:
    """Return when the main thread was in each lane between these moments; the innermost span owns a moment."""
    low, high = float(start[0]), float(end[-1])
    rows: list[tuple[float, float, step_division.LaneGroup]] = []
    for lane, spans in _main_thread_spans(recording):
        near = spans.where((spans.end_ms > low) & (spans.start_ms < high))
        group = lane_group(lane, eager=eager)
        rows += [(a, b, group) for a, b in zip(near.start_ms.tolist(), near.end_ms.tolist(), strict=True)]
    found: dict[step_division.LaneGroup, list[tuple[float, float]]] = {}
    for begun, ended, owner in intervals.innermost_owners(rows, low, high, lane_group("python", eager=eager)):
        found.setdefault(owner, []).append((begun, ended))
    return {owner: intervals.union(*np.array(pairs).T) for owner, pairs in found.items()}


def divide_host_steps(recording: Recording, steps: Steps, inside: InsideCalls) -> dict[Category, Floats]:
    """Return ms of each category for each step that the processor computes; they add up to the step."""
    lanes = self_time_by_lane(recording, steps)
    found = {c: np.zeros(len(steps)) for c in Category}
    for lane, column in lanes.items():
        if lane not in ("function", "sync", "python"):
            found[LANE_CATEGORIES[lane]] += column
    found[Category.PYTHON] += lanes["python"]
    # A wait for the device is a wait for what calls have started.
    calls = lanes.get("function", np.zeros(len(steps))) + lanes.get("sync", np.zeros(len(steps)))
    first = _first_call_ms(recording, steps, calls)
    found[Category.COMPILE] += first
    if inside.eager:
        _divide_eager_calls(found, calls - first, inside.kernels)
    else:
        _divide_calls(found, calls - first, inside, steps, _windowed_call_ms(recording, steps, calls))
    return _scale_to_steps(found, steps)


def _first_call_ms(recording: Recording, steps: Steps, calls: Floats) -> Floats:
    """Return the part of calls beyond a usual call in steps that traced: graph optimisation, first execution."""
    traces = np.sort(np.array([e.start_ms for e in recording.events if e.lane == "trace"]))
    traced = np.searchsorted(traces, steps.end_ms) > np.searchsorted(traces, steps.start_ms)
    if not traced.any():
        return np.zeros(len(steps))
    usual = float(median_value(calls[~traced])) if (~traced).sum() >= 3 else 0.0
    return np.where(traced, np.maximum(calls - usual, 0.0), 0.0)


def _windowed_call_ms(recording: Recording, steps: Steps, calls: Floats) -> float | None:
    """Return the mean ms of function calls in steps under the profiler; None without such steps."""
    inside = np.zeros(len(steps), dtype=bool)
    for event in recording.events:
        if event.lane == "window" and event.name == "profile":
            inside |= (steps.start_ms >= event.start_ms - 1.0) & (steps.end_ms <= event.end_ms + 1.0)
    return float(calls[inside].mean()) if inside.any() and calls[inside].any() else None


def _divide_calls(
    found: dict[Category, Floats], calls: Floats, inside: InsideCalls, steps: Steps, windowed_ms: float | None
) -> None:
    kernels, waits = inside.kernels, step_division.input_wait_ms(calls, steps.steady, inside.wait_ms or 0.0)
    found[Category.INPUT] += waits
    rest = calls - waits
    if kernels is None or kernels.busy_ms + kernels.peers_ms <= 0:
        found[Category.UNATTRIBUTED] += rest
        return
    # A window inflates overhead more than computation. Therefore the share is carried over, not the time,
    # relative to the windowed steps' calls, not to the steps, which include Python.
    inside_ms = (kernels.step_ms if windowed_ms is None else windowed_ms) - kernels.wait_ms
    known = kernels.busy_ms + kernels.peers_ms
    shares = {Category.DEVICE: kernels.busy_ms, Category.COLLECTIVE_WAIT: kernels.peers_ms}
    for category, ms in shares.items():
        found[category] += rest * (ms / max(known, inside_ms))
    found[Category.DISPATCH] += rest * (1 - known / max(known, inside_ms))


def _divide_eager_calls(found: dict[Category, Floats], calls: Floats, kernels: Kernels | None) -> None:
    """Divide eager steps, whose ops run on the main thread; computation is what the window's kernels took."""
    pool = calls + found[Category.PYTHON] + found[Category.DISPATCH]
    if kernels is None:
        found[Category.UNATTRIBUTED] += calls
        return
    share = min((kernels.eager_ms + kernels.busy_ms) / max(kernels.step_ms, 1e-9), 1.0)
    found[Category.DEVICE] += pool * share
    found[Category.DISPATCH] = pool * (1 - share)
    found[Category.PYTHON] = np.zeros_like(pool)


def _scale_to_steps(found: dict[Category, Floats], steps: Steps) -> dict[Category, Floats]:
    """Scale away rounding and overlaps, so that the columns add up to each step."""
    total = sum(found.values(), np.zeros(len(steps)))
    scale = np.divide(steps.ms, total, out=np.ones(len(steps)), where=total > 0)
    for column in found.values():
        column *= scale
    found[Category.UNATTRIBUTED] += np.where(total > 0, 0.0, steps.ms)
    return found


def mean_step(found: Mapping[Category, Floats], steps: Steps) -> Attribution:
    """Return the mean steady step by category, largest first."""
    total = steps.mean_ms
    parts = [(str(c), steps.mean_of(col)) for c, col in found.items()]
    return Attribution(
        total, tuple(_attribution_part(n, ms, total) for n, ms in sorted(parts, key=lambda p: -p[1]) if ms > 0)
    )


def _attribution_part(name: str, ms: float, total: float) -> Part:
    return Part(name, ms, ms / total if total else 0.0)


def run_phases(recording: Recording, steps: Steps) -> Attribution:
    """Return where the run goes: each moment to the first phase in this order that claims it."""
    end = recording.end_ms
    begun = (recording.facts.get("child", {}).get("begun_ns", 0) - int(recording.launch.get("start_ns") or 0)) / 1e6
    script_end = recording.facts.get("end_ns")
    stop = (script_end - int(recording.launch.get("start_ns") or 0)) / 1e6 if script_end else end
    loops = [e for e in recording.events if e.lane == "loop"]

    def spans_of(lane: str) -> Intervals:
        spans = recording.lanes.get(lane, Spans())
        return spans.where(spans.thread == recording.main).times

    # Including the cut steps at the edges of thinned stretches.
    counted = steps.steady_or_rare if steps.edge is None else steps.steady_or_rare | (steps.edge & ~steps.windowed)
    claims: list[tuple[Phase, Intervals]] = [
        (Phase.LAUNCH, intervals.single(0.0, max(begun, 0.0))),
        (Phase.END, intervals.single(stop, end)),
        (Phase.STOPPED, step_disturbances.stopped_times(recording.events)),
        (Phase.COMPILE, step_disturbances.recompilation_times(recording, steps)),  # also in steps under the profiler
        (Phase.WINDOW, times_of(e for e in recording.events if e.lane == "window")),
        (Phase.VALIDATION, times_of(e for e in loops if e.name == "evaluate" and e.data.get("nested"))),
        (Phase.STEPS, intervals.union(steps.start_ms[counted], steps.end_ms[counted])),
        (Phase.COMPILE, times_of(e for e in recording.events if e.lane == "trace")),
        (Phase.WARMUP, intervals.union(steps.start_ms, steps.end_ms)),
        (Phase.CHECKPOINT, spans_of("save")),  # also one that a callback writes at the end of an epoch
        (Phase.IMPORT, spans_of("import")),
        # A call that is the step was claimed above.
        (Phase.PREDICT, times_of(e for e in loops if e.name != "fit" and not e.data.get("nested"))),
        (Phase.CALLBACK, spans_of("callback")),
        (Phase.BUILD, spans_of("build")),
        (Phase.COMPILE, spans_of("trace")),
        (Phase.COMPILE, step_disturbances.unfinished_call_time(recording)),
        (Phase.EPOCH, spans_of("loop")),
        (Phase.EPOCH, times_of(loops)),  # also one that never ended
        (Phase.EPOCH, spans_of("iterator")),
        (Phase.PREPARATION, intervals.single(0.0, end)),
    ]
    left, spent = intervals.single(0.0, end), dict.fromkeys(Phase, 0.0)
    for i, (phase, claim) in enumerate(claims):
        if i == PHASES_KNOWN_IN_HOLES:
            left = thinned_run.claim_hole_time(left, spent, claims[i:], steps)
        mine = intervals.intersect(left, claim)
        spent[phase] += intervals.total_length(mine)
        left = intervals.subtract(left, claim)
    parts = sorted(((str(p), ms) for p, ms in spent.items() if ms > 0), key=lambda p: -p[1])
    return Attribution(end, tuple(_attribution_part(n, ms, end) for n, ms in parts))


def ms_by_span_name(recording: Recording, lane: str, steps: Steps) -> tuple[Ints, Floats]:
    """Return names of a lane's spans in steady steps with ms per step, costliest first (all threads)."""
    spans = recording.lanes.get(lane)
    count = int(steps.steady.sum())
    if spans is None or not count:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    start, end = steps.start_ms[steps.steady], steps.end_ms[steps.steady]
    mine = spans.where(intervals.containing_range(start, end, spans.start_ms) >= 0)
    names, inverse = np.unique(mine.name, return_inverse=True)
    ms = np.bincount(inverse, mine.ms, minlength=len(names)) / count
    order = np.argsort(-ms)
    return names[order], ms[order]


def sample_columns(raw: Recording) -> dict[str, Floats]:
    """Return each figure of the machine samples as a column, with ``time_ms``; gaps are NaN.

    Figures of each GPU become one column per GPU: ``gpu_sm_mhz_0``.
    """
    if not raw.samples:
        return {}
    rows = [_flat_figures(data) for _, data in raw.samples]
    keys = sorted({k for row in rows for k in row})
    columns = {k: np.array([row.get(k, np.nan) for row in rows]) for k in keys}
    columns["time_ms"] = np.array([at for at, _ in raw.samples])
    return columns


def cpu_ms_per_step(samples: Mapping[str, Floats], found: Steps, *keys: str) -> float | None:
    """Return processor time per steady step, the sum of ``keys``, from samples between which only steps ran."""
    if any(k not in samples for k in keys) or len(samples["time_ms"]) < 2:
        return None
    used = np.sum([samples[k] for k in keys], axis=0)
    at, used = samples["time_ms"][np.isfinite(used)], used[np.isfinite(used)]
    if len(at) < 2:
        return None
    busy = intervals.union(found.start_ms[found.steady], found.end_ms[found.steady])
    span = np.diff(at)
    # With short epochs there may be no two samples with only steps between them.
    inside = intervals.covered_length(busy, at[:-1], at[1:])
    only_steps = inside >= next((s for s in MIN_STEP_SHARES if (inside >= s * span).any()), 1.0) * span
    if not only_steps.any():
        return None
    return float(np.diff(used)[only_steps].sum() * 1e3 / span[only_steps].sum() * found.mean_ms)


def _flat_figures(data: Mapping[str, Any]) -> dict[str, float]:
    single = {k: float(v) for k, v in data.items() if isinstance(v, (int, float))}
    several = {
        f"{k}_{i}": float(v)
        for k, values in data.items()
        if k.startswith("gpu_") and isinstance(values, list)
        for i, v in enumerate(values)
        if isinstance(v, (int, float))
    }
    return single | several
