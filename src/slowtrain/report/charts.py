"""Charts as inline SVG that needs no script.

Positions along x are percentages and those along y pixels, so that a chart fills any
width while its text keeps its size. Colours are classes of ``page.css``. What a chart
shows on hovering is its ``<title>`` elements, which a browser shows by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from slowtrain.model import Attribution, Band, Bar, Category, Chart, Phase
from slowtrain.report import wording
from slowtrain.report.markup import Markup, el
from slowtrain.values import dataclass

_KNOWN = {str(name) for names in (Category, Phase) for name in names}
_LANES = {"tf.data": "epoch", "sync": "d2h", "step": "step", "gpu": "device"}
_COLUMNS = 480  # of a line chart: about two pixels each on a wide screen
_AIR = 7  # above the highest line of a chart, for half a label
_ROWS = 6  # of one lane of the timeline


def colour(name: str) -> str:
    """The class for a category, a phase or a lane; names may come from anywhere."""
    name = _LANES.get(name.lower(), name)
    return f"c-{name}" if name in _KNOWN or name in _LANES else "c-other"


def percent(value: float) -> str:
    return f"{100 * value:.3f}".rstrip("0").rstrip(".") + "%"


def stacked(
    attribution: Attribution,
    says: str,
    named: wording.Named,
    measured: Callable[[float, float], str] = wording.duration_in,
) -> Markup:
    """One bar, a segment per part; a table beside it says the same in words. ``measured`` words a part of the whole."""
    segments: list[Markup] = []
    left = 0.0
    for part in attribution.parts:
        width = wording.finite(part.share) or 0.0
        if width <= 0:
            continue
        label = named(part.name)[0]
        said = f"{label}: {measured(part.ms, attribution.total_ms)}, {wording.share(part.share)}"
        # What fits a segment of half a wide page; a narrow one hides what is ``slim``.
        fitting = (
            t for t in (f"{label} {wording.share(width)}", wording.share(width)) if width * 500 > 6.6 * len(t) + 12
        )
        inside = [el("text", t, x="7", y="21", class_="slim" if width < 0.3 else None) for t in list(fitting)[:1]]
        box = _filled(part.name, "100%", "100%")
        segments.append(el("svg", el("title", said), box, inside, x=percent(left), width=percent(width), height="32"))
        left += width
    return el("svg", segments, class_="stacked", height="32", role="img", aria_label=says)


def swatch(name: str) -> Markup:
    return el("svg", _filled(name, "11", "11"), class_="swatch", aria_hidden="true")


def _filled(name: str, width: str, height: str) -> list[Markup]:
    """A rectangle in the part's colour; what could not be told is hatched too."""
    hatched = el("rect", width=width, height=height, fill="url(#hatch)") if name == "unattributed" else Markup()
    return [el("rect", width=width, height=height, class_=colour(name)), hatched]


def hatch() -> Markup:
    """The pattern that the charts of a page refer to."""
    stripe = el("path", d="M-1,7L7,-1M2,10L10,2M-4,4L4,-4", class_="hatch")
    pattern = el("pattern", stripe, id="hatch", width="6", height="6", patternUnits="userSpaceOnUse")
    return el("svg", el("defs", pattern), class_="defs", aria_hidden="true")


def interval(value: float, low: float, high: float, most: float, says: str) -> Markup:
    """A speed-up with its range on a scale from 1x to ``most``."""
    scale = max(most - 1, 0.05)
    start, middle, end = (
        min(max((wording.finite(v) or 1.0) - 1, 0) / scale, 1) * 0.94 + 0.03 for v in (low, value, high)
    )
    return el(
        "svg",
        el("line", x1="3%", x2="97%", y1="9", y2="9", class_="axis"),
        el("line", x1="3%", x2="3%", y1="4", y2="14", class_="axis"),
        el("rect", x=percent(start), y="6", width=percent(max(end - start, 0.004)), height="6", rx="3", class_="range"),
        el("circle", cx=percent(middle), cy="9", r="4.5", class_="dot"),
        class_="interval", height="18", role="img", aria_label=says,
    )  # fmt: skip


@dataclass(frozen=True)
class _Scale:
    """From values to places: ``x`` to a fraction of the width, ``y`` to pixels from the top."""

    left: float
    right: float
    low: float
    top: float
    height: float

    def x(self, value: float) -> float:
        return (value - self.left) / (self.right - self.left) if self.right > self.left else 0.5

    def y(self, value: float) -> float:
        share = (min(value, self.top) - self.low) / (self.top - self.low)
        return round(_AIR + (self.height - _AIR) * (1 - share), 1)


