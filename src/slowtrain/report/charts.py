"""Geometry of the charts. ``templates/charts.html`` draws them as inline SVG, which needs no script.

Positions along x are fractions of the width and those along y pixels, so that a chart fills any width while its text
keeps its size. Colours are classes of ``page.css``. A browser shows an SVG ``<title>`` when the pointer is over it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from slowtrain.model import Attribution, Band, Bar, Category, Chart, Phase
from slowtrain.report import wording

_COLOURED = {str(name) for names in (Category, Phase) for name in names}
_LANE_COLOURS = {"tf.data": "epoch", "sync": "d2h", "step": "step", "gpu": "device"}
MAX_LINE_COLUMNS = 480  # about two pixels each on a wide screen
MAX_HOVER_COLUMNS = 120
MAX_LANE_ROWS = 6
TOP_MARGIN_PX = 7  # half the height of a label above the highest line


@dataclass(frozen=True)
class Stretch:
    """A part of the x axis, in fractions of the width, with the text that pointing at it shows."""

    x: float
    width: float
    title: str
    label: str | None = None
    name: str = ""  # of the part or lane, for its colour
    slim: bool = False  # a narrow page hides the label


@dataclass(frozen=True)
class Plot:
    """Lines on a plane: paths take a thousandth of the width as unit of x, everything else takes fractions."""

    says: str
    height: int
    y_labels: tuple[tuple[str, float], ...]
    x_labels: tuple[tuple[str, str], ...]  # at the start, in the middle, at the end: text and anchor
    bands: tuple[Stretch, ...]
    paths: tuple[tuple[str, str], ...]  # data and class
    hovers: tuple[Stretch, ...]
    cuts: tuple[float, ...] = ()  # x of values above the axis
    level: float | None = None  # y of a dashed line across
    crossing: float | None = None  # x of a dashed line upwards
    dots: tuple[tuple[float, float, str], ...] = ()
    names: tuple[tuple[str, str], ...] = ()  # of the lines: name and class


@dataclass(frozen=True)
class Curve:
    """A line with its interval (x, low, value, high), and the measured points (x, y)."""

    name: str
    points: Sequence[tuple[float, float, float, float]]
    dots: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Lane:
    """One lane of a timeline: its bars with their y, and how many rows found no room."""

    name: str
    top: float
    bottom: float
    bars: tuple[tuple[float, Stretch], ...]
    hidden_rows: int


@dataclass(frozen=True)
class Timeline:
    says: str
    height: float
    lanes: tuple[Lane, ...]
    ticks: tuple[tuple[float, str, str], ...]  # x, anchor, text


@dataclass(frozen=True)
class _Scale:
    """From values to places: ``x`` to a fraction of the width, ``y`` to pixels from the top."""

    left: float
    right: float
    low: float = 0.0
    top: float = 1.0
    height: float = 1.0

    def x(self, value: float) -> float:
        return (value - self.left) / (self.right - self.left) if self.right > self.left else 0.5

    def y(self, value: float) -> float:
        share = (min(value, self.top) - self.low) / (self.top - self.low)
        return round(TOP_MARGIN_PX + (self.height - TOP_MARGIN_PX) * (1 - share), 1)


def colour_class(name: str) -> str:
    """The class for a category, a phase or a lane; names may come from anywhere."""
    name = _LANE_COLOURS.get(name.lower(), name)
    return f"c-{name}" if name in _COLOURED or name in _LANE_COLOURS else "c-other"


def percent(value: float) -> str:
    return f"{100 * value:.3f}".rstrip("0").rstrip(".") + "%"


def bar_segments(
    attribution: Attribution, named: wording.Named, measured: Callable[[float, float], str] = wording.duration_like
) -> list[Stretch]:
    """The parts as segments of one bar. ``measured`` words a part of the whole."""
    segments: list[Stretch] = []
    left = 0.0
    for part in attribution.parts:
        width = wording.finite_or_none(part.share) or 0.0
        if width <= 0:
            continue
        label = named(part.name)[0]
        title = f"{label}: {measured(part.ms, attribution.total_ms)}, {wording.share_text(part.share)}"
        # A label that fits the segment on half of a wide page; a narrow page hides the slim ones.
        texts = (f"{label} {wording.share_text(width)}", wording.share_text(width))
        inside = next((t for t in texts if width * 500 > 6.6 * len(t) + 12), None)
        segments.append(Stretch(left, width, title, inside, part.name, slim=width < 0.3))
        left += width
    return segments


def interval_places(value: float, low: float, high: float, most: float) -> tuple[float, float, float]:
    """Where low, value and high of a speed-up lie on a scale from 1x to ``most``."""
    scale = max(most - 1, 0.05)
    start, middle, end = (
        min(max((wording.finite_or_none(v) or 1.0) - 1, 0) / scale, 1) * 0.94 + 0.03 for v in (low, value, high)
    )
    return start, middle, end


def line_plot(
    chart: Chart,
    *,
    height: int = 120,
    clip: bool = False,
    level: tuple[float, str] | None = None,
    bands: Sequence[Band] = (),
) -> Plot | None:
    """A series as a line with the lowest and highest value of every pixel column; None without values.

    ``clip`` ends the axis near the bulk of the values and marks what lies above it, because one slow first step would
    press all others flat. ``level`` is a line across.
    """
    points = [(x, y) for x, y in zip(chart.x, chart.y, strict=False) if math.isfinite(x) and math.isfinite(y)]
    if not points:
        return None
    ys = sorted(y for _, y in points)
    above = _clipped_top(ys) if clip else None
    ticks = _axis_ticks(min(ys[0], 0.0), above or ys[-1], chart.y_label)
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    scale = _Scale(left, right, ticks[0], max(ticks[-1], above or ys[-1]), height)
    says = f"{chart.title}: {len(points):,} values from {_y_text(ys[0], chart)} to {_y_text(ys[-1], chart)}"
    if level:
        says += f", {level[1]} {_y_text(level[0], chart)}"
    columns = _binned_columns(points, scale, MAX_LINE_COLUMNS)
    return Plot(
        says,
        height,
        tuple((_y_text(t, chart), scale.y(t)) for t in ticks),
        tuple(_x_labels(scale, chart)),
        tuple(_band_stretches(bands, scale)),
        tuple(_column_paths(columns, scale)),
        tuple(_column_hovers(_binned_columns(points, scale, MAX_HOVER_COLUMNS), scale, chart)),
        cuts=tuple(x for x, ys in columns if max(ys) > scale.top),
        level=scale.y(level[0]) if level and math.isfinite(level[0]) else None,
    )


def curve_plot(chart: Chart, curves: Sequence[Curve], crossing: tuple[Band, float] | None, height: int = 220) -> Plot:
    """Lines on one scale from 0 on, with the x at which they cross; ``chart`` has only the words."""
    values = [y for c in curves for y in (*(p[2] for p in c.points), *(y for _, y in c.dots))]
    most = max(x for c in curves for x in (*(p[0] for p in c.points), *(x for x, _ in c.dots)))
    highest = max(*values, *(p[3] for c in curves for p in c.points))
    ticks = _axis_ticks(0.0, min(highest, 1.5 * max(values)), chart.y_label)  # some intervals have hardly an end
    scale = _Scale(0.0, most, ticks[0], ticks[-1], height)
    bands = tuple(_band_stretches([crossing[0]], scale)) if crossing is not None else ()
    at = scale.x(crossing[1]) if crossing is not None else None
    return _curves_on_scale(chart, curves, scale, ticks, bands, crossing=at)


def panel_plot(
    chart: Chart,
    curves: Sequence[Curve],
    most: float,
    ends: tuple[float, float],
    level: float | None,
    height: int = 130,
) -> Plot:
    """Lines on a scale that several charts share: x from 0 to ``most``, y between the ``ends``; higher values are cut.

    ``level`` is a line across; ``chart`` has only the words.
    """
    ticks = _axis_ticks(*ends, chart.y_label)
    scale = _Scale(0.0, most, ticks[0], ticks[-1], height)
    return _curves_on_scale(chart, curves, scale, ticks, (), level=scale.y(level) if level is not None else None)


def _curves_on_scale(
    chart: Chart,
    curves: Sequence[Curve],
    scale: _Scale,
    ticks: Sequence[float],
    bands: tuple[Stretch, ...],
    *,
    crossing: float | None = None,
    level: float | None = None,
) -> Plot:
    sides = [(f"side{place}", c) for place, c in enumerate(curves)]
    return Plot(
        f"{chart.title}: " + " and ".join(c.name for c in curves),
        round(scale.height),
        tuple((_y_text(t, chart), scale.y(t)) for t in ticks),
        tuple(_x_labels(scale, chart)),
        bands,
        tuple(path for side, c in sides if c.points for path in _interval_paths(c, scale, side)),
        tuple(_curve_hovers(curves, scale, chart)),
        level=level,
        crossing=crossing,
        dots=tuple((scale.x(x), scale.y(y), side) for side, c in sides for x, y in c.dots),
        names=tuple((c.name, side) for side, c in sides),
    )


def timeline_lanes(bars: Sequence[Bar], says: str) -> Timeline | None:
    """Bars on lanes; those that overlap within a lane lie under each other. None without bars."""
    bars = [b for b in bars if math.isfinite(b.start_ms) and math.isfinite(b.end_ms) and b.end_ms >= b.start_ms]
    if not bars:
        return None
    left, right = min(b.start_ms for b in bars), max(b.end_ms for b in bars)
    scale = _Scale(left, right)
    by_lane: dict[str, list[Bar]] = {}
    for bar in sorted(bars, key=lambda b: (b.start_ms, -b.end_ms)):
        by_lane.setdefault(bar.lane, []).append(bar)
    lanes: list[Lane] = []
    y = 4.0
    for name, lane in by_lane.items():
        rows = _packed_rows(lane)
        placed = [(y + 20 * at, s) for at, row in enumerate(rows[:MAX_LANE_ROWS]) for s in _bar_stretches(row, scale)]
        bottom = y + 20 * min(len(rows), MAX_LANE_ROWS) + 5
        lanes.append(Lane(name, y, bottom, tuple(placed), max(len(rows) - MAX_LANE_ROWS, 0)))
        y = bottom
    ticks = [(scale.x(t), t) for t in _axis_ticks(left, right, "ms") if left <= t <= right]
    marks = [(x, "start" if x < 0.04 else "end" if x > 0.96 else "middle", f"{t:g} ms" if t else "0") for x, t in ticks]
    return Timeline(says, y, tuple(lanes), tuple(marks))


def _interval_paths(curve: Curve, scale: _Scale, side: str) -> Iterator[tuple[str, str]]:
    low, middle, high = (
        [f"{1000 * scale.x(p[0]):.1f},{scale.y(max(p[i], scale.low))}" for p in curve.points] for i in (1, 2, 3)
    )
    yield "M" + "L".join(high + low[::-1]) + "Z", f"envelope {side}"
    yield "M" + "L".join(middle), f"line {side}"


def _curve_hovers(curves: Sequence[Curve], scale: _Scale, chart: Chart) -> Iterator[Stretch]:
    texts_by_x: dict[float, list[str]] = {}
    for curve in curves:
        for x, low, value, high in curve.points:
            text = f"{curve.name} {_y_text(value, chart)} ({_y_text(low, chart)} to {_y_text(high, chart)})"
            texts_by_x.setdefault(x, []).append(text)
    edges = sorted(texts_by_x)
    for x, end in itertools.pairwise(edges):
        yield Stretch(scale.x(x), scale.x(end) - scale.x(x), f"{_x_text(x, chart)}: {'; '.join(texts_by_x[x])}")


def _y_text(value: float, chart: Chart) -> str:
    """A value of the y axis, formatted by the axis' label."""
    unit = wording.shortened_text(chart.y_label.strip(), 8)
    if unit in ("ms", "bytes", "share"):
        return {"ms": wording.duration_text, "bytes": wording.bytes_text, "share": wording.share_text}[unit](value)
    return f"{wording.number_text(value)}{unit}" if unit == "%" else f"{wording.number_text(value)} {unit}".rstrip()


