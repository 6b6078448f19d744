"""Findings of ``slowtrain lint`` as SARIF 2.1.0, which code hosts and editors read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from slowtrain.model.answers.linted_files import FileError, LintAnswer, LintFinding

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
    cure = f" To cure it, {finding.cure}." if finding.cure else ""
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
