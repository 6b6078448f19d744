"""What a script needs of a device's memory as one self-contained page."""

from __future__ import annotations

from slowtrain.model import Attribution, Part
from slowtrain.model.answers.batch_sizing import MemoryAnswer, Need
from slowtrain.report import charts, shell, sizing, wording
from slowtrain.report.markup import Markup, el
from slowtrain.report.shell import figure, listed, section

LAYERS = 40
# Colours of the page's own, by part.
COLOURS = {
    "parameters": "python",
    "optimizer": "callback",
    "gradients": "d2h",
    "activations": "device",
    "input": "input",
    "workspace": "dispatch",
    "step": "device",
    "other": "unattributed",
}


def render(answer: MemoryAnswer) -> str:
    """The whole page."""
    said = sizing.headline(answer)
    what = el("p", "Slowtrain on the memory of ", el("code", answer.script), class_="what clamp")
    header = el("header", el("div", what, el("h1", said)))
    notes = [sizing.measured(answer), *([sizing.tried(answer)] if answer.tried else ()), *answer.notes]
    main = el("main", _parts(answer.need), _layers(answer.need), listed("How it was measured", notes))
    footer = el("footer", el("p", f"{len(answer.measured) + len(answer.tried)} runs of a few steps, a process each."))
    return shell.page(f"{said}: {answer.script}, by Slowtrain", header, main, footer, sizing.memory_document(answer))


def _parts(need: Need) -> Markup:
    whole = max(need.peak_bytes, 1)
    held = {name: size for name, size in need.parts.items() if size}
    named = {COLOURS[name]: name for name in held}
    parts = tuple(Part(COLOURS[name], float(size), size / whole) for name, size in held.items())
    says = f"{wording.size(need.peak_bytes)}; the table that follows lists the parts"
    bar = charts.stacked(Attribution(float(whole), parts), says, lambda c: (named[c], ""), lambda v, _: wording.size(v))
    rows = [
        el(
            "tr",
            el("td", charts.swatch(COLOURS[name]), name, el("span", sizing.PARTS[name], class_="soft")),
            figure(wording.size(size)),
            figure(wording.share(size / whole)),
        )
        for name, size in held.items()
    ]
    head = el("tr", el("th", "part"), el("th", "memory", class_="n"), el("th", "share", class_="n"))
    table = el("table", el("thead", head), el("tbody", rows))
    aside = f"{wording.size(need.peak_bytes)} in a step of {need.batch:,} samples"
    return section("At the peak", bar, table, aside=aside)


def _layers(need: Need) -> Markup | None:
    if not need.layers:
        return None
    rows = [el("tr", el("td", name, class_="clamp"), figure(wording.size(size))) for name, size in need.layers[:LAYERS]]
    rest = need.layers[LAYERS:]
    if rest:
        rows.append(el("tr", el("td", f"{len(rest)} others"), figure(wording.size(sum(size for _, size in rest)))))
    head = el("tr", el("th", "layer"), el("th", "memory", class_="n"))
    return section("Activations, by layer", el("table", el("thead", head), el("tbody", rows)))
