"""Builds a trace from a recording: finds the steps, divides them, joins pipelines, windows and lines to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from slowtrain.columns import input_pipeline
from slowtrain.columns.arrays import Floats, distinct_values, median_value
from slowtrain.columns.device import Device, Kernels, Line, Producer, WindowSteps
from slowtrain.columns.spans import count_by_place
from slowtrain.columns.steps import Steps
from slowtrain.model import Category, Place, Signal
from slowtrain.recording import reader
from slowtrain.recording.reader import Recording
from slowtrain.trace import Trace
from slowtrain.trace.loading import recorded_pipelines, recording_windows, side_files
from slowtrain.trace.run_division import async_steps, attribution, recording_steps, step_disturbances
from slowtrain.trace.signals import input_feed, memory_growth

MAX_IGNORED_SUBNORMAL_SHARE = 0.001  # of all numbers; below this the recorder does not measure their cost
MIN_STACK_SAMPLES = 5  # samples of the main thread; fewer say nothing


def load_recording(folder: Path) -> Trace:
    """Load the trace of a recording's folder. Raises ``InputError``."""
    raw = reader.read_recording(folder)
    try:
        facts = {**raw.facts, **side_files.read_sidecar_facts(folder, raw.facts)}
        return build_recording_trace(replace(raw, facts=side_files.with_damage_notes(folder, raw.events, facts)))
    except reader.DAMAGE_ERRORS as error:  # readable, but inconsistent
        raise reader.damaged_error(folder, error) from error


def build_recording_trace(raw: Recording, seen: recording_windows.DeepWindows | None = None) -> Trace:
    """Build the trace. ``seen``: content of the run's windows, if it is known already (else they are read)."""
    late = async_steps.find_async_steps(raw, recording_steps.find_steps(raw))
    found = late.steps
    batches = _batches_per_step(raw, found)
    fed = [p.per_execution(batches) for p in recorded_pipelines.recorded_pipelines(raw, found)]
    eager = takes_gradients_eagerly(raw, found)
    deep, device, window = seen or recording_windows.read_deep_windows(raw, found, eager=eager)
    inside = attribution.InsideCalls(_input_wait_ms(raw, found, fed, deep), deep, eager, window)
    columns, device = _divide_steps(raw, late, inside, device)
    notes = [*([async_steps.ASYNC_NOTE] if late.has_device_time else ()), *step_disturbances.stop_notes(raw.events)]
    noted = {"notes": [*raw.facts.get("notes", ()), *notes]} if notes else {}
    facts = {**raw.facts, **noted, "eager_step": eager, "launch": dict(raw.launch)}
    facts["usable_cores"] = _usable_cores(facts)
    facts["unfinished_call_ms"] = step_disturbances.unfinished_interval_ms(raw)
    samples = attribution.sample_columns(raw)
    if found.steady.any():
        facts["cpu_ms_per_step"] = attribution.cpu_ms_per_step(samples, found, "process_cpu_seconds")
        facts["step_cpu_ms"] = attribution.cpu_ms_per_step(samples, found, "main_cpu_seconds", "framework_cpu_seconds")
        facts["main_cpu_ms"] = attribution.cpu_ms_per_step(samples, found, "main_cpu_seconds")
    found = _with_batch_size(found, fed, batches)
    producers = _python_producers(raw, found)
    fed = _with_uncounted_pipeline(raw, found, fed, deep, producers, float(facts["usable_cores"]))
    trace = Trace(
        frozenset(), found, raw.names, raw.lanes, raw.events, facts, columns, attribution.run_phases(raw, found),
        tuple(fed), deep, producers, _loop_lines(raw), _sampled_lines(raw), samples, str(raw.launch.get("cwd") or ""),
        device, raw.main,
    )  # fmt: skip
    return replace(trace, signals=frozenset(_measured_signals(trace, inside)))


# -- what is measured


def _measured_signals(trace: Trace, inside: attribution.InsideCalls) -> Iterable[Signal]:
    if trace.run_ms:
        yield Signal.PHASES
    yield from side_files.sidecar_signals(trace)
    if trace.lanes:
        # The patches that record these were active, so that a missing span means that nothing happened.
        yield from (Signal.CALLS, Signal.CALLBACKS, Signal.TRACES, Signal.READBACKS, Signal.FEEDS, Signal.GC)
        yield from _loss_signals(trace)
    yield from _step_signals(trace, inside)
    if any(p.nodes for p in trace.pipelines) or (trace.lanes and not trace.pipelines):
        yield from (Signal.PIPELINE, Signal.WRITTEN)
    if trace.kernels is not None and (trace.kernels.count or not trace.on_accelerator):
        yield Signal.KERNELS
    if trace.device is not None:
        yield Signal.DEVICE
    if trace.loop_lines or any(p.lines for p in trace.producers) or trace.stacks:
        yield Signal.LINES
    if trace.samples:
        yield Signal.MACHINE
    if np.isfinite(trace.samples.get("read_call_bytes", np.zeros(0))).any():
        yield Signal.READS
    if any(e.data.get("weights") for e in trace.events_of("loop")):
        yield Signal.MODEL
    # A share without its cost says nothing, unless it is almost zero.
    if (
        trace.fact("subnormal_cost")
        or 0 <= float(trace.fact("subnormals", "share", default=-1)) < MAX_IGNORED_SUBNORMAL_SHARE
    ):
        yield Signal.SUBNORMALS
    yield from _machine_signals(trace)


