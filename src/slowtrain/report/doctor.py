"""The doctor's sheet as text and as JSON (``slowtrain.doctor/1``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slowtrain.report import wording
from slowtrain.report.json import plain
from slowtrain.report.terminal import Paper
from slowtrain.sheet import Check, Sheet, State

SCHEMA = "slowtrain.doctor/1"
WIDTH = 100
LINES = 40  # of a screen
MOST_WRONG = 6
INDENT = 11


def render(sheet: Sheet, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """The whole sheet, the verdict first; what is wrong with its remedy, then the rest in a line each."""
    paper = Paper(min(width, WIDTH), colour, unicode)
    bad = bool(sheet.of(State.WRONG))
    lines = [
        paper.style(line, "bold", *(("red",) if bad else ())) for line in paper.wrap(sheet.headline, paper.width, 3)
    ]
    lines += [_row(paper, name, said) for name, said in sheet.about]
    lines += _wrong(paper, sheet.of(State.WRONG))
    left = LINES - len(lines) - 4
    unchecked = [*_listed(paper, "UNCHECKED", "yellow", sheet.of(State.UNCHECKED), max(left // 3, 4))]
    noted = [*_listed(paper, "NOTED", "cyan", sheet.of(State.NOTED), max(left // 3, 4))]
    room = max(LINES - len(lines) - len(unchecked) - len(noted) - 3, 4)
    lines += [*_listed(paper, "FINE", "green", sheet.of(State.FINE), room), *noted, *unchecked]
    lines += ["", paper.fit(_after(sheet), paper.width)]
    return "\n".join(lines) + "\n"


def _row(paper: Paper, name: str, said: str) -> str:
    return f"  {paper.style(paper.pad(name, INDENT - 2), 'dim')}{paper.fit(said, paper.width - INDENT)}"


def _wrong(paper: Paper, checks: Sequence[Check]) -> Iterator[str]:
    if not checks:
        return
    yield ""
    yield paper.style("WRONG", "bold", "red")
    for check in checks[:MOST_WRONG]:
        yield f"  {paper.style(paper.fit(f'{check.name}: {check.cause}', paper.width - 2), 'bold')}"
        yield from (f"    {line}" for line in paper.wrap(check.says, paper.width - 4, 4))
        remedy = paper.wrap(check.remedy or "", paper.width - 8, 5)
        yield from (f"    {'do: ' if i == 0 else '    '}{line}" for i, line in enumerate(remedy))
    if len(checks) > MOST_WRONG:
        yield f"  and {len(checks) - MOST_WRONG} more; --json and --html have all"


def _listed(paper: Paper, title: str, style: str, checks: Sequence[Check], most: int) -> Iterator[str]:
    """A line each; several that say the same become one."""
    said: dict[str, list[str]] = {}
    for check in checks:
        said.setdefault(check.says, []).append(check.cause.split("/")[1] if check.name == "card" else check.name)
    if not said:
        return
    yield ""
    yield paper.style(title, "bold", style)
    rows = [(", ".join(dict.fromkeys(names)), says) for says, names in said.items()]
    shown = rows if len(rows) <= most else rows[: most - 1]
    for names, says in shown:
        yield f"  {paper.fit(f'{names}: {says}', paper.width - 2)}"
    if len(shown) < len(rows):
        yield f"  and {len(rows) - len(shown)} more; --json and --html have all"


def _after(sheet: Sheet) -> str:
    if sheet.of(State.WRONG):
        return "then run it again; `slowtrain explain CAUSE` says more of a cause"
    return "`slowtrain run SCRIPT` says what a script makes of this machine"


def document(sheet: Sheet) -> dict[str, Any]:
    """The sheet with the facts that it was judged by: ``--from`` reads it again."""
    written: dict[str, Any] = plain(
        {
            "schema": SCHEMA,
            "tool": {"version": sheet.version},
            "given": sheet.given,
            "headline": sheet.headline,
            "causes": [{"cause": cause, "state": state} for cause, state in sheet.causes.items()],
            "checks": [_check(check) for check in sheet.checks],
            "sources": [{"key": s.key, "says": s.says, "where": s.where, "date": s.date} for s in sheet.sources],
            "facts": _finite(sheet.facts),
        }
    )
    return written


def dump(sheet: Sheet) -> str:
    """That as text, in ASCII so that any stream carries it."""
    return json.dumps(document(sheet), indent=2, allow_nan=False) + "\n"


def _check(check: Check) -> dict[str, Any]:
    return {
        "cause": check.cause,
        "name": check.name,
        "state": check.state,
        "says": check.says,
        "remedy": check.remedy,
        "numbers": check.numbers,
        "missing": [wording.SIGNALS[signal] for signal in check.missing],
        "sources": check.sources,
    }


def _finite(value: Any) -> Any:
    """Facts of somebody's file hold whatever JSON holds."""
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
