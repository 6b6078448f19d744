"""What ``slowtrain lint`` found as workflow commands: GitHub shows them beside the lines of a change.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from slowtrain.model.answers.linted_files import FileError, LintAnswer, LintFinding


def render(found: LintAnswer) -> str:
    return "".join([*map(_error, found.errors), *map(_warning, found.findings)])


def _warning(finding: LintFinding) -> str:
    said = finding.says if finding.cure is None else f"{finding.says}. To cure it, {finding.cure}."
    about = {"title": f"slowtrain {finding.cause}", "file": finding.file}
    if finding.cell is None:
        about |= {"line": str(finding.line), "endLine": str(finding.end_line)}
        if finding.line == finding.end_line:  # columns are taken on one line only
            about |= {"col": str(finding.column), "endColumn": str(finding.end_column)}
    return f"::warning {_properties(about)}::{_data(f'{finding.place}: {said}')}\n"


def _error(error: FileError) -> str:
    about = {"title": "slowtrain", "file": error.file}
    if error.line and error.cell is None:
        about["line"] = str(error.line)
    return f"::error {_properties(about)}::{_data(f'{error.place}: {error.says}')}\n"


def _properties(about: dict[str, str]) -> str:
    return ",".join(f"{key}={_data(value).replace(':', '%3A').replace(',', '%2C')}" for key, value in about.items())


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
