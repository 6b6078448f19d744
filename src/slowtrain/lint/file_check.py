"""Checks one file: reads it, skips it if no cause can occur, parses it, and asks each cause whose words occur in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from slowtrain.errors import InputError
from slowtrain.lint import cause_selection, documents, hidden_findings, lint_settings, training_extent
from slowtrain.lint.documents import Document, UnreadableFileError, is_notebook, open_document
from slowtrain.lint.lint_settings import LintSettings
from slowtrain.model import Spot
from slowtrain.model.inspections import FileError, LintFinding
from slowtrain.script.text import edits, source_file
from slowtrain.shared.vocabulary import UNUSED_IGNORE

if TYPE_CHECKING:
    from slowtrain.causes import Cause

MAX_SCRIPT_BYTES = 5_000_000  # a larger Python file holds data or was generated
MAX_NOTEBOOK_BYTES = 50_000_000  # a notebook holds its images
MAX_EXCERPT_LINES = 8
TITLE_BY_ID = {UNUSED_IGNORE: "an ignore comment has no effect"}


class FileResult(Struct, frozen=True):
    """The findings in one file; ``minor_count`` of them were left out. ``parsed``: a cause needed its syntax tree."""

    findings: tuple[LintFinding, ...] = ()
    minor_count: int = 0
    errors: tuple[FileError, ...] = ()
    parsed: bool = False


def check_file(file: str, chosen: LintSettings, *, whole: bool = False) -> FileResult:
    """Checks ``file``. Never raises: failures are returned in ``errors``, so that the other files are still checked.

    With ``whole`` the file is parsed even if no cause can occur in it, so that a syntax error is reported.
    """
    try:
        return check_content(file, read_content(file), chosen, whole=whole)
    except UnreadableFileError as why:
        return FileResult(errors=(FileError(file, why.says, why.line),))


def read_content(file: str) -> bytes:
    """A file's bytes. Raises ``Unreadable`` if it cannot be read or is too large."""
    try:
        info = os.stat(file)
        if not stat.S_ISREG(info.st_mode):
            raise UnreadableFileError("is not a regular file")
        most = MAX_NOTEBOOK_BYTES if is_notebook(file) else MAX_SCRIPT_BYTES
        if info.st_size > most:
            raise UnreadableFileError(f"is larger than {most / 1e6:.0f} MB")
        with open(file, "rb") as opened:
            return opened.read()
    except OSError as error:
        raise UnreadableFileError(f"cannot be read ({error.strerror})") from error


def check_content(file: str, data: bytes, chosen: LintSettings, *, whole: bool = False) -> FileResult:
    """Checks a file with these bytes. Raises ``Unreadable`` if it is binary or not Python."""
    active = chosen.active_for(file)
    if b"\0" in data[:8192]:
        raise UnreadableFileError("is binary, not text")
    marked = hidden_findings.IGNORE_MARK in data
    shown = cause_selection.unescape_line_ends(data) if is_notebook(file) else cause_selection.strip_documentation(data)
    asked = cause_selection.possible_causes(shown, active) if cause_selection.imports_framework(shown) else []
    if not asked and not marked and not whole:
        return FileResult()
    try:
        document = open_document(file, data)
        try:
            if whole:
                _ = document.source.tree
            return _document_result(document, asked, active, minor=chosen.minor)
        except SyntaxError as error:
            says = documents.syntax_message(error, document.source.text)
            raise UnreadableFileError(says, error.lineno) from error
    finally:
        source_file.clear_caches()  # results cached for one file do not apply to the next


def _document_result(
    document: Document, asked: Iterable[Cause[Any]], active: Collection[str], *, minor: bool
) -> FileResult:
    file = document.source.file
    errors = list(document.errors)
    ignores = hidden_findings.read_comments(document.source.text)
    if ignores:
        _ = document.source.tree  # raises SyntaxError: comments count only in a file that is Python
    rows: list[str] | None = None
    findings: list[LintFinding] = []
    titles = dict(TITLE_BY_ID)
    spots: list[tuple[str, Spot]] = []
    for cause in asked:
        titles[cause.id] = cause.title
        try:
            spots += [
                (cause.id, training_extent.judge_worth(document.source, cause, spot))
                for spot in dict.fromkeys(cause.spot(document.source))
            ]
        except RecursionError:
            errors.append(FileError(file, f"is nested too deeply to look for {cause.id}"))
        except SyntaxError:  # in the file, which this cause was the first to parse
            raise
        except Exception as error:  # noqa: BLE001  a bug in one cause must not hide the findings of the others
            errors.append(FileError(file, f"{cause.id} failed ({type(error).__name__}: {error}); please report"))
    spots = [(c, s) for c, s in spots if not _is_ignored(ignores, c, s)]
    shown = [(c, s) for c, s in spots if minor or not s.minor]
    hidden_count = len(spots) - len(shown)
    if UNUSED_IGNORE in active:
        shown += [
            (UNUSED_IGNORE, s)
            for s in hidden_findings.unused_comments(file, ignores, active, len(lint_settings.known_ids()))
        ]
    for cause_id, spot in shown:
        rows = documents.split_lines(document.source.text) if rows is None else rows
        findings.append(_build_finding(document, rows, cause_id, titles[cause_id], spot))
    findings.sort(key=lambda f: (f.cell or 0, f.line, f.column, f.cause))
    return FileResult(tuple(findings), hidden_count, tuple(errors), document.source.is_parsed)


def _is_ignored(ignores: Iterable[hidden_findings.IgnoreComment], cause: str, spot: Spot) -> bool:
    """Whether a comment covers the finding. All comments are asked, because each records whether it was used."""
    return bool([one for one in ignores if one.covers_finding(cause, spot.start[0], spot.end[0])])


def _build_finding(document: Document, rows: list[str], cause: str, title: str, spot: Spot) -> LintFinding:
    cell, line = document.place(spot.start[0])
    _, end_line = document.place(spot.end[0])
    cure = spot.prescription
    diff = valid_diff(document, spot) if cure is not None and cure.edits else None
    last = min(spot.end[0], spot.start[0] + MAX_EXCERPT_LINES - 1)
    return LintFinding(
        cause=cause,
        title=title,
        file=document.source.file,
        line=line,
        column=documents.character_column(rows[spot.start[0] - 1], spot.start[1]) + 1,
        end_line=end_line,
        end_column=documents.character_column(rows[spot.end[0] - 1], spot.end[1]) + 1,
        says=spot.says,
        code=tuple(rows[spot.start[0] - 1 : last]),
        cell=cell,
        effect=cure.effect if cure is not None else None,
        cure=cure.says if cure is not None else None,
        diff=diff,
        edits=cure.edits if cure is not None and diff else (),
        minor=spot.minor,
        worth_if=spot.worth_if,
    )


def valid_diff(document: Document, spot: Spot) -> str | None:
    """The diff of a spot's edits. None if they change nothing, lose a comment, or make a file that does not parse."""
    wanted = spot.prescription.edits if spot.prescription is not None else ()
    try:
        text = documents.apply_to_text(document.source.text, wanted)
        if not documents.is_python(text) or not edits.keeps_comments(document.source, wanted, text):
            return None
        return document.diff(wanted) or None
    except (InputError, UnreadableFileError):
        return None
