"""A page of ours: its head, its policy, its data, and the pieces that all pages are made of."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from slowtrain.model import Attribution
from slowtrain.report import charts, wording
from slowtrain.report.markup import Markup, el


def page(title: str, header: Markup, main: Markup, footer: Markup, data: str) -> str:
    """One self-contained file; ``data`` is the same answer as JSON, for machines."""
    style, script = _asset("page.css"), _asset("page.js")
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", title),
        el("style", Markup(style)),
    )
    body = el("body", charts.hatch(), header, main, footer, _data(data), el("script", Markup(script)))
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en')}\n"


def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded or sent, and only our own style and script run, whatever a name tries."""
    hashes = [
        "'sha256-" + base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() + "'" for t in (style, script)
    ]
    return f"default-src 'none'; style-src {hashes[0]}; script-src {hashes[1]}; base-uri 'none'; form-action 'none'"


def _data(document: str) -> Markup:
    """As no ``<`` is left in it, nothing can close the element early."""
    text = document.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return el("script", Markup(text), type="application/json", id="checkup")


def section(
    title: str, *children: Markup | Iterator[Markup] | None, aside: str | None = None, class_: str | None = None
) -> Markup:
    return el("section", el("h2", el("span", title), el("small", aside) if aside else None), *children, class_=class_)


def attribution(title: str, whole: Attribution, of: str, named: wording.Named) -> Markup:
    if not whole.parts:
        return section(title, el("p", wording.UNKNOWN, class_="none"))
    rows = []
    for part in sorted(whole.parts, key=lambda p: (p.name == "unattributed", -(wording.finite(p.ms) or 0.0))):
        label, description = named(part.name)
        cells = [
            el("td", charts.swatch(part.name), label, el("span", description, class_="soft")),
            el("td", wording.duration_in(part.ms, whole.total_ms), class_="n"),
            el("td", wording.share(part.share), class_="n"),
        ]
        rows.append(el("tr", cells, class_=None if part.ms else "zero"))
    head = el("tr", el("th", "part"), el("th", "time", class_="n"), el("th", "share", class_="n"))
    says = f"{title}: {wording.duration(whole.total_ms)}; the table that follows lists the parts"
    bar = charts.stacked(whole, says, named)
    return section(
        title, bar, el("table", el("thead", head), el("tbody", rows)), aside=f"{wording.duration(whole.total_ms)}, {of}"
    )


def figure(said: str) -> Markup:
    return el("td", said, class_="n")


def listed(title: str, lines: Sequence[str], class_: str | None = None) -> Markup | None:
    if not lines:
        return None
    return section(title, el("ul", [el("li", line) for line in lines], class_="plain"), class_=class_)
