"""What ``slowtrain lint`` found, for people: each with its lines and what to do; for machines: ``slowtrain.lint/1``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from slowtrain.model.answers.linted_files import SAFE_EFFECTS, LintAnswer, LintFinding, RuntimeState
from slowtrain.report.json import plain
from slowtrain.report.terminal import Paper, cells
from slowtrain.report.wording import clean, runtime

SCHEMA = "slowtrain.lint/1"


def render(
    found: LintAnswer, *, width: int = 80, colour: bool = False, unicode: bool = True, statistics: bool = False
) -> str:
    """The findings with their excerpts, then how many there are; with ``statistics`` only how many of each cause."""
    paper = Paper(max(width, 40), colour, unicode)
    lines = list(_statistics(found, paper)) if statistics else [x for f in found.findings for x in _finding(f, paper)]
    return "\n".join([*lines, *_summary(found, paper)]) + "\n"


def document(found: LintAnswer, version: str) -> str:
    """The contract ``slowtrain.lint/1``."""
    written = {
        "schema": SCHEMA,
        "tool": {"version": version},
        "files": found.files,
        "errors": [
            {"file": e.file, "line": e.line, "says": e.says, **({"cell": e.cell} if e.cell is not None else {})}
            for e in found.errors
        ],
        "findings": [_plain(f) for f in found.findings],
        "fixed": found.fixed,
        "notes": found.notes,
    }
    return json.dumps(plain(written), indent=2, allow_nan=False) + "\n"


def _plain(finding: LintFinding) -> dict[str, Any]:
    runtime = finding.runtime
    told: dict[str, Any] = {
        "cause": finding.cause,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "end_line": finding.end_line,
        "end_column": finding.end_column,
        "says": finding.says,
        "effect": finding.effect,
        "diff": finding.diff,
        "runtime": {"state": runtime.state, "ms_per_step": runtime.ms_per_step, "run_ms": runtime.run_ms}
        if runtime is not None
        else None,
        "cure": finding.cure,
    }
    return {**told, "cell": finding.cell} if finding.cell is not None else told


def _finding(finding: LintFinding, paper: Paper) -> Iterator[str]:
    head = f"{paper.style(paper.plain(finding.place), 'bold')}: {paper.style(finding.cause, 'red')}"
    yield f"{head}: {paper.plain(finding.says)}"
    gutter = max((len(str(finding.line + n)) for n in range(len(finding.code))), default=1)
    edge = paper.style(f"{' ' * gutter} |", "blue")
    for n, row in enumerate(finding.code):
        number = finding.line + n
        shown = paper.code(row.expandtabs(4).rstrip(), paper.width - gutter - 3)
        yield f"{paper.style(f'{number:>{gutter}} |', 'blue')} {shown}".rstrip()
        marked = _underline(finding, number, row, paper.width - gutter - 3)
        if marked:
            yield f"{edge} {paper.style(marked, 'yellow')}"
    if finding.cure is not None:
        yield f"{edge.replace('|', '=')} {_cure(finding, paper)}"
    if finding.runtime is not None:
        yield f"{edge.replace('|', '=')} {_ran(finding.runtime)}"
    yield ""


def _underline(finding: LintFinding, number: int, row: str, width: int) -> str:
    """Carets under that part of a row which the finding is about."""
    start = finding.column - 1 if number == finding.line else len(row) - len(row.lstrip())
    end = finding.end_column - 1 if number == finding.end_line else len(row.rstrip())
    before = cells(clean(row[:start].expandtabs(4)))
    through = cells(clean(row[:end].expandtabs(4)))
    if before >= width:
        return ""
    return " " * before + "^" * max(min(through, width) - before, 1)


def _cure(finding: LintFinding, paper: Paper) -> str:
    how = ""
    if finding.diff is not None and finding.effect is not None:
        option = "--fix" if finding.effect in SAFE_EFFECTS else "--unsafe-fixes"
        how = f" ({finding.effect}; {option} does it)"
    return f"{paper.plain(finding.cure or '')}{how}"


def _ran(told: RuntimeState) -> str:
    return runtime(told.state, told.ms_per_step, told.run_ms)


def _counts(found: LintAnswer) -> list[tuple[str, int]]:
    return sorted(Counter(f.cause for f in found.findings).items(), key=lambda row: (-row[1], row[0]))


def _statistics(found: LintAnswer, paper: Paper) -> Iterator[str]:
    rows = _counts(found)
    fixable = Counter(f.cause for f in found.findings if f.edits)
    width = max((len(str(count)) for _, count in rows), default=1)
    for cause, count in rows:
        safe = f"  ({fixable[cause]} can be fixed)" if fixable[cause] else ""
        yield f"{count:>{width}}  {paper.style(cause, 'red')}{safe}"
    if rows:
        yield ""


def _summary(found: LintAnswer, paper: Paper) -> Iterator[str]:
    safe = sum(f.effect in SAFE_EFFECTS and bool(f.edits) for f in found.findings)
    other = sum(f.effect not in SAFE_EFFECTS and bool(f.edits) for f in found.findings)
    files = _many(found.files, "file")
    parts = [f"{_many(found.fixed, 'finding')} fixed"] if found.fixed else []
    parts.append(
        f"{_many(len(found.findings), 'finding')} in {files}" if found.findings else f"nothing found in {files}"
    )
    parts += [_many(len(found.errors), "error")] if found.errors else []
    yield paper.plain("; ".join([*parts, *found.notes])) + "."
    if safe:
        yield f"--fix repairs {safe} of them, --diff shows how."
    if other:
        yield f"--unsafe-fixes repairs {other} {'more' if safe else 'of them'}, and may change the numbers of training."


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