def _x_text(x: float, chart: Chart) -> str:
    """``12 s``, but ``step 12``."""
    label = wording.shortened_text(chart.x_label.strip(), 12)
    number = wording.number_text(round(x) if abs(x) >= 10 or label == "step" else x)
    return f"{number} {label}" if label in ("s", "ms", "min", "h") else f"{label} {number}".strip()


def _clipped_top(ys: list[float]) -> float | None:
    """Where to end the axis, if a few values lie far above the bulk."""
    bulk = ys[int(0.98 * (len(ys) - 1))]
    return 1.5 * bulk if bulk > 0 and ys[-1] > 2.5 * bulk else None


def _axis_ticks(low: float, high: float, unit: str) -> list[float]:
    """Three or four round values that span the axis."""
    span = high - low if high > low else abs(high) or 1.0
    if unit == "bytes":
        step = max(2.0 ** math.ceil(math.log2(span / 4)), 1.0)
    else:
        power = 10.0 ** math.floor(math.log10(span / 3))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= span / 4)
    first, last = math.floor(low / step), math.ceil((low + span) / step)
    return [step * i for i in range(first, last + 1)]


def _band_stretches(bands: Sequence[Band], scale: _Scale) -> Iterator[Stretch]:
    for band in bands:
        start, end = (min(max(scale.x(v), 0), 1) if math.isfinite(v) else 1.0 for v in (band.start, band.end))
        title = f"{band.name}: {wording.number_text(band.start)} to {wording.number_text(band.end)}"
        yield Stretch(start, max(end - start, 0.002), title, wording.shortened_text(band.name, 24))


