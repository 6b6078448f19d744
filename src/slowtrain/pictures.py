"""What the HTML report draws, computed from a trace: step times, one typical step, the input graph, machine series."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from slowtrain.model import Band, Bar, Category, Chart, InputNode, Pictures, Place
from slowtrain.trace import Bools, Floats, Trace
from slowtrain.trace.pipeline import Node, Pipeline

MOST_POINTS = 20_000  # of a chart: beyond, every nth step is drawn, the longest of its neighbours
MOST_BARS = 300
SLOW_INPUT = 0.05  # of a step is waited for: then the slowest node is a bottleneck, else none is

# Lanes of the main thread as the categories that reports have colours for.
LANES = {
    "next": Category.INPUT, "iterator": Category.INPUT, "feed": Category.FEED, "readback": Category.READBACK,
    "trace": Category.COMPILE, "build": Category.COMPILE, "gc": Category.GC, "callback": Category.CALLBACK,
    "gradient": Category.DISPATCH, "function": Category.DISPATCH, "on_batch": Category.DISPATCH, "pyfunc": Category.INPUT,
}  # fmt: skip
SERIES = (
    ("cpu_mean_share", "Processors of the machine busy", "share"),
    ("rss_bytes", "Memory of the process", "bytes"),
    ("available_bytes", "Memory free on the machine", "bytes"),
    ("iowait_share", "Waiting for disks", "share"),
    ("gpu_util_share", "GPU busy", "share"),
    ("gpu_memory_used_bytes", "GPU memory", "bytes"),
    ("gpu_sm_mhz", "GPU clock", "MHz"),
)

Shown = Callable[[Place | None], Place | None]


def pictures(trace: Trace, shown: Shown) -> Pictures:
    """``shown`` gives a place as the user knows it."""
    return Pictures(
        _step_times(trace), tuple(_typical_step(trace)), _input_graph(trace, shown), tuple(_series(trace)), tuple(_bands(trace))
    )


def _step_times(trace: Trace) -> Chart | None:
    ms = trace.steps.ms
    if not len(ms):
        return None
    stride = -(-len(ms) // MOST_POINTS)
    at = np.arange(0, len(ms), stride)
    return Chart("Step time", "step", "ms", _numbers(at.astype(float)), _numbers(np.maximum.reduceat(ms, at)))


def _numbers(column: Floats) -> tuple[float, ...]:
    return tuple(float(v) for v in column)


def _bands(trace: Trace) -> Iterator[Band]:
    """Steps under the profiler or the line tracer, as stretches of step numbers."""
    for first, last in _runs(trace.steps.windowed):
        yield Band("profiler", float(first), float(last + 1))


def _runs(marked: Bools) -> list[tuple[int, int]]:
    """First and last index of each unbroken stretch of marks."""
    edges = np.diff(np.concatenate(([0], marked.astype(np.int8), [0])))
    return list(zip(np.flatnonzero(edges == 1).tolist(), (np.flatnonzero(edges == -1) - 1).tolist()))


def _typical_step(trace: Trace) -> Iterator[Bar]:
    """The steady step of median length: what its main thread did, and a profiled step's ops where there are any."""
    steps = trace.steps
    steady = np.flatnonzero(steps.steady)
    if not len(steady):
        return
    chosen = int(steady[np.argsort(steps.ms[steady])[len(steady) // 2]])
    begin, end = float(steps.start_ms[chosen]), float(steps.end_ms[chosen])
    yield Bar("step", f"step {chosen}", 0.0, end - begin)
    found: list[Bar] = []
    for lane, category in LANES.items():
        spans = trace.lane(lane)
        for i in np.flatnonzero((spans.start_ms < end) & (spans.end_ms > begin)):
            start, stop = max(float(spans.start_ms[i]), begin), min(float(spans.end_ms[i]), end)
            name = trace.names[int(spans.name[i])].text.rpartition(".")[2]
            found.append(Bar(str(category), name or lane, start - begin, stop - begin))
    if trace.kernels is not None and trace.kernels.step_ms > 0:
        # Of another step, one under the profiler: stretched to this one's length.
        scale = (end - begin) / trace.kernels.step_ms
        for bar in trace.kernels.bars:
            start, stop = bar.start_ms * scale, min(bar.end_ms * scale, end - begin)
            if start < stop:
                found.append(replace(bar, start_ms=start, end_ms=stop))
    longest = sorted(found, key=lambda b: b.start_ms - b.end_ms)[:MOST_BARS]
    yield from sorted(longest, key=lambda b: b.start_ms)


def _input_graph(trace: Trace, shown: Shown) -> tuple[InputNode, ...]:
    pipe = trace.pipeline
    if pipe is None or not pipe.nodes:
        return ()
    slowest = _bottleneck(pipe) if trace.share(Category.INPUT) >= SLOW_INPUT else None
    return tuple(
        InputNode(
            str(node.id), node.name, _label(node), tuple(str(i) for i in node.inputs), node.ms, node.parallelism,
            node.elements, node.bytes_produced, node.buffered_bytes or None,
            shown(node.written.place) if node.written else None, node is slowest,
        )
        for node in pipe.nodes
    )  # fmt: skip


def _bottleneck(pipe: Pipeline) -> Node | None:
    return max(pipe.nodes, key=lambda n: n.ms / max(n.parallelism or 1.0, 1.0), default=None)


def _label(node: Node) -> str:
    """``map x 4`` or ``batch(64)``: what the running node does, with the figure that matters."""
    detail = node.written.detail if node.written else {}
    if node.family == "Batch" and detail.get("batch_size"):
        return f"{node.name}({detail['batch_size']})"
    if node.parallelism and node.parallelism > 1:
        return f"{node.name} x {node.parallelism:.0f}"
    return f"{node.name}({node.buffer_size:.0f})" if node.buffer_size else node.name


def _series(trace: Trace) -> Iterator[Chart]:
    time_ms = trace.samples.get("time_ms")
    if time_ms is None or not len(time_ms):
        return
    for key, title, unit in SERIES:
        column = trace.samples.get(key)
        known = np.isfinite(column) if column is not None else None
        if column is not None and known is not None and known.any():
            yield Chart(title, "s", unit, _numbers(time_ms[known] / 1e3), _numbers(column[known]))
