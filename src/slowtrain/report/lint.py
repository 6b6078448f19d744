"""Findings of ``slowtrain lint`` as text, as JSON (``slowtrain.lint/1``), as commands of GitHub, and as SARIF 2.1.0.

GitHub shows workflow commands beside the lines of a change:
https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands. Code hosts and editors read SARIF.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal
from urllib.parse import quote

from msgspec import UNSET, Meta, Struct, UnsetType
from rich.cells import cell_len

from slowtrain import __version__
from slowtrain.model import Effect
from slowtrain.model.inspections import SAFE_EFFECTS, FileError, LintAnswer, LintFinding
from slowtrain.number_text import format_count
from slowtrain.report.documents import CauseId, Count, Position, RuntimeWord, Tool, at, build_document, json_text
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
    minor: bool = False
    worth_if: Annotated[str | None, Meta(description="what its worth depends on and the text does not say")] = None


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
    fixed: Annotated[Count, at("fixed_count")] = 0
    notes: tuple[str, ...] = ()
    minor_count: Annotated[Count, Meta(description="left out, because their cure saves little; --minor shows them")] = 0


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
    if finding.worth_if is not None and finding.runtime is None:
        yield f"{edge.replace('|', '=')} worth it if {out.plain(finding.worth_if)}"
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
    files = format_count(found.files, "file")
    parts = [f"{format_count(found.fixed_count, 'finding')} fixed"] if found.fixed_count else []
    parts.append(
        f"{format_count(len(found.findings), 'finding')} in {files}" if found.findings else f"nothing found in {files}"
    )
    parts += [format_count(len(found.errors), "error")] if found.errors else []
    yield out.plain("; ".join([*parts, *found.notes])) + "."
    conditional = sum(f.worth_if is not None and f.runtime is None for f in found.findings)
    if conditional:
        yield f"{format_count(conditional, 'finding')} with a condition that the text does not answer."
    if found.minor_count:
        minor = format_count(found.minor_count, "minor finding")
        yield f"{minor} not shown, which would save little; --minor adds them."
    if safe:
        yield f"--fix repairs {safe} of them, --diff shows how."
    if other:
        yield f"--unsafe-fixes repairs {other} {'more' if safe else 'of them'}, and may change the numbers of training."


def github_commands(found: LintAnswer) -> str:
    return "".join([*map(_error_command, found.errors), *map(_warning_command, found.findings)])


def _warning_command(finding: LintFinding) -> str:
    words = finding.says if finding.cure is None else f"{finding.says}. To cure it, {finding.cure}."
    words += _condition_sentence(finding)
    about = {"title": f"slowtrain {finding.cause}", "file": finding.file}
    if finding.cell is None:
        about |= {"line": str(finding.line), "endLine": str(finding.end_line)}
        if finding.line == finding.end_line:  # columns are taken on one line only
            about |= {"col": str(finding.column), "endColumn": str(finding.end_column)}
    return f"::warning {_command_properties(about)}::{_escape_data(f'{finding.place}: {words}')}\n"


def _condition_sentence(finding: LintFinding) -> str:
    return f" Worth it if {finding.worth_if}." if finding.worth_if is not None else ""


def _error_command(error: FileError) -> str:
    about = {"title": "slowtrain", "file": error.file}
    if error.line and error.cell is None:
        about["line"] = str(error.line)
    return f"::error {_command_properties(about)}::{_escape_data(f'{error.place}: {error.says}')}\n"


def _command_properties(about: dict[str, str]) -> str:
    return ",".join(
        f"{key}={_escape_data(value).replace(':', '%3A').replace(',', '%2C')}" for key, value in about.items()
    )


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif_log(found: LintAnswer, version: str, pages: Mapping[str, tuple[str, str]], home: str = "") -> str:
    """``pages`` holds the title and the page of each cause, as ``slowtrain explain`` prints them."""
    ids = sorted({f.cause for f in found.findings})
    driver: dict[str, Any] = {
        "name": "slowtrain",
        "semanticVersion": version,
        "rules": [_rule_object(cause, *pages.get(cause, (cause, ""))) for cause in ids],
    }
    if home:
        driver["informationUri"] = home
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result_object(f, ids.index(f.cause)) for f in found.findings],
        "invocations": [
            {
                "executionSuccessful": not found.errors,
                "toolExecutionNotifications": [_error_object(e) for e in found.errors],
            }
        ],
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule_object(cause: str, title: str, page: str) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": cause,
        "name": "".join(word.capitalize() for word in cause.rpartition("/")[2].split("-")),
        "shortDescription": {"text": title},
        "properties": {"tags": ["performance", cause.partition("/")[0]]},
        "defaultConfiguration": {"level": "warning"},
    }
    if page:
        rule["fullDescription"] = {"text": page.partition("\n\n")[0].replace("\n", " ")}
        rule["help"] = {"text": page, "markdown": page}
    return rule


def _result_object(finding: LintFinding, rule: int) -> dict[str, Any]:
    cell = f"cell {finding.cell}: " if finding.cell is not None else ""
    cure = (f" To cure it, {finding.cure}." if finding.cure else "") + _condition_sentence(finding)
    region: dict[str, Any] = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    if finding.code:
        region["snippet"] = {"text": "\n".join(finding.code)}
    result: dict[str, Any] = {
        "ruleId": finding.cause,
        "ruleIndex": rule,
        "level": "warning",
        "message": {"text": f"{cell}{finding.says}.{cure}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _file_uri(finding.file)}, "region": region}}],
    }
    properties: dict[str, Any] = {}
    if finding.effect is not None:
        properties["effect"] = str(finding.effect)
    if finding.cell is not None:
        properties["cell"] = finding.cell
    if finding.runtime is not None:
        properties["runtime"] = {"state": finding.runtime.state, "ms_per_step": finding.runtime.ms_per_step}
    fix = _fix_object(finding)
    return {**result, **({"properties": properties} if properties else {}), **({"fixes": [fix]} if fix else {})}


def _fix_object(finding: LintFinding) -> dict[str, Any] | None:
    """The edits. A notebook has none, because its places are those of cells, not of the file."""
    if not finding.edits or finding.cell is not None or not all(_plain(finding)):
        return None
    replacements = [
        {
            "deletedRegion": {
                "startLine": e.start[0],
                "startColumn": e.start[1] + 1,
                "endLine": e.end[0],
                "endColumn": e.end[1] + 1,
            },
            "insertedContent": {"text": e.text},
        }
        for e in finding.edits
    ]
    change = {"artifactLocation": {"uri": _file_uri(finding.file)}, "replacements": replacements}
    return {"description": {"text": finding.cure or finding.says}, "artifactChanges": [change]}


def _plain(finding: LintFinding) -> list[bool]:
    """Edits count columns in bytes, SARIF in characters. In ASCII lines both are the same."""
    shown = range(finding.line, finding.line + len(finding.code))
    return [
        row == 0 or column == 0 or (row in shown and finding.code[row - finding.line].isascii())
        for e in finding.edits
        for row, column in (e.start, e.end)
    ]


def _error_object(error: FileError) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _file_uri(error.file)}}
    if error.line:
        place["region"] = {"startLine": error.line}
    return {"level": "error", "message": {"text": error.says}, "locations": [{"physicalLocation": place}]}


def _file_uri(file: str) -> str:
    """A relative path as the user gave it, or the file URI of an absolute one."""
    if os.path.isabs(file):
        return PurePath(file).as_uri()
    return quote(file.replace(os.sep, "/").removeprefix("./"))