def _column_paths(columns: Sequence[tuple[float, list[float]]], scale: _Scale) -> Iterator[tuple[str, str]]:
    """The envelope of the columns, if one holds more than one value, and a line through the middles."""
    if any(len(ys) > 1 for _, ys in columns):
        upper = [f"{1000 * x:.1f},{scale.y(max(ys))}" for x, ys in columns]
        lower = [f"{1000 * x:.1f},{scale.y(min(ys))}" for x, ys in columns]
        yield "M" + "L".join(upper + lower[::-1]) + "Z", "envelope"
    middles = [f"{1000 * x:.1f},{scale.y(sorted(ys)[len(ys) // 2])}" for x, ys in columns]
    yield "M" + "L".join(middles) + ("h0.01" if len(middles) == 1 else ""), "line"


def _binned_columns(points: list[tuple[float, float]], scale: _Scale, most: int) -> list[tuple[float, list[float]]]:
    """Values by column; each column stands at its first x."""
    columns: dict[int, tuple[float, list[float]]] = {}
    for x, y in points:
        at = scale.x(x)
        columns.setdefault(min(int(at * most), most - 1), (at, []))[1].append(y)
    return [columns[c] for c in sorted(columns)]


def _column_hovers(columns: list[tuple[float, list[float]]], scale: _Scale, chart: Chart) -> Iterator[Stretch]:
    edges = [*(x for x, _ in columns), 1.0]
    for (x, ys), end in zip(columns, edges[1:], strict=True):
        first, last = (_x_text(scale.left + v * (scale.right - scale.left), chart) for v in (x, end))
        at = f"{first} to {last}" if len(ys) > 1 else first
        range_text = (
            _y_text(ys[0], chart) if len(ys) == 1 else f"{_y_text(min(ys), chart)} to {_y_text(max(ys), chart)}"
        )
        yield Stretch(x, max(end - x, 0.002), f"{at}: {range_text}")


