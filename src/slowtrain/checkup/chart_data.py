"""Data for the drawings of the HTML report: step times, one typical step, the input graph, the machine over the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

import numpy as np

from slowtrain.columns.arrays import Floats, distinct_values
from slowtrain.columns.input_pipeline import Node, Pipeline, WrittenDataset
from slowtrain.model import Band, Bar, Chart, InputNode, Pictures, Place
from slowtrain.trace import Trace

MAX_MERGE_GAP_SHARE = 0.02  # of the run: windows closer than this are drawn as one
MAX_CHART_POINTS = 4000  # of a chart; longer series keep the minimum and maximum of each stretch
DRAWN_LANES = ("next", "feed", "function", "readback", "callback", "trace", "gc", "gradient")
# Windows of other kinds than the profiler's.
OTHER_WINDOWS = {"objects": "objects counted", "allocations": "allocations recorded"}
MACHINE_SERIES = (
    ("memory of the process", "rss_bytes", "bytes"),
    ("processor, all cores of the machine", "cpu_mean_share", "share"),
    ("waiting for disks", "iowait_share", "share"),
    ("memory left on the machine", "available_bytes", "bytes"),
)


def report_pictures(trace: Trace, shown: Callable[[Place], Place]) -> Pictures:
    return Pictures(
        step_time_chart(trace),
        typical_step_bars(trace),
        input_graph_nodes(trace.pipeline, shown),
        tuple(machine_charts(trace)),
        window_bands(trace),
    )


def step_time_chart(trace: Trace) -> Chart | None:
    steps = trace.steps
    if not len(steps):
        return None
    x, y = _thin_series(steps.start_ms / 1e3, steps.ms)
    return Chart("step time", "s", "ms", x, y)


def _thin_series(x: Floats, y: Floats) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Keeps the minimum and maximum of every stretch, so that no long step is lost."""
    if len(x) > MAX_CHART_POINTS:
        parts = np.array_split(np.arange(len(x)), MAX_CHART_POINTS // 2)
        keep = distinct_values(np.array([i for p in parts for i in (p[np.argmin(y[p])], p[np.argmax(y[p])])]))
        x, y = x[keep], y[keep]
    good = np.isfinite(x) & np.isfinite(y)
    return tuple(map(float, x[good])), tuple(map(float, y[good]))


def window_bands(trace: Trace) -> tuple[Band, ...]:
    found: list[Band] = []
    for event in trace.events_of("window"):
        start, end = event.start_ms / 1e3, event.end_ms / 1e3
        name = OTHER_WINDOWS.get(event.name, "profiler window")
        # The line tracer follows the profiler immediately, so both are one stretch in the drawing.
        if found and found[-1].name == name and start - found[-1].end < MAX_MERGE_GAP_SHARE * trace.run_ms / 1e3:
            start = found.pop().start
        found.append(Band(name, start, end))
    validation = [e for e in trace.events_of("loop") if e.name == "evaluate" and e.data.get("nested")]
    return (*found, *(Band("validation", e.start_ms / 1e3, e.end_ms / 1e3) for e in validation[:200]))


def typical_step_bars(trace: Trace) -> tuple[Bar, ...]:
    """The steady step of median length on the main thread, and the ops of a step in a window."""
    steady = np.flatnonzero(trace.steps.steady)
    if not len(steady):
        return ()
    step = int(steady[np.argsort(trace.steps.ms[steady])[len(steady) // 2]])
    begin, end = float(trace.steps.start_ms[step]), float(trace.steps.end_ms[step])
    found = [Bar("step", trace.steps.source, 0.0, end - begin)]
    for lane in DRAWN_LANES:
        spans = trace.lane(lane)
        for i in np.flatnonzero((spans.start_ms < end) & (spans.end_ms > begin))[:200]:
            text = trace.names[int(spans.name[i])].text
            left, right = max(float(spans.start_ms[i]), begin), min(float(spans.end_ms[i]), end)
            found.append(Bar(lane, text.rpartition("<locals>.")[2], left - begin, right - begin))
    if trace.kernels is not None and trace.kernels.step_ms:
        # The window's step is a little longer than an undisturbed one, so it is scaled to that one's length.
        last = max((b.end_ms for b in trace.kernels.bars), default=0.0)  # 0 if no kernel took any time
        scale = min((end - begin) / last, 1.0) if last > 0 else 1.0
        found += [Bar(b.lane, b.name, b.start_ms * scale, b.end_ms * scale) for b in trace.kernels.bars]
    return tuple(found)


def input_graph_nodes(pipe: Pipeline | None, shown: Callable[[Place], Place]) -> tuple[InputNode, ...]:
    """The nodes as they ran; as they were written if there are no counters."""
    if pipe is None:
        return ()
    if not pipe.nodes:
        return tuple(
            InputNode(
                str(i),
                w.op.removesuffix("Dataset"),
                _call_text(w),
                tuple(map(str, w.inputs)),
                place=_written_place(w, shown),
            )
            for i, w in enumerate(pipe.written)
        )
    slowest = max(pipe.nodes, key=lambda n: n.ms / max(n.parallelism or 1.0, 1.0))
    return tuple(_input_node(n, n is slowest and n.ms > 0, shown) for n in pipe.nodes)


def _input_node(node: Node, slowest: bool, shown: Callable[[Place], Place]) -> InputNode:
    written = node.written
    return InputNode(
        str(node.id),
        node.name,
        _call_text(written) if written else node.name,
        tuple(map(str, node.inputs)),
        node.ms,
        node.parallelism,
        node.elements,
        node.bytes_produced,
        node.buffered_bytes,
        _written_place(written, shown) if written else None,
        slowest,
    )


def _written_place(written: WrittenDataset, shown: Callable[[Place], Place]) -> Place | None:
    return shown(written.place) if written.place else None


def _call_text(written: WrittenDataset) -> str:
    """``map(decode)``, ``batch(32)``: the call in the user's notation."""
    name = written.op.removesuffix("Dataset").removeprefix("Parallel").lower()
    function = (written.detail.get("function") or {}).get("qualname")
    argument = function or written.detail.get("batch_size") or written.detail.get("buffer_size") or ""
    if written.detail.get("filename"):
        argument = PurePath(str(written.detail["filename"])).name
    return f"{name}({str(argument).rpartition('<locals>.')[2]})"


def machine_charts(trace: Trace) -> list[Chart]:
    if "time_ms" not in trace.samples:
        return []
    at = trace.samples["time_ms"] / 1e3
    found = []
    for title, key, unit in MACHINE_SERIES:
        if key in trace.samples:
            x, y = _thin_series(at, trace.samples[key])
            if len(x) > 1:
                found.append(Chart(title, "s", unit, x, y))
    return found
