"""Where one device overtakes the other, as one self-contained page."""

from __future__ import annotations

import math

from slowtrain.model import Band, Chart
from slowtrain.model.answers.crossover_result import Crossover, Side
from slowtrain.report import charts, crossover, shell, wording
from slowtrain.report.markup import Markup, el
from slowtrain.report.shell import figure, listed, section


def render(found: Crossover) -> str:
    """The whole page."""
    said = crossover.headline(found)
    what = el("p", "Slowtrain crossover of ", el("code", " ".join(found.command)), class_="what clamp")
    header = el("header", el("div", what, el("h1", said)))
    count = sum(len(side.timings) for side in found.sides)
    footer = el("footer", el("p", f"{count} processes in {wording.duration(1e3 * found.seconds)}, the two in turn."))
    sides = [_side(side) for side in found.sides]
    main = el("main", _batches(found), _lines(found), sides, listed("Notes", found.notes))
    return shell.page(f"{said}: {found.script}, by Slowtrain", header, main, footer, crossover.render_json(found))


def _batches(found: Crossover) -> Markup:
    names = [side.name for side in found.sides]
    head = [el("th", "batch", class_="n"), *[el("th", f"{n}, a step", class_="n") for n in names]]
    head += [el("th", "faster in the step"), el("th", "ahead after steps", class_="n")]
    rows = []
    for one in found.overtaking:
        steps = one.steps
        ahead = crossover.span(steps) if steps is not None and math.isfinite(steps.value) else "-"
        cells = [figure(wording.duration(crossover.step_ms(side, one.batch))) for side in found.sides]
        picture = _speedup(one.speedup.value, one.speedup.low, one.speedup.high)
        said = el("td", f"{one.faster} {crossover.ratio(one.speedup)}", picture)
        rows.append(el("tr", figure(f"{one.batch:,}"), cells, said, figure(ahead)))
    table = el("table", el("thead", el("tr", head)), el("tbody", rows))
    return section("By batch", table, aside=crossover.by_batch(found))


def _speedup(value: float, low: float, high: float) -> Markup | None:
    if not math.isfinite(high):
        return None
    return charts.interval(value, low, high, max(high, 2.0), f"{value:.2f} times as fast, {low:.2f} to {high:.2f}")


def _lines(found: Crossover) -> Markup:
    """Both lines with their intervals and the measured means, and the batch from which the order changes."""
    both = []
    for side in found.sides:
        points = [(b, at.low, at.value, at.high) for b, at in side.fit.drawn] if side.fit is not None else []
        dots = [(float(b), crossover.step_ms(side, b) or 0.0) for b in sorted({t.batch for t in side.timings})]
        both.append(charts.Curve(side.name, points, dots))
    most = max(float(t.batch) for side in found.sides for t in side.timings)
    start = found.batch
    crossing = None
    if start is not None and 0 < start.value <= most:
        crossing = (Band("the order changes", start.low, min(start.high, most)), start.value)
    chart = Chart("A step over the batch", "batch", "ms", (), ())
    aside = "lines a + b x batch with 95 % intervals; dots are means of processes"
    return section(chart.title, charts.curves(chart, both, crossing), aside=aside)


def _side(side: Side) -> Markup:
    parts = [el("p", said) for said in (crossover.fitted(side), crossover.once(side), crossover.goes(side)) if said]
    return section(side.name, *parts)