def _step_signals(trace: Trace, inside: attribution.InsideCalls) -> Iterable[Signal]:
    if not len(trace.steps):
        return
    yield Signal.STEPS
    if not input_feed.uses_worker_processes(trace):
        yield Signal.PYTHON
    if inside.wait_ms is not None or trace.lane("next") or not trace.pipelines:
        yield Signal.INPUT


def _loss_signals(trace: Trace) -> Iterable[Signal]:
    """Yield LOSS if steps returned a loss, or Keras reported one for an epoch. Older recordings do not say."""
    if trace.fact("loss_seen", default=True) or any(e.data.get("logs") for e in trace.events_of("epoch")):
        yield Signal.LOSS


def _machine_signals(trace: Trace) -> Iterable[Signal]:
    """Yield what is known of the computer, and of its memory over the run."""
    if memory_growth.memory_slope(trace, *memory_growth.process_memory(trace)) is not None:
        yield Signal.MEMORY
    if memory_growth.device_memory(trace) or (trace.fact("devices", default=None) and not trace.on_accelerator):
        yield Signal.DEVICE_MEMORY  # without a device, no device memory can leak
    if isinstance(trace.fact("machine"), Mapping):
        yield Signal.FACTS  # the causes say which facts they lack
    if any(key.startswith("gpu_throttle_bits") for key in trace.samples) and trace.steps.steady.any():
        yield Signal.LOAD
    if any(key.startswith("gpu_pcie_generation") for key in trace.samples) and trace.steps.steady.any():
        yield Signal.LINK


def takes_gradients_eagerly(raw: Recording, found: Steps) -> bool:
    """Return whether gradients are taken in Python during the steps."""
    spans = raw.lanes.get("gradient")
    if spans is None or not len(found):
        return False
    inside = (spans.start_ms >= found.start_ms[0]) & (spans.start_ms < found.end_ms[-1])
    return bool(inside.sum() >= 0.5 * len(found))


def _usable_cores(facts: Mapping[str, Any]) -> float:
    """Return the smaller of affinity and container quota, as measured during the steps."""
    cpu = (facts.get("machine") or {}).get("cpu") or {}
    core_counts = [float(c) for c in (cpu.get("usable_cores"), facts.get("affinity_cores")) if c]
    return min(core_counts, default=1.0)


def _divide_steps(
    raw: Recording, late: async_steps.AsyncSteps, inside: attribution.InsideCalls, device: Device | None
) -> tuple[dict[Category, Floats], Device | None]:
    """Return ms of each category for each step, and the device with these steps' waits instead of the window's."""
    found = late.steps
    if not len(found):
        return {}, device
    if inside.window is None or device is None:
        busy_ms = async_steps.window_busy_ms(raw, found, inside.kernels)
        return late.limit_host_time(attribution.divide_host_steps(raw, found, inside), busy_ms), device
    shown = attribution.divide_accelerator_steps(raw, found, inside.window, inside.wait_ms, eager=inside.eager)
    profiled_steps = WindowSteps(inside.window.steps, inside.window.step_ms, device.idle)
    moved = replace(device, idle=shown.idle, step_ms=found.mean_ms, profiled=profiled_steps)
    return late.limit_host_time(shown.columns, None), moved


# -- input


def _with_uncounted_pipeline(
    raw: Recording,
    found: Steps,
    fed: list[input_pipeline.Pipeline],
    deep: Kernels | None,
    producers: tuple[Producer, ...],
    cores: float,
) -> list[input_pipeline.Pipeline]:
    """If no pipeline has counters, give the first iterated one the nodes as written."""
    used = [e.data.get("pipeline") for e in raw.events if e.lane == "iterator"]
    if any(p.nodes for p in fed) or not used or not len(found):
        return fed
    plans = [e.data.get("number") for e in raw.events if e.lane == "pipeline"]
    first = plans.index(used[0]) if used[0] in plans else 0
    epochs = len(distinct_values(found.block))
    return [
        recorded_pipelines.with_profiled_times(one, deep, producers, len(found), epochs, cores) if i == first else one
        for i, one in enumerate(fed)
    ]