def _x_labels(scale: _Scale, chart: Chart) -> Iterator[tuple[str, str]]:
    yield _x_text(scale.left, chart), "start"
    if scale.right > scale.left:
        yield _x_text((scale.left + scale.right) / 2, chart), "middle"
        yield _x_text(scale.right, chart), "end"


def _packed_rows(lane: Sequence[Bar]) -> list[list[Bar]]:
    """Bars, sorted by start, in as few rows as keep them apart."""
    rows: list[list[Bar]] = []
    for bar in lane:
        row = next((row for row in rows if row[-1].end_ms <= bar.start_ms + 1e-9), None)
        if row is None:
            rows.append([bar])
        else:
            row.append(bar)
    return rows


def _bar_stretches(row: Sequence[Bar], scale: _Scale) -> Iterator[Stretch]:
    drawn = -1.0
    for bar in row:
        start, end = scale.x(bar.start_ms), scale.x(bar.end_ms)
        # A thousand bars in one pixel are drawn as one.
        if end - start < 0.0008 and start - drawn < 0.0008:
            continue
        drawn = end
        length, since = wording.duration_text(bar.end_ms - bar.start_ms), wording.duration_text(bar.start_ms)
        width = max(end - start, 0.001)
        label = bar.name if width > 0.035 else None
        yield Stretch(start, width, f"{bar.name}: {length}, from {since}", label, bar.lane)
