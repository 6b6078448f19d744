"""Findings of ``slowtrain lint`` as text and as JSON (``slowtrain.lint/1``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from rich.cells import cell_len

from slowtrain import __version__
from slowtrain.model import Effect
from slowtrain.model.answers.linted_files import SAFE_EFFECTS, LintAnswer, LintFinding
from slowtrain.report.documents import CauseId, Count, Position, RuntimeWord, Tool, build_document, json_text
from slowtrain.report.terminal import Terminal, joined_lines
from slowtrain.report.wording import printable_text, runtime_text

SCHEMA = "slowtrain.lint/1"


class LintRuntime(Struct):
    state: RuntimeWord
    ms_per_step: float | None
    run_ms: float | None = None


class ErrorDocument(Struct):
    file: str
    line: int | None
    says: str
    cell: Position | UnsetType = UNSET


class FindingDocument(Struct):
    cause: CauseId
    file: str
    line: Position
    column: Position
    end_line: Position
    end_column: Position
    says: str
    effect: Effect | None
    diff: str | None
    runtime: LintRuntime | None
    cure: str | None = None
    cell: Position | UnsetType = UNSET


class LintDocument(Struct):
    """What slowtrain lint --format json writes.

    Lines and columns count from 1, in characters; the end column is exclusive. With a cell they are those of a
    notebook's cell, which counts from 1 over all cells.
    """

    schema: Literal["slowtrain.lint/1"]
    tool: Tool
    files: Annotated[Count, Meta(description="looked at, parsed or not")]
    errors: tuple[ErrorDocument, ...]
    findings: tuple[FindingDocument, ...]
    fixed: Count = 0
    notes: tuple[str, ...] = ()


def lint_text(
    found: LintAnswer, *, width: int = 80, colour: bool = False, unicode: bool = True, statistics: bool = False
) -> str:
    """The findings with their excerpts, then their number. With ``statistics``, only the number for each cause."""
    out = Terminal(max(width, 40), colour, unicode)
    findings = (line for finding in found.findings for line in _finding_lines(finding, out))
    return joined_lines([*(_statistics_lines(found, out) if statistics else findings), *_summary_lines(found, out)])


def lint_json(found: LintAnswer) -> str:
    return json_text(build_document(LintDocument, found, schema=SCHEMA, tool={"version": __version__}))


def _finding_lines(finding: LintFinding, out: Terminal) -> Iterator[str]:
    head = f"{out.style(out.plain(finding.place), 'bold')}: {out.style(finding.cause, 'red')}"
    yield f"{head}: {out.plain(finding.says)}"
    gutter = max((len(str(finding.line + n)) for n in range(len(finding.code))), default=1)
    edge = out.style(f"{' ' * gutter} |", "blue")
    for n, row in enumerate(finding.code):
        number = finding.line + n
        shown = out.code(row.expandtabs(4).rstrip(), out.width - gutter - 3)
        yield f"{out.style(f'{number:>{gutter}} |', 'blue')} {shown}".rstrip()
        marked = _caret_line(finding, number, row, out.width - gutter - 3)
        if marked:
            yield f"{edge} {out.style(marked, 'yellow')}"
    if finding.cure is not None:
        yield f"{edge.replace('|', '=')} {_cure_line(finding, out)}"
    if (seen := finding.runtime) is not None:
        yield f"{edge.replace('|', '=')} {runtime_text(seen.state, seen.ms_per_step, seen.run_ms)}"
    yield ""


def _caret_line(finding: LintFinding, number: int, row: str, width: int) -> str:
    """Carets under the part of a row that the finding is about."""
    start = finding.column - 1 if number == finding.line else len(row) - len(row.lstrip())
    end = finding.end_column - 1 if number == finding.end_line else len(row.rstrip())
    before = cell_len(printable_text(row[:start].expandtabs(4)))
    through = cell_len(printable_text(row[:end].expandtabs(4)))
    if before >= width:
        return ""
    return " " * before + "^" * max(min(through, width) - before, 1)


def _cure_line(finding: LintFinding, out: Terminal) -> str:
    how = ""
    if finding.diff is not None and finding.effect is not None:
        option = "--fix" if finding.effect in SAFE_EFFECTS else "--unsafe-fixes"
        how = f" ({finding.effect}; {option} does it)"
    return f"{out.plain(finding.cure or '')}{how}"


def _count_by_cause(found: LintAnswer) -> list[tuple[str, int]]:
    return sorted(Counter(f.cause for f in found.findings).items(), key=lambda row: (-row[1], row[0]))


def _statistics_lines(found: LintAnswer, out: Terminal) -> Iterator[str]:
    rows = _count_by_cause(found)
    fixable = Counter(f.cause for f in found.findings if f.edits)
    width = max((len(str(count)) for _, count in rows), default=1)
    for cause, count in rows:
        safe = f"  ({fixable[cause]} can be fixed)" if fixable[cause] else ""
        yield f"{count:>{width}}  {out.style(cause, 'red')}{safe}"
    if rows:
        yield ""


def _summary_lines(found: LintAnswer, out: Terminal) -> Iterator[str]:
    safe = sum(f.effect in SAFE_EFFECTS and bool(f.edits) for f in found.findings)
    other = sum(f.effect not in SAFE_EFFECTS and bool(f.edits) for f in found.findings)
    files = _count_text(found.files, "file")
    parts = [f"{_count_text(found.fixed, 'finding')} fixed"] if found.fixed else []
    parts.append(
        f"{_count_text(len(found.findings), 'finding')} in {files}" if found.findings else f"nothing found in {files}"
    )
    parts += [_count_text(len(found.errors), "error")] if found.errors else []
    yield out.plain("; ".join([*parts, *found.notes])) + "."
    if safe:
        yield f"--fix repairs {safe} of them, --diff shows how."
    if other:
        yield f"--unsafe-fixes repairs {other} {'more' if safe else 'of them'}, and may change the numbers of training."


def _count_text(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
