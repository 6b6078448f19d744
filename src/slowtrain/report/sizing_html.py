"""Throughput and memory over the batch size as one self-contained page."""

from __future__ import annotations

from slowtrain.model import Band, Chart
from slowtrain.model.answers.batch_sizing import BatchCurve
from slowtrain.number_text import format_number
from slowtrain.report import charts, shell, sizing, wording
from slowtrain.report.markup import Markup, el
from slowtrain.report.shell import figure, listed, section


def render(curve: BatchCurve) -> str:
    """The whole page."""
    said = sizing.batch_headline(curve)
    word = el("span", f"batch {curve.knee:,}" if curve.knee is not None else "no knee", class_="verdict")
    what = el("p", "Slowtrain on the batch size of ", el("code", curve.script), class_="what clamp")
    header = el("header", el("div", what, el("h1", word, said)))
    most, ends = sizing.limit(curve), sizing.knee_range(curve)
    notes = [n for n in (ends and f"knee: {ends}", most and f"limit: {most}", curve.ended, *curve.notes) if n]
    main = el("main", _pictures(curve), _table(curve), listed("Notes", notes))
    footer = el("footer", el("p", f"{len(curve.points)} batch sizes{sizing.on_device(curve)}, a process each."))
    return shell.page(f"{said}: {curve.script}, by Slowtrain", header, main, footer, sizing.batch_document(curve))


def _pictures(curve: BatchCurve) -> list[Markup]:
    x = tuple(float(p.batch) for p in curve.points)
    knee = [Band("past the knee", float(curve.knee), max(x))] if curve.knee is not None and curve.knee < max(x) else []
    rates = Chart("Samples a second", "batch", "samples/s", x, tuple(p.samples_per_s for p in curve.points))
    found = [section(rates.title, charts.line(rates, bands=knee), aside="over the batch size")]
    memory = tuple(float(p.peak_bytes) for p in curve.points if p.peak_bytes is not None)
    if len(memory) == len(x):
        most = (float(curve.device.limit_bytes), curve.device.name) if curve.device is not None else None
        chart = Chart("Memory at its peak", "batch", "bytes", x, memory)
        found.append(section(chart.title, charts.line(chart, level=most), aside="replayed from two probes' records"))
    return found


def _table(curve: BatchCurve) -> Markup:
    names = ("batch", "ms a step", "samples a second", "95 % range", "memory")
    head = el("tr", [el("th", name, class_="n") for name in names])
    rows = [
        el(
            "tr",
            figure(f"{p.batch:,}"),
            figure(format_number(p.step_ms)),
            figure(sizing.rate(p.samples_per_s)),
            figure(f"{sizing.rate(p.low)} to {sizing.rate(p.high)}"),
            figure(wording.size(p.peak_bytes)),
        )
        for p in curve.points
    ]
    return section("All batch sizes", el("table", el("thead", head), el("tbody", rows)))
