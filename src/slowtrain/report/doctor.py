"""The doctor's sheet as text and as JSON (``slowtrain.doctor/1``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from slowtrain.model.inspections import Check, CheckState, Sheet
from slowtrain.report import wording
from slowtrain.report.documents import CauseId, Tool, build_document, json_text
from slowtrain.report.terminal import Terminal, joined_lines
from slowtrain.shared.vocabulary import Source

SCHEMA = "slowtrain.doctor/1"
MAX_SHEET_COLUMNS = 100
SCREEN_LINES = 40
MIN_LIST_LINES = 4  # a blank line, a title, one row, and how many more there are
NAME_COLUMNS = 11
MAX_ROW_LINES = 3  # of one thing that was looked at, where the screen has the room


class CauseState(Struct):
    cause: CauseId
    state: CheckState


class CheckDocument(Struct):
    cause: str
    name: str
    state: CheckState
    where: str | None = field(name="of")
    says: str
    remedy: str | None
    numbers: Mapping[str, float | None]
    missing: tuple[str, ...]
    sources: tuple[str, ...]


class DoctorDocument(Struct):
    """What slowtrain doctor --json writes. --from reads ``facts``; ``given`` is the file that they are from."""

    schema: Literal["slowtrain.doctor/1"]
    tool: Tool
    given: str | None
    headline: str
    causes: tuple[CauseState, ...]
    checks: tuple[CheckDocument, ...]
    sources: tuple[Source, ...]
    facts: Mapping[str, Any]


def doctor_text(sheet: Sheet, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """The whole sheet: the verdict, then what is wrong with its remedy, then the other checks in a line each."""
    out = Terminal(min(width, MAX_SHEET_COLUMNS), colour, unicode)
    lines = [*out.hanging("", sheet.headline, lines=3, style="bold red" if sheet.of(CheckState.WRONG) else "bold")]
    lines += [out.label_line(f"  {name:<{NAME_COLUMNS}}", value) for name, value in sheet.about]
    lists = [
        ("FINE", "green", sheet.of(CheckState.FINE)),
        ("NOTED", "cyan", sheet.of(CheckState.NOTED)),
        ("UNCHECKED", "yellow", sheet.of(CheckState.UNCHECKED)),
    ]
    least = sum(MIN_LIST_LINES for *_, checks in lists if checks) + 2
    lines += _wrong_checks(out, sheet.of(CheckState.WRONG), SCREEN_LINES - len(lines) - least)
    whole = sum(2 + len(_merged_rows(checks)) for *_, checks in lists if checks) + 2
    more = _extra_lines(out, [checks for *_, checks in lists], SCREEN_LINES - len(lines) - whole)
    for place, (title, style, checks) in enumerate(lists):
        after = sum(MIN_LIST_LINES for *_, later in lists[place + 1 :] if later) + 2
        lines += _check_list(out, title, style, checks, SCREEN_LINES - len(lines) - after, more[place])
    return joined_lines([*lines, "", out.fit(_next_command(sheet))])


def _wrong_checks(out: Terminal, checks: Sequence[Check], room: int) -> list[str]:
    """Each check with its evidence and its remedy, as many as there is room for, and always the first."""
    lines = [*out.section("WRONG", "bold red")] if checks else []
    for place, check in enumerate(checks):
        of = f" of {check.where}" if check.where else ""
        block = ["  " + out.style(out.fit(f"{check.name}{of}: {check.cause}", out.width - 2), "bold")]
        block += out.hanging("    ", check.says, lines=4)
        block += out.hanging("    do: ", check.remedy or "", lines=5)
        if place and len(lines) + len(block) + 1 > room:
            rest = ", ".join(dict.fromkeys(c.name for c in checks[place:]))
            return [*lines, out.fit_end("  ", f"and {len(checks) - place} more ({rest}): --json and --html have all")]
        lines += block
    return lines


def _extra_lines(out: Terminal, lists: Sequence[Sequence[Check]], spare: int) -> list[int]:
    """The lines that each list may have beyond one a row, so that no row is cut. The last list gets them first."""
    found = []
    for checks in reversed(lists):
        wanted = sum(len(_check_lines(out, names, says, MAX_ROW_LINES)) - 1 for names, says in _merged_rows(checks))
        found.append(max(min(wanted, spare), 0))
        spare -= found[-1]
    return found[::-1]


def _check_lines(out: Terminal, names: str, says: str, lines: int) -> list[str]:
    text = f"{names}: {says}"
    if lines == 1 or out.fits(text, out.width - 2):
        return [out.fit_end("  ", text)]
    return [*out.hanging("  ", text, indent=4, lines=lines)]


def _check_list(out: Terminal, title: str, style: str, checks: Sequence[Check], room: int, more: int) -> list[str]:
    """The checks in at most ``room`` lines, and ``more`` lines to show long ones whole. Equal ones become one row."""
    rows = _merged_rows(checks)
    if not rows:
        return []
    most = max(room - 2, 1)
    shown = rows if len(rows) <= most else rows[: most - 1]
    lines = [*out.section(title, f"bold {style}")]
    for names, says in shown:
        row = _check_lines(out, names, says, min(1 + more, MAX_ROW_LINES))
        more -= len(row) - 1
        lines += row
    if len(shown) < len(rows):
        lines.append(f"  {len(rows) - len(shown)}{' more' if shown else ''}: --json and --html have all")
    return lines


def _merged_rows(checks: Sequence[Check]) -> list[tuple[str, str]]:
    """Names and words of each row. Checks of several cards or causes that say the same are one row with all names."""
    merged: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        name = check.cause.split("/")[1] if check.name == "card" else ""
        merged.setdefault((check.says, "" if name else check.name), []).append(name or _card_number(check))
    several = len({check.where for check in checks if check.where}) > 1
    rows = []
    for (says, name), more in merged.items():
        numbers = ", ".join(dict.fromkeys(m for m in more if m))
        rows.append((f"{name}{f' ({numbers})' if numbers and several else ''}" if name else numbers, says))
    return rows


def _card_number(check: Check) -> str:
    """GPU 0 of "GPU 0 (Tesla T4)"."""
    return (check.where or "").partition(" (")[0]


def _next_command(sheet: Sheet) -> str:
    if sheet.of(CheckState.WRONG):
        return "then run it again; `slowtrain explain CAUSE` says more of a cause"
    return "`slowtrain run SCRIPT` says what a script makes of this machine"


def doctor_document(sheet: Sheet) -> dict[str, Any]:
    """The sheet with the facts that it was judged by, which ``--from`` reads again."""
    checks = [
        build_document(CheckDocument, check, missing=[wording.SIGNALS[signal] for signal in check.missing])
        for check in sheet.checks
    ]
    causes = [{"cause": cause, "state": state} for cause, state in sheet.causes.items()]
    return build_document(DoctorDocument, sheet, schema=SCHEMA, tool=sheet, causes=causes, checks=checks)


def doctor_json(sheet: Sheet) -> str:
    return json_text(doctor_document(sheet))
