"""The doctor's sheet as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from slowtrain.model.answers.doctor_sheet import Check, CheckState, Sheet
from slowtrain.report import doctor
from slowtrain.report.markup import Markup, el
from slowtrain.report.shell import page, section

TITLES = {
    CheckState.WRONG: ("Wrong", "what was found, and what to do on this computer"),
    CheckState.FINE: ("Fine", "looked at, and in order"),
    CheckState.NOTED: ("Noted", "read or measured; whether it matters depends on the script"),
    CheckState.UNCHECKED: ("Unchecked", "what was missing to judge it"),
}


def render(sheet: Sheet) -> str:
    """The page; names in it may come from anywhere, and are escaped where they are put in."""
    about = el("table", el("tbody", [el("tr", el("th", name), el("td", said)) for name, said in sheet.about]))
    header = el("header", el("p", "slowtrain doctor", class_="soft"), el("h1", sheet.headline), about)
    parts = [_state(sheet, state) for state in TITLES]
    main = el("main", [part for part in parts if part is not None], _sources(sheet))
    footer = el("footer", el("p", f"slowtrain {sheet.version}", f", facts from {sheet.given}" if sheet.given else ""))
    return page("slowtrain doctor", header, main, footer, doctor.dump(sheet))


def _state(sheet: Sheet, state: CheckState) -> Markup | None:
    checks = sheet.of(state)
    title, aside = TITLES[state]
    return section(title, _table(checks), aside=aside) if checks else None


def _table(checks: Sequence[Check]) -> Markup:
    rows = []
    for check in checks:
        remedy = el("p", el("strong", "Do: "), check.remedy) if check.remedy else None
        sources = el("span", ", ".join(check.sources), class_="soft") if check.sources else None
        said = el("td", check.says, remedy, sources)
        rows.append(
            el(
                "tr",
                el(
                    "td",
                    check.name,
                    f" of {check.where}" if check.where else None,
                    el("span", check.cause, class_="soft"),
                ),
                said,
            )
        )
    head = el("tr", el("th", "looked at"), el("th", "found"))
    return el("table", el("thead", head), el("tbody", rows))


def _sources(sheet: Sheet) -> Markup | None:
    """The rules that were used."""
    if not sheet.sources:
        return None
    rows = [
        el(
            "tr",
            el("td", source.key),
            el("td", source.says, el("span", source.where, class_="soft")),
            el("td", source.date),
        )
        for source in sheet.sources
    ]
    head = el("tr", el("th", "rule"), el("th", "says"), el("th", "read on"))
    return section("Sources", el("table", el("thead", head), el("tbody", rows)), aside="of the rules used above")
