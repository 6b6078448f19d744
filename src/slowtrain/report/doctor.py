"""The doctor's sheet as text and as JSON (``slowtrain.doctor/1``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from slowtrain.model.answers.doctor_sheet import Check, CheckState, Sheet
from slowtrain.report import wording
from slowtrain.report.json import plain
from slowtrain.report.terminal import Paper

SCHEMA = "slowtrain.doctor/1"
WIDTH = 100
LINES = 40  # of a screen
LEAST_LISTED = 4  # a blank line, a title, one row, and how many more there are
INDENT = 13
ROW_LINES = 3  # of one thing that was looked at, where the screen has the room


def render(sheet: Sheet, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """The whole sheet, the verdict first; what is wrong with its remedy, then the rest in a line each."""
    paper = Paper(min(width, WIDTH), colour, unicode)
    bad = bool(sheet.of(CheckState.WRONG))
    lines = [
        paper.style(said, "bold", *(("red",) if bad else ())) for said in paper.wrap(sheet.headline, paper.width, 3)
    ]
    lines += [_row(paper, name, said) for name, said in sheet.about]
    lists = [
        ("FINE", "green", sheet.of(CheckState.FINE)),
        ("NOTED", "cyan", sheet.of(CheckState.NOTED)),
        ("UNCHECKED", "yellow", sheet.of(CheckState.UNCHECKED)),
    ]
    least = sum(LEAST_LISTED for *_, checks in lists if checks) + 2
    lines += _wrong(paper, sheet.of(CheckState.WRONG), LINES - len(lines) - least)
    whole = sum(2 + len(_rows(checks)) for *_, checks in lists if checks) + 2
    more = _more(paper, [checks for *_, checks in lists], LINES - len(lines) - whole)
    for place, (title, style, checks) in enumerate(lists):
        after = sum(LEAST_LISTED for *_, later in lists[place + 1 :] if later) + 2
        lines += _listed(paper, title, style, checks, LINES - len(lines) - after, more[place])
    return "\n".join([*lines, "", paper.fit(_after(sheet), paper.width)]) + "\n"


def _row(paper: Paper, name: str, said: str) -> str:
    return f"  {paper.style(paper.pad(name, INDENT - 2), 'dim')}{paper.fit(said, paper.width - INDENT)}"


def _wrong(paper: Paper, checks: Sequence[Check], room: int) -> list[str]:
    """Each with its evidence and its remedy, as many as there is room for; the first always."""
    if not checks:
        return []
    lines = ["", paper.style("WRONG", "bold", "red")]
    for place, check in enumerate(checks):
        said = [f"  {paper.style(paper.fit(_titled(check), paper.width - 2), 'bold')}"]
        said += [f"    {line}" for line in paper.wrap(check.says, paper.width - 4, 4)]
        remedy = paper.wrap(check.remedy or "", paper.width - 8, 5)
        said += [f"    {'do: ' if i == 0 else '    '}{line}" for i, line in enumerate(remedy)]
        if place and len(lines) + len(said) + 1 > room:
            rest = ", ".join(dict.fromkeys(c.name for c in checks[place:]))
            more = f"and {len(checks) - place} more ({rest}): --json and --html have all"
            return [*lines, f"  {paper.fit(more, paper.width - 2)}"]
        lines += said
    return lines


def _more(paper: Paper, lists: Sequence[Sequence[Check]], spare: int) -> list[int]:
    """Lines that each list may have beyond one a row, so that nothing is cut off; what is unchecked comes first."""
    found = []
    for checks in reversed(lists):
        wanted = sum(len(_told(paper, names, says, ROW_LINES)) - 1 for names, says in _rows(checks))
        found.append(max(min(wanted, spare), 0))
        spare -= found[-1]
    return found[::-1]


def _told(paper: Paper, names: str, says: str, lines: int) -> list[str]:
    text = f"{names}: {says}"
    short = paper.fit(text, paper.width - 2)
    if lines == 1 or short == paper.plain(text):
        return [f"  {short}"]
    first, *rest = paper.wrap(text, paper.width - 4, lines)
    return [f"  {first}", *(f"    {line}" for line in rest)]


def _listed(paper: Paper, title: str, style: str, checks: Sequence[Check], room: int, more: int) -> list[str]:
    """A line each, in at most ``room`` lines, and ``more`` to say them whole; several that say the same become one."""
    rows = _rows(checks)
    if not rows:
        return []
    most = max(room - 2, 1)
    shown = rows if len(rows) <= most else rows[: most - 1]
    lines = ["", paper.style(title, "bold", style)]
    for names, says in shown:
        said = _told(paper, names, says, min(1 + more, ROW_LINES))
        more -= len(said) - 1
        lines += said
    if len(shown) < len(rows):
        lines.append(f"  {len(rows) - len(shown)}{' more' if shown else ''}: --json and --html have all")
    return lines


def _rows(checks: Sequence[Check]) -> list[tuple[str, str]]:
    """The same of several cards is one row with their numbers, the same of several causes one with their names."""
    said: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        name = check.cause.split("/")[1] if check.name == "card" else ""
        said.setdefault((check.says, "" if name else check.name), []).append(name or _number(check))
    several = len({check.where for check in checks if check.where}) > 1
    rows = []
    for (says, name), more in said.items():
        numbers = ", ".join(dict.fromkeys(m for m in more if m))
        rows.append((f"{name}{f' ({numbers})' if numbers and several else ''}" if name else numbers, says))
    return rows


def _titled(check: Check) -> str:
    return f"{check.name}{f' of {check.where}' if check.where else ''}: {check.cause}"


def _number(check: Check) -> str:
    """GPU 0 of "GPU 0 (Tesla T4)"."""
    return (check.where or "").partition(" (")[0]


def _after(sheet: Sheet) -> str:
    if sheet.of(CheckState.WRONG):
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
        "of": check.where,
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
