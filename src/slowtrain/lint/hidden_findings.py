"""Findings that are left out: those of a baseline file, and those which a comment ignores.

A baseline holds accepted findings. A finding is identified by its cause, its file and the text of its line, so that it
is recognised after lines move. A comment is ``# slowtrain: ignore[input/sequential-map]``; unused ones are reported.
"""

from __future__ import annotations

import io
import json
import os
import re
import tokenize
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from slowtrain.errors import InputError
from slowtrain.lint import lint_settings
from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.model.inspections import LintAnswer, LintFinding

BASELINE_SCHEMA = "slowtrain.lint-baseline/1"
IGNORE_COMMENT = re.compile(r"#\s*slowtrain:\s*ignore\b(?:\s*\[([^\]]*)\])?")
IGNORE_MARK = b"slowtrain:"
FindingKey = tuple[str, str, str]


@dataclass
class IgnoreComment:
    """One comment. ``ids`` maps each name in it to the cause ids it means; if empty, it covers all causes.

    ``start`` and ``end`` are columns in characters; ``row`` is the text of its line.
    """

    line: int
    start: int
    end: int
    ids: dict[str, frozenset[str]]
    row: str
    used: set[str] = field(default_factory=set)

    def covers_finding(self, cause: str, first: int, last: int) -> bool:
        """Whether a finding on these lines is ignored. Records that the comment was used."""
        if not first <= self.line <= last:
            return False
        named = [name for name, ids in self.ids.items() if cause in ids]
        if self.ids and not named:
            return False
        self.used |= set(named) or {""}
        return True


def read_comments(text: str) -> list[IgnoreComment]:
    """The ignore comments of a text, not those inside strings."""
    if "slowtrain:" not in text:
        return []
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            match = IGNORE_COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
            if match:
                names = [n.strip() for n in (match[1] or "").split(",") if n.strip()]
                column = token.start[1]
                ids = {n: lint_settings.matching_ids(n) for n in names}
                found.append(
                    IgnoreComment(token.start[0], column + match.start(), column + match.end(), ids, token.line)
                )
    except (tokenize.TokenError, SyntaxError):
        pass  # ``tokenize`` rejects a few files that ``ast`` parses
    return found


def unused_comments(
    file: str, ignores: Iterable[IgnoreComment], looked_for: Collection[str], all_ids: int
) -> Iterable[Spot]:
    """Comments, or ids in them, that hide no finding. Ids of causes that were not selected are left alone."""
    for one in ignores:
        if not one.ids:
            if not one.used and len(looked_for) >= all_ids:
                yield _unused_spot(file, one, "this comment ignores nothing, because nothing is found on this line", [])
            continue
        idle = [n for n, ids in one.ids.items() if n not in one.used and (not ids or ids & set(looked_for))]
        if not idle:
            continue
        strange = [n for n in idle if not one.ids[n]]
        says = f"no cause is named {strange[0]}" if strange else f"{', '.join(idle)} is not found on this line"
        yield _unused_spot(file, one, f"{says}, so there is nothing to ignore", [n for n in one.ids if n not in idle])


def _unused_spot(file: str, one: IgnoreComment, says: str, causes: list[str]) -> Spot:
    start, end = one.start, one.end
    text = f"# slowtrain: ignore[{', '.join(causes)}]" if causes else ""
    if not causes:  # the spaces before the comment are removed with it
        start = len(one.row[:start].rstrip()) if one.row[:start].strip() else start
    begun, ended = (len(one.row[:n].encode()) for n in (start, end))
    edit = Edit(file, (one.line, begun), (one.line, ended), text)
    shown = len(one.row[: one.start].encode())
    cure = Prescription("edit", Effect.EXACT, "remove it", edits=(edit,))
    return Spot((one.line, shown), (one.line, ended), says, cure)


def baseline_document(findings: Iterable[LintFinding], file: Path) -> str:
    """The baseline of ``findings`` as JSON. Paths are relative to the folder of ``file``."""
    counts = Counter(_finding_key(f, file) for f in findings)
    rows = [{"cause": c, "file": f, "code": code, "count": n} for (c, f, code), n in sorted(counts.items())]
    return json.dumps({"schema": BASELINE_SCHEMA, "findings": rows}, indent=1) + "\n"


def remove_known_findings(found: LintAnswer, file: Path) -> LintAnswer:
    """Removes the findings listed in the baseline ``file``. Raises ``InputError`` if it is not a baseline."""
    left = _read_baseline(file)
    new = []
    for finding in found.findings:
        key = _finding_key(finding, file)
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(finding)
    known, gone = len(found.findings) - len(new), sum(left.values())
    notes = [f"{known} already in {file}"] if known else []
    notes += [f"{gone} in {file} no longer found; --write-baseline {file} removes them"] if gone else []
    return replace(found, findings=tuple(new), notes=(*found.notes, *notes))


def _finding_key(finding: LintFinding, file: Path) -> FindingKey:
    below = os.path.relpath(os.path.abspath(finding.file), os.path.abspath(file.parent))
    return finding.cause, below.replace(os.sep, "/"), finding.code[0].strip() if finding.code else ""


def _read_baseline(file: Path) -> Counter[FindingKey]:
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        if written["schema"] != BASELINE_SCHEMA:
            raise ValueError(f"its schema is {written['schema']!r}, not {BASELINE_SCHEMA!r}")
        rows = written["findings"]
        return Counter({(str(r["cause"]), str(r["file"]), str(r["code"])): int(r["count"]) for r in rows})
    except OSError as error:
        raise InputError(
            f"cannot read the baseline {file} ({error.strerror}); create it with --write-baseline"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is not a baseline ({error}); write it again with --write-baseline") from error
