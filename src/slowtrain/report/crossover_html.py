"""Where one device overtakes the other, as one self-contained page."""

from __future__ import annotations

import math

from slowtrain.model import Chart
from slowtrain.model.crossing import Crossover, Side
from slowtrain.report import charts, crossover, shell, wording
from slowtrain.report.markup import Markup, el
from slowtrain.report.shell import figure, listed, section

POINTS = 60


def render(found: Crossover) -> str:
    """The whole page."""
    said = crossover.headline(found)
    what = el("p", "Slowtrain crossover of ", el("code", " ".join(found.command)), class_="what clamp")
    header = el("header", el("div", what, el("h1", said)))
    count = sum(len(side.timings) for side in found.sides)
    footer = el("footer", el("p", f"{count} processes in {wording.duration(1e3 * found.seconds)}, the two in turn."))
    main = el("main", _batches(found), *[_side(side, found) for side in found.sides], listed("Notes", found.notes))
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


def _side(side: Side, found: Crossover) -> Markup:
    """The line and, at the measured batches, the means: one picture for each side, on the same range of batches."""
    parts: list[Markup | None] = [el("p", crossover.fitted(side)), el("p", crossover.once(side))]
    if side.fit is not None:
        most = max(t.batch for s in found.sides for t in s.timings)
        x = tuple(most * i / POINTS for i in range(POINTS + 1))
        y = tuple(max(side.fit.fixed_ms.value + side.fit.per_sample_ms.value * b, 0.0) for b in x)
        drawn = charts.line(Chart(f"{side.name}: the line a + b x batch", "batch", "ms", x, y))
        parts += [el("h3", "The line"), drawn]
    batches = sorted({t.batch for t in side.timings})
    means = tuple(crossover.step_ms(side, b) or 0.0 for b in batches)
    parts += [
        el("h3", "As measured"),
        charts.line(Chart(f"{side.name}: mean step", "batch", "ms", tuple(map(float, batches)), means)),
    ]
    if crossover.goes(side):
        parts.append(el("p", crossover.goes(side)))
    return section(side.name, *parts)