def line(
    chart: Chart,
    *,
    height: int = 120,
    clip: bool = False,
    level: tuple[float, str] | None = None,
    bands: Sequence[Band] = (),
) -> Markup:
    """A series as a line with the lowest and highest value of every pixel column kept.

    ``clip`` ends the axis near the bulk of the values and marks what lies above it: one
    slow first step must not press all others flat. ``level`` is a line across.
    """
    points = [(x, y) for x, y in zip(chart.x, chart.y, strict=False) if math.isfinite(x) and math.isfinite(y)]
    if not points:
        return el("p", wording.UNKNOWN, class_="none")
    ys = sorted(y for _, y in points)
    above = _cut(ys) if clip else None
    ticks = _ticks(min(ys[0], 0.0), above or ys[-1], chart.y_label)
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    scale = _Scale(left, right, ticks[0], max(ticks[-1], above or ys[-1]), height)
    says = f"{chart.title}: {len(points):,} values from {_said(ys[0], chart)} to {_said(ys[-1], chart)}"
    if level:
        says += f", {level[1]} {_said(level[0], chart)}"
    labels = [el("text", _said(t, chart), x="100%", y=scale.y(t) + 4, text_anchor="end") for t in ticks]
    plot = el(
        "svg",
        [_ground(scale, ticks, bands), _curve(points, scale), _level(level, scale), _columns(points, scale, chart)],
        _x_labels(scale, chart), class_="plot", height=str(height + 20), role="img", aria_label=says,
    )  # fmt: skip
    return el("div", el("svg", labels, class_="y", height=str(height + 20), aria_hidden="true"), plot, class_="chart")


@dataclass(frozen=True)
class Curve:
    """A line with its interval (x, low, value, high), and what was measured (x, y), as dots."""

    name: str
    points: Sequence[tuple[float, float, float, float]]
    dots: Sequence[tuple[float, float]]


def curves(chart: Chart, both: Sequence[Curve], crossing: tuple[Band, float] | None, *, height: int = 220) -> Markup:
    """Two lines on one scale from 0 on, with where they cross; ``chart`` has the words alone."""
    values = [y for c in both for y in (*(p[2] for p in c.points), *(y for _, y in c.dots))]
    most = max(x for c in both for x in (*(p[0] for p in c.points), *(x for x, _ in c.dots)))
    highest = max(*values, *(p[3] for c in both for p in c.points))
    ticks = _ticks(0.0, min(highest, 1.5 * max(values)), chart.y_label)  # some intervals have hardly an end
    scale = _Scale(0.0, most, ticks[0], ticks[-1], height)
    shapes = [shape for place, c in enumerate(both) if c.points for shape in _with_interval(c, scale, f"side{place}")]
    marks: list[Markup] = [_stretched(shapes, scale)]
    if crossing is not None:
        at = percent(scale.x(crossing[1]))
        marks.append(el("line", x1=at, x2=at, y1="0", y2=height, class_="level"))
    for place, c in enumerate(both):
        marks += [
            el("circle", cx=percent(scale.x(x)), cy=scale.y(y), r="3.5", class_=f"side{place}") for x, y in c.dots
        ]
    labels = [el("text", _said(t, chart), x="100%", y=scale.y(t) + 4, text_anchor="end") for t in ticks]
    plot = el(
        "svg",
        [_ground(scale, ticks, [crossing[0]] if crossing is not None else []), marks, _pointed(both, scale, chart)],
        _x_labels(scale, chart), class_="plot", height=str(height + 20), role="img",
        aria_label=f"{chart.title}: " + " and ".join(c.name for c in both),
    )  # fmt: skip
    keys = [
        el("span", el("svg", el("rect", width="11", height="11", class_=f"side{place}"), class_="swatch"), f"{c.name} ")
        for place, c in enumerate(both)
    ]
    drawn = el("div", el("svg", labels, class_="y", height=str(height + 20), aria_hidden="true"), plot, class_="chart")
    return el("div", el("p", keys, class_="key"), drawn)


def _with_interval(one: Curve, scale: _Scale, class_: str) -> Iterator[Markup]:
    low, middle, high = (
        [f"{1000 * scale.x(p[0]):.1f},{scale.y(max(p[i], scale.low))}" for p in one.points] for i in (1, 2, 3)
    )
    d = "M" + "L".join(high + low[::-1]) + "Z"
    yield el("path", d=d, class_=f"envelope {class_}", vector_effect="non-scaling-stroke")
    yield el("path", d="M" + "L".join(middle), class_=f"line {class_}", vector_effect="non-scaling-stroke")


