"""Findings of ``slowtrain lint`` as workflow commands, which GitHub shows beside the lines of a change.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from slowtrain.model.answers.linted_files import FileError, LintAnswer, LintFinding


def github_commands(found: LintAnswer) -> str:
    return "".join([*map(_error_command, found.errors), *map(_warning_command, found.findings)])


def _warning_command(finding: LintFinding) -> str:
    words = finding.says if finding.cure is None else f"{finding.says}. To cure it, {finding.cure}."
    about = {"title": f"slowtrain {finding.cause}", "file": finding.file}
    if finding.cell is None:
        about |= {"line": str(finding.line), "endLine": str(finding.end_line)}
        if finding.line == finding.end_line:  # columns are taken on one line only
            about |= {"col": str(finding.column), "endColumn": str(finding.end_column)}
    return f"::warning {_command_properties(about)}::{_escape_data(f'{finding.place}: {words}')}\n"


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
