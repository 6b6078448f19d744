"""Checks one file: reads it, skips it if no cause can occur, parses it, and asks each cause whose words occur in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from slowtrain.errors import InputError
from slowtrain.lint import catalogue, documents, ignoring, notebooks, settings
from slowtrain.lint.documents import Document, Unreadable
from slowtrain.lint.settings import Settings
from slowtrain.model import Spot
from slowtrain.model.answers.linted_files import UNUSED_IGNORE, FileError, LintFinding
from slowtrain.script.text import edits, source_file
from slowtrain.values import dataclass

if TYPE_CHECKING:
    from slowtrain.causes import Cause

MOST_BYTES = 5_000_000  # a larger Python file holds data or was generated
MOST_NOTEBOOK_BYTES = 50_000_000  # a notebook holds its images
EXCERPT_LINES = 8
TITLES = {UNUSED_IGNORE: "an ignore comment has no effect"}


@dataclass(frozen=True)
class Looked:
    """The findings in one file. ``parsed`` is true if a cause needed its syntax tree."""

    findings: tuple[LintFinding, ...] = ()
    errors: tuple[FileError, ...] = ()
    parsed: bool = False


def look(file: str, chosen: Settings, *, whole: bool = False) -> Looked:
    """Checks ``file``. Never raises: failures are returned in ``errors``, so that the other files are still checked.

    With ``whole`` the file is parsed even if no cause can occur in it, so that a syntax error is reported.
    """
    try:
        return seen(file, content(file), chosen, whole=whole)
    except Unreadable as why:
        return Looked(errors=(FileError(file, why.says, why.line),))


def content(file: str) -> bytes:
    """A file's bytes. Raises ``Unreadable`` if it cannot be read or is too large."""
    try:
        info = os.stat(file)
        if not stat.S_ISREG(info.st_mode):
            raise Unreadable("is not a regular file")
        most = MOST_NOTEBOOK_BYTES if is_notebook(file) else MOST_BYTES
        if info.st_size > most:
            raise Unreadable(f"is larger than {most / 1e6:.0f} MB")
        with open(file, "rb") as opened:
            return opened.read()
    except OSError as error:
        raise Unreadable(f"cannot be read ({error.strerror})") from error


def seen(file: str, data: bytes, chosen: Settings, *, whole: bool = False) -> Looked:
    """Checks a file with these bytes. Raises ``Unreadable`` if it is binary or not Python."""
    active = chosen.active_for(file)
    if b"\0" in data[:8192]:
        raise Unreadable("is binary, not text")
    marked = ignoring.MARK in data
    shown = catalogue.lines_of_notebook(data) if is_notebook(file) else catalogue.code_of_script(data)
    asked = catalogue.could_have(shown, active) if catalogue.imports_framework(shown) else []
    if not asked and not marked and not whole:
        return Looked()
    try:
        document = opened(file, data)
        try:
            if whole:
                _ = document.source.tree
            return _found(document, asked, active)
        except SyntaxError as error:
            says = documents.complaint(error, document.source.text)
            raise Unreadable(says, error.lineno) from error
    finally:
        source_file.clear_caches()  # results cached for one file do not apply to the next


def opened(file: str, data: bytes) -> Document:
    """A file's bytes as a document. Raises ``Unreadable`` if they cannot be decoded."""
    return notebooks.notebook(file, data) if is_notebook(file) else documents.script(file, data)


def is_notebook(file: str) -> bool:
    return file.endswith(".ipynb")


def _found(document: Document, asked: Iterable[Cause], active: Collection[str]) -> Looked:
    file = document.source.file
    errors = list(document.errors)
    ignores = ignoring.read(document.source.text)
    if ignores:
        _ = document.source.tree  # raises SyntaxError: comments count only in a file that is Python
    rows: list[str] | None = None
    findings: list[LintFinding] = []
    titles = dict(TITLES)
    spots: list[tuple[str, Spot]] = []
    for cause in asked:
        titles[cause.id] = cause.title
        try:
            spots += [(cause.id, spot) for spot in dict.fromkeys(cause.spot(document.source))]
        except RecursionError:
            errors.append(FileError(file, f"is nested too deeply to look for {cause.id}"))
        except SyntaxError:  # in the file, which this cause was the first to parse
            raise
        except Exception as error:  # noqa: BLE001  a bug in one cause must not hide the findings of the others
            errors.append(FileError(file, f"{cause.id} failed ({type(error).__name__}: {error}); please report"))
    kept = [(c, s) for c, s in spots if not _ignored(ignores, c, s)]
    if UNUSED_IGNORE in active:
        kept += [(UNUSED_IGNORE, s) for s in ignoring.unused(file, ignores, active, len(settings.known()))]
    for cause_id, spot in kept:
        rows = documents.rows(document.source.text) if rows is None else rows
        findings.append(_finding(document, rows, cause_id, titles[cause_id], spot))
    findings.sort(key=lambda f: (f.cell or 0, f.line, f.column, f.cause))
    return Looked(tuple(findings), tuple(errors), document.source.parsed)


def _ignored(ignores: Iterable[ignoring.Ignore], cause: str, spot: Spot) -> bool:
    """Whether a comment covers the finding. All comments are asked, because each records whether it was used."""
    return bool([one for one in ignores if one.covers(cause, spot.start[0], spot.end[0])])


def _finding(document: Document, rows: list[str], cause: str, title: str, spot: Spot) -> LintFinding:
    cell, line = document.place(spot.start[0])
    _, end_line = document.place(spot.end[0])
    cure = spot.prescription
    diff = checked(document, spot) if cure is not None and cure.edits else None
    last = min(spot.end[0], spot.start[0] + EXCERPT_LINES - 1)
    return LintFinding(
        cause=cause,
        title=title,
        file=document.source.file,
        line=line,
        column=documents.characters(rows[spot.start[0] - 1], spot.start[1]) + 1,
        end_line=end_line,
        end_column=documents.characters(rows[spot.end[0] - 1], spot.end[1]) + 1,
        says=spot.says,
        code=tuple(rows[spot.start[0] - 1 : last]),
        cell=cell,
        effect=cure.effect if cure is not None else None,
        cure=cure.says if cure is not None else None,
        diff=diff,
        edits=cure.edits if cure is not None and diff else (),
    )


def checked(document: Document, spot: Spot) -> str | None:
    """The diff of a spot's edits. None if they change nothing, lose a comment, or make a file that does not parse."""
    wanted = spot.prescription.edits if spot.prescription is not None else ()
    try:
        text = documents.applied(document.source.text, wanted)
        if not documents.parses(text) or not edits.keeps_comments(document.source, wanted, text):
            return None
        return document.diff(wanted) or None
    except (InputError, Unreadable):
        return None