def _pointed(both: Sequence[Curve], scale: _Scale, chart: Chart) -> Iterator[Markup]:
    """What is read when pointing at a part of the lines."""
    places = list(zip(*(c.points for c in both), strict=False))[:-1]
    for rows in places:
        said = "; ".join(
            f"{c.name} {_said(value, chart)} ({_said(low, chart)} to {_said(high, chart)})"
            for c, (_, low, value, high) in zip(both, rows, strict=True)
        )
        title = el("title", f"{_at(rows[0][0], chart)}: {said}")
        width = percent(1 / len(places))
        yield el("rect", title, x=percent(scale.x(rows[0][0])), y="0", width=width, height=scale.height, class_="hover")


def _stretched(shapes: Sequence[Markup], scale: _Scale) -> Markup:
    """Paths in a thousandth of the width, drawn as wide as there is room."""
    box = f"0 0 1000 {scale.height:g}"
    return el(
        "svg", shapes, width="100%", height=scale.height, viewBox=box, preserveAspectRatio="none", overflow="visible"
    )


def _said(value: float, chart: Chart) -> str:
    return wording.measure(value, chart.y_label)


def _cut(ys: list[float]) -> float | None:
    """Where to end the axis, if a few values lie far above the bulk."""
    bulk = ys[int(0.98 * (len(ys) - 1))]
    return 1.5 * bulk if bulk > 0 and ys[-1] > 2.5 * bulk else None


def _ticks(low: float, high: float, unit: str) -> list[float]:
    """Three or four round values that span the axis."""
    span = high - low if high > low else abs(high) or 1.0
    if unit == "bytes":
        step = max(2.0 ** math.ceil(math.log2(span / 4)), 1.0)
    else:
        power = 10.0 ** math.floor(math.log10(span / 3))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= span / 4)
    first, last = math.floor(low / step), math.ceil((low + span) / step)
    return [step * i for i in range(first, last + 1)]


def _ground(scale: _Scale, ticks: Sequence[float], bands: Sequence[Band]) -> Iterator[Markup]:
    for band in bands:
        start, end = (min(max(scale.x(v), 0), 1) if math.isfinite(v) else 1.0 for v in (band.start, band.end))
        said = el("title", f"{band.name}: {wording.number(band.start)} to {wording.number(band.end)}")
        width = percent(max(end - start, 0.002))
        yield el("rect", said, x=percent(start), y="0", width=width, height=scale.height, class_="band")
        yield el("text", wording.cut(band.name, 24), x=percent(start), y="19", dx="4", class_="note")
    for tick in ticks:
        yield el("line", x1="0", x2="100%", y1=scale.y(tick), y2=scale.y(tick), class_="grid")