def _input_wait_ms(
    raw: Recording, found: Steps, fed: list[input_pipeline.Pipeline], deep: Kernels | None
) -> float | None:
    """Return the wait for input inside the function call per step; 0 if Python fetches the batch (lane ``next``)."""
    asked = raw.lanes.get("next")
    if asked is not None and len(found) and len(asked) >= 0.5 * len(found):
        return 0.0
    if not found.steady.any():
        return None
    inside = [p for p in fed if p.keras and p.gap_ms is not None and p.batches >= 3]
    if inside and found.source in ("fit", "predict", "evaluate"):
        longest = max(inside, key=lambda p: p.batches)
        steady = found.steady_ms
        usual = float(steady[steady <= recorded_pipelines.MIN_FAR_RATIO * median_value(steady)].mean())
        # Very long steps fill a buffer at the start of an epoch, or waited while the consumer was not busy.
        rare, busy = found.mean_ms - usual, 0.0 if longest.wrote("Shuffle") else longest.far_gap_ms
        waited = max(rare - busy, 0.0) if busy is not None else 0.0
        return max(usual - (longest.gap_ms or 0.0), 0.0) + waited
    if deep is not None and deep.step_ms:
        return deep.wait_ms * min(found.mean_ms / deep.step_ms, 1.0)
    return None if fed and found.source == "fit" else 0.0


def _batches_per_step(raw: Recording, found: Steps) -> int:
    """Return the number of batches that a step trains on."""
    fits = [e for e in raw.events if e.lane == "loop" and e.name == "fit"]
    return max(map(recording_steps.batches_per_execution, fits), default=1) if found.source == "fit" else 1


def _with_batch_size(found: Steps, fed: list[input_pipeline.Pipeline], batches: int) -> Steps:
    """Take samples per step from the pipeline's batch if the calls did not give it."""
    if not len(found) or (found.size > 0).any():
        return found
    for one in sorted(fed, key=lambda p: -p.batches):
        for node in reversed(one.written):
            size = node.detail.get("batch_size")
            if size and int(size) > 0:
                return replace(found, size=np.full(len(found), int(size) * batches, dtype=np.int64))
    # Keras treats each element of a data set as a batch, however it was made.
    for one in (p for p in fed if p.keras and p.batches and p.written and found.source == "fit"):
        shapes = [e.get("shape") for e in one.written[-1].detail.get("element") or ()]
        rows = {s[0] for s in shapes if s}
        if len(rows) == 1 and all(shapes) and isinstance(size := rows.pop(), int) and size > 0:
            return replace(found, size=np.full(len(found), size * batches, dtype=np.int64))
    return found


# -- Python that makes input, and lines


def _python_producers(raw: Recording, found: Steps) -> tuple[Producer, ...]:
    names, ms = attribution.ms_by_span_name(raw, "pyfunc", found)
    traced: dict[int, list[Any]] = {}
    for event in raw.events:
        if event.lane == "lines" and event.name == "producer":
            traced.setdefault(int(event.data.get("producer") or 0), []).append(event.data)
    spans = raw.lanes.get("pyfunc")
    result = []
    for number, spent in list(zip(names, ms, strict=True))[:20]:
        detail = raw.names[int(number)].detail
        place = Place(str(detail["file"]), int(detail["line"])) if detail.get("file") and detail.get("user") else None
        count = float((spans.name == number).sum()) / max(len(found), 1) if spans is not None else 0.0
        lines = _summed_lines(
            [row for data in traced.get(int(number), ()) for row in data["lines"]], max(len(traced), 1)
        )
        result.append(Producer("py_function", str(detail.get("qualname", "?")), place, float(spent), count, lines))
    return tuple(result)


def _summed_lines(rows: list[Any], per: float) -> tuple[Line, ...]:
    """Sum ``(file, line, ns, visits)`` rows by line, costliest first; ms and visits per call or step."""
    spent: dict[tuple[str, int], list[float]] = {}
    for file, line, ns, visits in rows:
        row = spent.setdefault((file, int(line)), [0.0, 0.0])
        row[0] += ns / 1e6
        row[1] += visits
    total = sum(r[0] for r in spent.values()) or 1.0
    ordered = sorted(spent.items(), key=lambda i: -i[1][0])[:40]
    return tuple(Line(Place(f, n), ms / per, visits / per, ms / total) for (f, n), (ms, visits) in ordered)


def _loop_lines(raw: Recording) -> tuple[Line, ...]:
    done = [e.data for e in raw.events if e.lane == "window" and e.name == "lines"]
    count = sum(int(data.get("steps") or 0) for data in done)
    return _summed_lines([row for data in done for row in data["lines"]], count) if count else ()


def _sampled_lines(raw: Recording) -> tuple[Line, ...]:
    """Return the main thread's samples outside fit and steps, by line: where the user's Python spends the run."""
    spans = raw.lanes.get("stack")
    if spans is None or len(spans) < MIN_STACK_SAMPLES:
        return ()
    step = float(median_value(np.diff(spans.start_ms))) if len(spans) > 1 else 0.0
    counts = count_by_place(raw.names, spans)
    total = sum(counts.values()) or 1
    ordered = sorted(counts.items(), key=lambda i: -i[1])[:100]
    return tuple(Line(place, count * step, 0.0, count / total) for place, count in ordered)
