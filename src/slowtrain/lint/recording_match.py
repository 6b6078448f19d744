"""Matches findings with a recording: which of them cost time there, which cost nothing, and which were not reached."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from slowtrain.causes import class_of
from slowtrain.model import Checkup, Diagnosis, VerdictKind
from slowtrain.model.inspections import LintFinding, RuntimeState
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, parse_source, read_source
from slowtrain.shared.vocabulary import UNUSED_IGNORE
from slowtrain.trace import Trace

CONFIRMED, HARMLESS, NOT_REACHED = "confirmed", "harmless", "not reached"

# If the verdict is of this kind, a cause of this family must explain it before a line of the family is called harmless.
FAMILY_BY_VERDICT = {VerdictKind.INPUT: "input/", VerdictKind.TRANSFER: "transfer/", VerdictKind.HOST: "host/"}


def add_runtime_costs(findings: Iterable[LintFinding], checkup: Checkup, trace: Trace) -> tuple[LintFinding, ...]:
    """The findings with ``runtime`` set from the recording, the most expensive first.

    ``runtime`` stays None if it is unknown: the cause was not checked, or the line was perhaps not reached.
    """
    several = list(findings)
    reached = _ReachedLines(trace)
    matched = [replace(f, runtime=_finding_runtime(f, several, checkup, reached)) for f in several]
    return tuple(sorted(matched, key=_sort_key))  # a stable sort keeps the order of files and lines


def _sort_key(finding: LintFinding) -> tuple[int, float]:
    runtime = finding.runtime
    if runtime is None:
        return 1, 0.0
    cost = runtime.run_ms or runtime.ms_per_step or 0.0
    return {CONFIRMED: 0, NOT_REACHED: 2, HARMLESS: 3}[runtime.state], -cost


def _finding_runtime(
    finding: LintFinding, several: Sequence[LintFinding], checkup: Checkup, reached: _ReachedLines
) -> RuntimeState | None:
    if finding.cause == UNUSED_IGNORE:
        return None
    if not reached.has_file(finding.file):
        return RuntimeState(NOT_REACHED)
    same_cause = [f for f in several if f.cause == finding.cause and reached.has_file(f.file)]
    for diagnosis in checkup.diagnoses:
        if _share_lines(diagnosis.cause, finding.cause) and (
            _at_measured_line(finding, diagnosis, reached)
            or (diagnosis.cause == finding.cause and not diagnosis.evidence.where and len(same_cause) == 1)
        ):
            return _confirmed_cost(diagnosis, checkup)
    if reached.is_never_called(finding):
        return RuntimeState(NOT_REACHED)
    # A cause that costs no time (a loss that is NaN) was not judged line by line.
    found = any(d.cause == finding.cause and d.saving.speedup > 1 for d in checkup.diagnoses)
    judged = finding.cause in checkup.healthy or found
    if not judged or not reached.has_line(finding) or _wait_is_unexplained(finding, checkup):
        return None
    return RuntimeState(HARMLESS)


def _share_lines(one: str, other: str) -> bool:
    """Whether a measurement of one cause may belong to a finding of the other.

    For example, memory of a kept tensor is measured where it was computed, and the text shows where it is kept.
    """
    return one == other or "" != class_of(one).lines_shared_as == class_of(other).lines_shared_as


def _wait_is_unexplained(finding: LintFinding, checkup: Checkup) -> bool:
    """Whether steps wait for the finding's family and no diagnosis explains it. Then the finding may cost time."""
    family = FAMILY_BY_VERDICT.get(checkup.verdict)
    if family is None or not finding.cause.startswith(family):
        return False
    return not any(d.cause.startswith(family) for d in checkup.diagnoses)


def _confirmed_cost(diagnosis: Diagnosis, checkup: Checkup) -> RuntimeState:
    saving = diagnosis.saving
    run_ms = diagnosis.run_share * checkup.run.total_ms
    return RuntimeState(CONFIRMED, saving.ms if saving.scope == "step" else None, run_ms if run_ms > 0 else None)


def _at_measured_line(finding: LintFinding, diagnosis: Diagnosis, reached: _ReachedLines) -> bool:
    """Whether the statement of the finding contains one of the measured lines."""
    for place in diagnosis.evidence.where:
        if reached.is_same_file(place.file, finding.file):
            first, last = reached.statement_lines(finding)
            if first <= place.line <= last:
                return True
    return False


