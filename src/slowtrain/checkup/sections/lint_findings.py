"""What ``slowtrain lint`` finds in the files of a script, beside what the run says about it."""

from __future__ import annotations

from collections.abc import Callable

from slowtrain.errors import SlowtrainError
from slowtrain.lint import file_check, lint_settings, recording_match
from slowtrain.lint.documents import UnreadableFileError
from slowtrain.lint.lint_settings import LintSettings
from slowtrain.model import Checkup, Place, SeenInSource
from slowtrain.model.answers.linted_files import UNUSED_IGNORE, LintFinding
from slowtrain.trace import Trace


def source_findings(trace: Trace, checkup: Checkup, place: Callable[[Place], Place]) -> tuple[SeenInSource, ...]:
    """The findings in the script and in its own modules, the most expensive first; empty for a profile."""
    files = recording_match.recorded_texts(trace)
    if not files:
        return ()
    chosen = _lint_settings(list(files))
    findings: list[LintFinding] = []
    for file, text in files.items():
        try:
            findings += file_check.check_content(file, text.encode("utf-8", "surrogateescape"), chosen).findings
        except (UnreadableFileError, UnicodeError):
            continue  # it ran, so it is Python; a truncated or odd file is not worth a line of the report
    told = recording_match.add_runtime_costs([f for f in findings if f.cause != UNUSED_IGNORE], checkup, trace)
    return tuple(_as_seen_in_source(f, place) for f in told)


def _lint_settings(files: list[str]) -> LintSettings:
    """The project's settings; ``slowtrain lint`` reports mistakes in them."""
    try:
        return lint_settings.load_settings(files)
    except SlowtrainError:
        return LintSettings(frozenset(lint_settings.known_ids()))


def _as_seen_in_source(finding: LintFinding, place: Callable[[Place], Place]) -> SeenInSource:
    code = finding.code[0].strip() if finding.code else ""
    where = place(Place(finding.file, finding.line, code))
    runtime = finding.runtime
    if runtime is None:
        return SeenInSource(finding.cause, where, finding.says)
    return SeenInSource(finding.cause, where, finding.says, runtime.state, runtime.ms_per_step, runtime.run_ms)