def _curve(points: list[tuple[float, float]], scale: _Scale) -> Markup:
    """The envelope of each column, where it holds more than one value, and a line through the middles."""
    columns = _binned(points, scale)
    middles = [(x, sorted(ys)[len(ys) // 2]) for x, ys in columns]
    d = "M" + "L".join(f"{1000 * x:.1f},{scale.y(y)}" for x, y in middles)
    if len(middles) == 1:
        d += "h0.01"
    shapes = [el("path", d=d, class_="line", vector_effect="non-scaling-stroke")]
    if any(len(ys) > 1 for _, ys in columns):
        upper = [f"{1000 * x:.1f},{scale.y(max(ys))}" for x, ys in columns]
        lower = [f"{1000 * x:.1f},{scale.y(min(ys))}" for x, ys in columns]
        around = "M" + "L".join(upper + lower[::-1]) + "Z"
        shapes.insert(0, el("path", d=around, class_="envelope", vector_effect="non-scaling-stroke"))
    mark = el("path", d="M0,-3l4,7h-8z", class_="cut")
    cut = [el("svg", mark, x=percent(x), y="4", width="1", height="1", overflow="visible")
           for x, ys in columns if max(ys) > scale.top]  # fmt: skip
    return Markup(_stretched(shapes, scale) + "".join(cut))


def _binned(points: list[tuple[float, float]], scale: _Scale, most: int = _COLUMNS) -> list[tuple[float, list[float]]]:
    """Values by column; each column stands at its first x."""
    columns: dict[int, tuple[float, list[float]]] = {}
    for x, y in points:
        at = scale.x(x)
        columns.setdefault(min(int(at * most), most - 1), (at, []))[1].append(y)
    return [columns[c] for c in sorted(columns)]


def _columns(points: list[tuple[float, float]], scale: _Scale, chart: Chart) -> Iterator[Markup]:
    """What is read when pointing at a part of the chart."""
    columns = _binned(points, scale, 120)
    edges = [*(x for x, _ in columns), 1.0]
    for (x, ys), end in zip(columns, edges[1:], strict=True):
        first, last = (_at(scale.left + v * (scale.right - scale.left), chart) for v in (x, end))
        at = f"{first} to {last}" if len(ys) > 1 else first
        said = _said(ys[0], chart) if len(ys) == 1 else f"{_said(min(ys), chart)} to {_said(max(ys), chart)}"
        width = percent(max(end - x, 0.002))
        yield el(
            "rect", el("title", f"{at}: {said}"), x=percent(x), y="0", width=width, height=scale.height, class_="hover"
        )


def _level(level: tuple[float, str] | None, scale: _Scale) -> Iterator[Markup]:
    if level and math.isfinite(level[0]):
        y = scale.y(level[0])
        yield el("line", x1="0", x2="100%", y1=y, y2=y, class_="level")


def _x_labels(scale: _Scale, chart: Chart) -> Iterator[Markup]:
    y = scale.height + 16
    yield el("text", _at(scale.left, chart), x="0", y=y)
    if scale.right > scale.left:
        yield el("text", _at((scale.left + scale.right) / 2, chart), x="50%", y=y, text_anchor="middle")
        yield el("text", _at(scale.right, chart), x="100%", y=y, text_anchor="end")


def _at(x: float, chart: Chart) -> str:
    """``12 s``, but ``step 12``."""
    label = wording.cut(chart.x_label.strip(), 12)
    said = wording.number(round(x) if abs(x) >= 10 or label == "step" else x)
    return f"{said} {label}" if label in ("s", "ms", "min", "h") else f"{label} {said}".strip()


def timeline(bars: Sequence[Bar], says: str) -> Markup:
    """Stretches on lanes; those that overlap within a lane lie under each other."""
    bars = [b for b in bars if math.isfinite(b.start_ms) and math.isfinite(b.end_ms) and b.end_ms >= b.start_ms]
    if not bars:
        return el("p", wording.UNKNOWN, class_="none")
    left, right = min(b.start_ms for b in bars), max(b.end_ms for b in bars)
    lanes: dict[str, list[Bar]] = {}
    for bar in sorted(bars, key=lambda b: (b.start_ms, -b.end_ms)):
        lanes.setdefault(bar.lane, []).append(bar)
    labels: list[Markup] = []
    shapes: list[Markup] = []
    y = 4.0
    for name, lane in lanes.items():
        rows = _packed(lane)
        labels.append(el("text", el("title", name), wording.cut(name, 13), x="0", y=y + 13))
        for row in rows[:_ROWS]:
            shapes += _row(row, _Scale(left, right, 0, 1, 1), y)
            y += 20
        if len(rows) > _ROWS:
            labels.append(el("text", f"+{len(rows) - _ROWS} rows", x="0", y=y - 7, class_="note"))
        y += 5
        shapes.append(el("line", x1="0", x2="100%", y1=y - 2.5, y2=y - 2.5, class_="grid"))
    ticks = [t for t in _ticks(left, right, "ms") if left <= t <= right]
    shapes[:0] = _time_axis(ticks, _Scale(left, right, 0, 1, 1), y)
    height = f"{y + 20:g}"
    label = el("svg", labels, class_="y lanes", height=height, aria_hidden="true")
    plot = el("svg", shapes, class_="plot", height=height, role="img", aria_label=says)
    return el("div", label, plot, class_="chart wide-labels")


def _packed(lane: Sequence[Bar]) -> list[list[Bar]]:
    """Bars, sorted by start, in as few rows as keep them apart."""
    rows: list[list[Bar]] = []
    for bar in lane:
        for row in rows:
            if row[-1].end_ms <= bar.start_ms + 1e-9:
                row.append(bar)
                break
        else:
            rows.append([bar])
    return rows


def _row(row: Sequence[Bar], scale: _Scale, y: float) -> Iterator[Markup]:
    drawn = -1.0
    for bar in row:
        start, end = scale.x(bar.start_ms), scale.x(bar.end_ms)
        # A thousand bars in one pixel are drawn as one.
        if end - start < 0.0008 and start - drawn < 0.0008:
            continue
        drawn = end
        said = el(
            "title", f"{bar.name}: {wording.duration(bar.end_ms - bar.start_ms)}, from {wording.duration(bar.start_ms)}"
        )
        width = max(end - start, 0.001)
        inside = el("text", bar.name, x="5", y="12") if width > 0.035 else None
        box = el("rect", width="100%", height="100%", rx="2", class_=colour(bar.lane))
        yield el("svg", said, box, inside, class_="bar", x=percent(start), y=y, width=percent(width), height="17")


def _time_axis(ticks: Sequence[float], scale: _Scale, y: float) -> Iterator[Markup]:
    for tick in ticks:
        at = percent(scale.x(tick))
        yield el("line", x1=at, x2=at, y1="0", y2=y, class_="grid")
        anchor = "start" if scale.x(tick) < 0.04 else "end" if scale.x(tick) > 0.96 else "middle"
        yield el("text", f"{tick:g} ms" if tick else "0", x=at, y=y + 14, text_anchor=anchor)
