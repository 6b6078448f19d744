"""What ``slowtrain lint`` finds in the files of a script, beside what the run says about it."""

from __future__ import annotations

from collections.abc import Callable

from slowtrain.errors import SlowtrainError
from slowtrain.lint import joining, looking, settings
from slowtrain.lint.documents import Unreadable
from slowtrain.lint.settings import Settings
from slowtrain.model import Checkup, Place, SeenInSource
from slowtrain.model.answers.linted_files import UNUSED_IGNORE, LintFinding
from slowtrain.trace import Trace


def source_findings(trace: Trace, checkup: Checkup, place: Callable[[Place], Place]) -> tuple[SeenInSource, ...]:
    """The findings in the script and in its own modules, the most expensive first; empty for a profile."""
    files = joining.texts(trace)
    if not files:
        return ()
    chosen = _lint_settings(list(files))
    findings: list[LintFinding] = []
    for file, text in files.items():
        try:
            findings += looking.seen(file, text.encode("utf-8", "surrogateescape"), chosen).findings
        except (Unreadable, UnicodeError):
            continue  # it ran, so it is Python; a truncated or odd file is not worth a line of the report
    told = joining.joined([f for f in findings if f.cause != UNUSED_IGNORE], checkup, trace)
    return tuple(_as_seen_in_source(f, place) for f in told)


def _lint_settings(files: list[str]) -> Settings:
    """The project's settings; ``slowtrain lint`` reports mistakes in them."""
    try:
        return settings.load(files)
    except SlowtrainError:
        return Settings(frozenset(settings.known()))


def _as_seen_in_source(finding: LintFinding, place: Callable[[Place], Place]) -> SeenInSource:
    code = finding.code[0].strip() if finding.code else ""
    where = place(Place(finding.file, finding.line, code))
    runtime = finding.runtime
    if runtime is None:
        return SeenInSource(finding.cause, where, finding.says)
    return SeenInSource(finding.cause, where, finding.says, runtime.state, runtime.ms_per_step, runtime.run_ms)
