"""Baseline file: accepted findings that later runs leave out.

A finding is identified by its cause, its file and the text of its line, so that it is recognised after lines move.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from slowtrain.errors import InputError
from slowtrain.model.inspections import LintAnswer, LintFinding

SCHEMA = "slowtrain.lint-baseline/1"
FindingKey = tuple[str, str, str]


def baseline_document(findings: Iterable[LintFinding], file: Path) -> str:
    """The baseline of ``findings`` as JSON. Paths are relative to the folder of ``file``."""
    counts = Counter(_finding_key(f, file) for f in findings)
    rows = [{"cause": c, "file": f, "code": code, "count": n} for (c, f, code), n in sorted(counts.items())]
    return json.dumps({"schema": SCHEMA, "findings": rows}, indent=1) + "\n"


def remove_known_findings(found: LintAnswer, file: Path) -> LintAnswer:
    """Removes the findings listed in the baseline ``file``. Raises ``InputError`` if it is not a baseline."""
    left = _read_baseline(file)
    kept = []
    for finding in found.findings:
        key = _finding_key(finding, file)
        if left[key] > 0:
            left[key] -= 1
        else:
            kept.append(finding)
    known, gone = len(found.findings) - len(kept), sum(left.values())
    notes = [f"{known} already in {file}"] if known else []
    notes += [f"{gone} in {file} no longer found; --write-baseline {file} removes them"] if gone else []
    return replace(found, findings=tuple(kept), notes=(*found.notes, *notes))


def _finding_key(finding: LintFinding, file: Path) -> FindingKey:
    below = os.path.relpath(os.path.abspath(finding.file), os.path.abspath(file.parent))
    return finding.cause, below.replace(os.sep, "/"), finding.code[0].strip() if finding.code else ""


def _read_baseline(file: Path) -> Counter[FindingKey]:
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        if written["schema"] != SCHEMA:
            raise ValueError(f"its schema is {written['schema']!r}, not {SCHEMA!r}")
        rows = written["findings"]
        return Counter({(str(r["cause"]), str(r["file"]), str(r["code"])): int(r["count"]) for r in rows})
    except OSError as error:
        raise InputError(
            f"cannot read the baseline {file} ({error.strerror}); create it with --write-baseline"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is not a baseline ({error}); write it again with --write-baseline") from error
