"""Applies edits to a file until another pass finds nothing more to fix."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from slowtrain.errors import InputError
from slowtrain.lint import documents, file_check
from slowtrain.lint.documents import Document, UnreadableFileError
from slowtrain.lint.file_check import FileResult
from slowtrain.lint.lint_settings import LintSettings
from slowtrain.model import Edit, Effect
from slowtrain.model.inspections import FileError, LintFinding, RewrittenFile
from slowtrain.script.text import edits

MAX_FIX_PASSES = 50  # each pass fixes at least one finding; edits that need more passes undo each other


def fix_file(file: str, chosen: LintSettings, effects: Collection[Effect]) -> tuple[FileResult, RewrittenFile | None]:
    """The findings left after the fixes, and the rewritten file, None if nothing changes. Writes nothing."""
    try:
        before = data = file_check.read_content(file)
        looked = file_check.check_content(file, data, chosen)
        seen, fixed, settled = {data}, 0, False
        for _ in range(MAX_FIX_PASSES):
            wanted = [f for f in looked.findings if f.edits and f.effect in effects]
            new, done = _apply_compatible(documents.open_document(file, data), data, wanted) if wanted else (data, 0)
            if not done or new in seen:
                settled = new == data
                break
            seen.add(new)
            data, fixed = new, fixed + done
            looked = file_check.check_content(file, data, chosen)
        if not settled:
            error = FileError(file, "its fixes undo each other or never end; nothing was changed, please report")
            first = file_check.check_content(file, before, chosen)
            return replace(first, errors=(*first.errors, error)), None
    except UnreadableFileError as why:
        return FileResult(errors=(FileError(file, why.says, why.line),)), None
    return looked, RewrittenFile(file, before, data, _file_diff(file, before, data), fixed) if data != before else None


def write_fixes(changed: Sequence[RewrittenFile]) -> list[FileError]:
    """Writes each file completely or not at all; returns an error for each file that could not be written."""
    errors = []
    for one in changed:
        path = os.path.realpath(one.file)  # a link stays a link
        part = f"{path}.{os.getpid()}.part"
        try:
            with open(path, "rb") as now:
                if now.read() != one.before:
                    raise OSError(0, "it was changed in the meantime")
            if not os.access(path, os.W_OK):
                raise OSError(0, "it is read-only")
            with open(part, "xb") as new:
                new.write(one.after)
            os.chmod(part, os.stat(path).st_mode & 0o7777)
            os.replace(part, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(part)
            errors.append(FileError(one.file, f"cannot be written ({error.strerror})"))
    return errors


def _apply_compatible(document: Document, data: bytes, wanted: Sequence[LintFinding]) -> tuple[bytes, int]:
    """Applies the edits of as many findings as do not overlap; returns the new bytes and the number of findings."""
    chosen: list[LintFinding] = []
    for finding in wanted:
        if not any(_edits_overlap(a, b) for other in chosen for a in other.edits for b in finding.edits):
            chosen.append(finding)
    together = _apply_edits(document, [e for f in chosen for e in f.edits])
    if together is not None:
        return together, len(chosen)
    for finding in chosen:  # each alone was checked to parse
        alone = _apply_edits(document, finding.edits)
        if alone is not None:
            return alone, 1
    return data, 0


def _apply_edits(document: Document, wanted: Sequence[Edit]) -> bytes | None:
    try:
        if documents.is_python(documents.apply_to_text(document.source.text, wanted)):
            return document.edited_bytes(wanted)
    except InputError:
        pass
    return None


def _edits_overlap(one: Edit, other: Edit) -> bool:
    """Whether two edits overlap or insert at the same place."""
    return one.start == other.start or (one.start < other.end and other.start < one.end)


def _file_diff(file: str, before: bytes, after: bytes) -> str:
    if documents.is_notebook(file):
        old, new = before.decode("utf-8-sig"), after.decode("utf-8-sig")
    else:
        old, new = documents.decode_script(before)[0], documents.decode_script(after)[0]
    return edits.file_diff(file.lstrip("/"), old, new)
