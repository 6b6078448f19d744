"""Findings beside a recording: which of them cost something there, which cost nothing, and which were never reached."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slowtrain.findings import UNUSED_IGNORE, Finding, Runtime
from slowtrain.model import Checkup, Diagnosis
from slowtrain.source import Source, read
from slowtrain.trace import Trace

CONFIRMED, HARMLESS, NOT_REACHED = "confirmed", "harmless", "not reached"


def joined(findings: Iterable[Finding], checkup: Checkup, trace: Trace) -> tuple[Finding, ...]:
    """The findings with what the recording says of them, by what they cost there.

    ``runtime`` stays None where it cannot tell: the cause was not checked, or the line perhaps not reached.
    """
    several = list(findings)
    reached = _Reached(trace)
    told = [replace(f, runtime=_runtime(f, several, checkup, reached)) for f in several]
    return tuple(sorted(told, key=_rank))  # equal ones stay in the order of files and lines


def _rank(finding: Finding) -> tuple[int, float]:
    runtime = finding.runtime
    if runtime is None:
        return 1, 0.0
    cost = runtime.run_ms or runtime.ms_per_step or 0.0
    return {CONFIRMED: 0, NOT_REACHED: 2, HARMLESS: 3}[runtime.state], -cost


def _runtime(finding: Finding, several: Sequence[Finding], checkup: Checkup, reached: _Reached) -> Runtime | None:
    if finding.cause == UNUSED_IGNORE:
        return None
    if not reached.file(finding.file):
        return Runtime(NOT_REACHED)
    alike = [f for f in several if f.cause == finding.cause and reached.file(f.file)]
    for diagnosis in checkup.diagnoses:
        if diagnosis.cause == finding.cause and (
            _same_place(finding, diagnosis, reached) or (not diagnosis.evidence.where and len(alike) == 1)
        ):
            return _cost(diagnosis, checkup)
    judged = finding.cause in checkup.healthy or any(d.cause == finding.cause for d in checkup.diagnoses)
    if not judged or not reached.line(finding):
        return None
    return Runtime(HARMLESS)


def _cost(diagnosis: Diagnosis, checkup: Checkup) -> Runtime:
    saving = diagnosis.saving
    run_ms = diagnosis.run_share * checkup.run.total_ms
    return Runtime(CONFIRMED, saving.ms if saving.scope == "step" else None, run_ms if run_ms > 0 else None)


def _same_place(finding: Finding, diagnosis: Diagnosis, reached: _Reached) -> bool:
    """Whether one of the measured lines lies in the statement of the finding."""
    for place in diagnosis.evidence.where:
        if reached.same(place.file, finding.file):
            first, last = reached.statement(finding)
            if first <= place.line <= last:
                return True
    return False


@dataclass(frozen=True)
class _File:
    path: str
    lines: frozenset[int]
    main: bool


class _Reached:
    """What a recording knows to have run: the script, and every line at which something was measured."""

    def __init__(self, trace: Trace) -> None:
        self.root = trace.root
        lines: dict[str, set[int]] = {}
        main = [self._path(str(name)) for name in trace.fact("sources") or {}]
        places = [name.place for name in trace.names]
        places += [event.place for event in trace.events]
        places += [w.place for pipe in trace.pipelines for w in pipe.written]
        places += [line.place for line in trace.loop_lines]
        places.append(trace.steps.place)
        for place in places:
            if place is not None:
                lines.setdefault(self._path(place.file), set()).add(place.line)
        for file in main:
            lines.setdefault(file, set())
        self.files = {path: _File(path, frozenset(found), path in main) for path, found in lines.items()}
        self._sources: dict[str, Source | None] = {}

    def _path(self, file: str) -> str:
        return os.path.realpath(os.path.join(self.root, file)) if self.root else os.path.realpath(file)

    def same(self, recorded: str, found: str) -> bool:
        return self._path(recorded) == os.path.realpath(found)

    def file(self, found: str) -> bool:
        return os.path.realpath(found) in self.files

    def line(self, finding: Finding) -> bool:
        """Whether it surely ran: outside functions of a file that ran, or in one where something was measured."""
        known = self.files[os.path.realpath(finding.file)]
        source = self._source(finding.file)
        inside = source.function_at(finding.line) if source is not None else None
        if inside is None:
            return source is not None
        last = getattr(inside, "end_lineno", None) or 0
        return any(getattr(inside, "lineno", 0) <= line <= last for line in known.lines)

    def statement(self, finding: Finding) -> tuple[int, int]:
        """The lines of the statement that holds the finding, of a compound one its head."""
        source = self._source(finding.file)
        holding = [
            n for n in ast.walk(source.tree) if isinstance(n, ast.stmt) and n.lineno <= finding.line <= _last(n)
        ] if source is not None else []  # fmt: skip
        if not holding:
            return finding.line, finding.end_line
        inner = max(holding, key=lambda n: n.lineno)
        return min(inner.lineno, finding.line), max(_last(inner), finding.end_line)

    def _source(self, file: str) -> Source | None:
        if file not in self._sources:
            self._sources[file] = read(file)
        return self._sources[file]


def _last(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
