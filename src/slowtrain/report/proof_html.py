"""What was tried and what it gave as one self-contained page: the answer, attempts, before beside after, the patch."""

from __future__ import annotations

import math
from collections.abc import Iterator

from slowtrain.model import Checkup, Verdict
from slowtrain.model.answers.cure_proof import Attempt, Proof
from slowtrain.report import charts, proof, shell, wording
from slowtrain.report.markup import Markup, diff, el
from slowtrain.report.shell import attribution, figure, listed, section

FAR = 1e6  # an interval that reaches further says nothing


def render(found: Proof, *, written: bool) -> str:
    """The whole page."""
    command = " ".join(found.command)
    title = f"{proof.headline(found)}: {command}, by Slowtrain"
    kept = any(a.kept for a in found.attempts)
    word = el("span", "proven" if kept else "not proven", class_="verdict" + (" good" if kept else ""))
    what = el("p", "Slowtrain proof of ", el("code", command), class_="what clamp")
    header = el("header", el("div", what, el("h1", word, proof.headline(found))))
    footer = el("footer", el("p", f"Measured for {found.seconds / 60:.1f} minutes; each process is one sample."))
    document = proof.render_json(found, written=written)
    return shell.page(title, header, el("main", _sections(found, written=written)), footer, document)


def _sections(found: Proof, *, written: bool) -> Iterator[Markup | None]:
    if found.attempts:
        yield _attempts(found)
    if found.before is not None and found.after is not None:
        yield el("div", _side("Before", found.before), _side("After", found.after), class_="two")
    if found.diff:
        yield section("The patch", diff(found.diff), *_commands(found, written=written), aside="what was kept")
    yield listed("For a person", [proof.by_hand(one) for one in found.by_hand])
    limits = [f"a probe cannot keep this to itself: {one}" for one in found.limits]
    yield listed("Notes", [*limits, *found.notes])


def _commands(found: Proof, *, written: bool) -> Iterator[Markup]:
    if found.apply and not written:
        yield el("p", "Apply it: ", el("code", found.apply))
    if found.undo:
        yield el("p", "It is written. Take it back: " if written else "Take it back: ", el("code", found.undo))


def _side(title: str, checkup: Checkup) -> Markup:
    return attribution(f"{title}: where a step goes", checkup.attribution, "a steady step", wording.category)


def _attempts(found: Proof) -> Markup:
    names = ("cause", "predicted", "measured", "95 %", "runs", "loss", "")
    head = el("tr", [el("th", name, class_="n" if 0 < i < 5 else None) for i, name in enumerate(names)])
    most = max((a.verdict.speedup for a in found.attempts if a.verdict is not None), default=1.0)
    rows = [row for attempt in found.attempts for row in _rows(attempt, most)]
    table = el("div", el("table", el("thead", head), el("tbody", rows)), class_="table")
    return section("What was tried", table, aside="speed-up, predicted and measured")


def _rows(attempt: Attempt, most: float) -> Iterator[Markup]:
    verdict, predicted = attempt.verdict, attempt.predicted
    effect = el("span", wording.effect(attempt.effect), class_="chip") if attempt.effect is not None else None
    yield el(
        "tr",
        el("td", el("code", attempt.name), _picture(verdict, most)),
        figure(f"{predicted.speedup:.2f}x" if predicted is not None else wording.UNKNOWN),
        figure(f"{verdict.speedup:.2f}x" if verdict is not None else wording.UNKNOWN),
        figure(
            f"{verdict.low:.2f} to {verdict.high:.2f}" if verdict is not None and _known(verdict) else wording.UNKNOWN
        ),
        figure(str(verdict.runs) if verdict is not None else "0"),
        el("td", verdict.loss if verdict is not None else wording.UNKNOWN),
        el("td", "kept" if attempt.kept else "dropped"),
    )
    more = [*proof.beside(attempt), *([f"dropped: {attempt.why}"] if attempt.why else [])]
    said = [f" {line[0].upper()}{line[1:]}." for line in more]
    yield el("tr", el("td", attempt.says, effect, said, colspan="7", class_="soft"))


def _known(verdict: Verdict) -> bool:
    return verdict.low > 0 and math.isfinite(verdict.high) and verdict.high < FAR


def _picture(verdict: Verdict | None, most: float) -> Markup | None:
    if verdict is None or not _known(verdict):
        return None
    said = wording.times(verdict.speedup, verdict.low, verdict.high)
    return charts.interval(verdict.speedup, verdict.low, verdict.high, max(most, verdict.high, 1.1), said)