def recorded_texts(trace: Trace) -> dict[str, str]:
    """Real path -> text of the script's files as they ran: kept in the recording, or unchanged on disk since then."""
    if trace.fact("profile"):
        return {}
    found = _by_path(trace, "sources")
    for path, digest in _by_path(trace, "modules").items():
        data = _read_bytes(path) if path not in found else None
        if data is not None and _sha256_digest(data).startswith(digest):
            found[path] = data.decode("utf-8", "surrogateescape")
    return found


def _by_path(trace: Trace, fact: str) -> dict[str, str]:
    """A fact about files, by their real paths."""
    return {_recorded_path(trace, str(file)): str(value) for file, value in (trace.fact(fact) or {}).items()}


def changed_files(files: Iterable[str], trace: Trace) -> list[str]:
    """The files whose text has changed since the recording was made."""
    texts, digests = _by_path(trace, "sources"), _by_path(trace, "modules")
    real = {file: os.path.realpath(file) for file in files}
    return [f for f, path in real.items() if _differs_from_recorded(f, texts.get(path), digests.get(path))]


def _sha256_digest(data: bytes) -> str:
    import hashlib  # imported here because only a script of several files needs it; it takes 1 % of an answer's time

    return hashlib.sha256(data).hexdigest()


def _differs_from_recorded(file: str, recorded: str | None, digest: str | None) -> bool:
    data = _read_bytes(file)
    if data is None:
        return False
    if digest is not None:
        return not _sha256_digest(data).startswith(digest)
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    # The recording keeps only the beginning of a long script.
    return recorded is not None and not text.startswith(recorded.replace("\r\n", "\n"))


def _read_bytes(path: str) -> bytes | None:
    try:
        with open(path, "rb") as opened:
            return opened.read()
    except OSError:
        return None


def _recorded_path(trace: Trace, file: str) -> str:
    return os.path.realpath(os.path.join(trace.root, file)) if trace.root else os.path.realpath(file)


class _ReachedLines:
    """The files that ran according to a recording, and every line at which something was measured."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.lines: dict[str, set[int]] = {}
        for file in (*(trace.fact("sources") or ()), *(trace.fact("modules") or ())):
            self.lines.setdefault(_recorded_path(trace, str(file)), set())
        places = [name.place for name in trace.names]
        places += [event.place for event in trace.events]
        places += [w.place for pipe in trace.pipelines for w in pipe.written]
        places += [line.place for line in trace.loop_lines]
        for place in (*places, trace.steps.place):
            if place is not None:
                self.lines.setdefault(_recorded_path(trace, place.file), set()).add(place.line)
        self._texts = recorded_texts(trace)
        self._sources: dict[str, Source | None] = {}

    def is_same_file(self, recorded: str, found: str) -> bool:
        return _recorded_path(self.trace, recorded) == os.path.realpath(found)

    def has_file(self, found: str) -> bool:
        return os.path.realpath(found) in self.lines

    def has_line(self, finding: LintFinding) -> bool:
        """Whether the line surely ran: it is outside functions, or in a function where something was measured."""
        known = self.lines[os.path.realpath(finding.file)]
        source = self._file_source(finding.file)
        inside = source.function_at(finding.line) if source is not None else None
        if inside is None:
            return source is not None
        last = getattr(inside, "end_lineno", None) or 0
        return any(getattr(inside, "lineno", 0) <= line <= last for line in known)

    def is_never_called(self, finding: LintFinding) -> bool:
        """Whether the line is in a function whose name occurs nowhere else in the project."""
        source = self._file_source(finding.file)
        inside = source.function_at(finding.line) if source is not None else None
        if source is None or not isinstance(inside, FUNCTION_NODES) or inside.decorator_list:
            return False
        if inside not in source.tree.body:
            return False  # methods and nested functions can be called under other names
        name = inside.name
        every = {**self._texts, os.path.realpath(finding.file): source.text}
        return sum(len(re.findall(rf"\b{re.escape(name)}\b", text)) for text in every.values()) == 1

    def statement_lines(self, finding: LintFinding) -> tuple[int, int]:
        """First and last line of the innermost statement that holds the finding."""
        source = self._file_source(finding.file)
        statements = syntax_tree.nodes_inside(source.tree, ast.stmt) if source is not None else []
        ranges = [(n.lineno, n.end_lineno or n.lineno) for n in statements]
        holding = [(first, last) for first, last in ranges if first <= finding.line <= last]
        first, last = max(holding, key=lambda lines: lines[0], default=(finding.line, finding.end_line))
        return min(first, finding.line), max(last, finding.end_line)

    def _file_source(self, file: str) -> Source | None:
        if file not in self._sources:
            recorded = self._texts.get(os.path.realpath(file))
            self._sources[file] = parse_source(file, recorded) if recorded is not None else read_source(file)
        return self._sources[file]
