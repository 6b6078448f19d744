"""Notebooks: code cells joined to one text, and edits of that text written back into the JSON of their cells.

Only lines that differ are replaced in the ``source`` of a changed cell. All other bytes of the file stay.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from json.decoder import JSONDecoder, scanstring  # type: ignore[attr-defined]  # not in the stubs

from slowtrain.errors import InputError
from slowtrain.lint.inputs import documents
from slowtrain.model import Edit
from slowtrain.model.inspections import FileError
from slowtrain.script.text import edits, source_file
from slowtrain.script.text.source_file import Source

JSON_SPACE = re.compile(r"[ \t\n\r]*")
LINE_MAGIC = re.compile(r"^([ \t]*)(?:[%!?][^\n]*|[^\n#'\"]*\?{1,2}[ \t]*)$")
SHELL_ASSIGNMENT = re.compile(r"^([ \t]*[\w.,\[\]'\" ]+=[ \t]*)[!%][^=\n].*$")
# Cell magics whose body is Python run in the notebook.
PYTHON_CELL_MAGIC = re.compile(r"^\s*%%(?:time|timeit|capture|prun|script[ \t]+python3?)\b")
JSON_DECODER = JSONDecoder()


@dataclass(frozen=True)
class CodeCell:
    """A code cell: its ``number`` among all cells, its text, and the range of its source in the file's text.

    ``listed`` is true if the source is a JSON list of strings; ``strings`` are their ranges, or the one of a string.
    """

    number: int
    text: str
    start: int
    end: int
    strings: tuple[tuple[int, int], ...]
    listed: bool


@dataclass(frozen=True)
class Notebook(documents.Document):
    """A notebook. ``first`` holds for each cell the line of the joined source at which it begins."""

    source: Source
    content: bytes
    text: str
    cells: tuple[CodeCell, ...]
    first: tuple[int, ...]
    errors: tuple[FileError, ...] = ()

    def place(self, line: int) -> tuple[int | None, int]:
        at = self._cell_at(line)
        return self.cells[at].number, line - self.first[at] + 1

    def edited_bytes(self, wanted: Iterable[Edit]) -> bytes:
        parts, at = [], 0
        for cell, new in self._changed_cells(wanted):
            parts += [self.text[at : cell.start], _encode_source(self.text, cell, new)]
            at = cell.end
        parts.append(self.text[at:])
        bom = b"\xef\xbb\xbf" if self.content.startswith(b"\xef\xbb\xbf") else b""
        return bom + "".join(parts).encode()

    def diff(self, wanted: Iterable[Edit]) -> str:
        name = self.source.file.lstrip("/")
        return "".join(
            edits.file_diff(f"{name}:cell {cell.number}", cell.text, new) for cell, new in self._changed_cells(wanted)
        )

    def _cell_at(self, line: int) -> int:
        return max(n for n, first in enumerate(self.first) if first <= line or n == 0)

    def _changed_cells(self, wanted: Iterable[Edit]) -> Iterator[tuple[CodeCell, str]]:
        """The cells that the edits change, in order, with their new texts. Raises ``InputError``."""
        by_cell: dict[int, list[Edit]] = {}
        for edit in wanted:
            at, last = self._cell_at(edit.start[0]), self._cell_at(edit.end[0])
            shift = self.first[at] - 1
            if at != last or _lines_differ(self.cells[at].text, edit.start[0] - shift, edit.end[0] - shift):
                raise InputError(f"{self.source.file}: an edit would cross a magic or the end of a cell")
            start, end = (edit.start[0] - shift, edit.start[1]), (edit.end[0] - shift, edit.end[1])
            by_cell.setdefault(at, []).append(replace(edit, start=start, end=end))
        for at, several in sorted(by_cell.items()):
            yield self.cells[at], documents.apply_to_text(self.cells[at].text, several)


def notebook_document(file: str, content: bytes) -> Notebook:
    """A notebook's bytes as a document. Raises ``Unreadable`` if they are not a notebook."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise documents.UnreadableFileError(f"cannot be decoded: not utf-8 at byte {error.start}") from error
    try:
        cells, language = _CellReader(text).read()
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise documents.UnreadableFileError(f"not a notebook: {error}") from error
    cells = cells if language in ("", "python", "python3", "ipython") else []
    errors: list[FileError] = []
    parts, first, line = [], [], 1
    for cell in cells:
        plain = python_text(cell.text)
        if plain is None:
            errors.append(_cell_error(file, cell))
            plain = "\n" * cell.text.count("\n")
        first.append(line)
        parts.append(plain + "\n")
        line += plain.count("\n") + 1
    joined = "".join(parts)
    try:
        source_file.parse_tree(joined)
    except SyntaxError as error:  # each cell parses alone, but not all together: a __future__ import in a later cell
        raise documents.UnreadableFileError(documents.syntax_message(error, joined)) from error
    return Notebook(Source(file, joined), content, text, tuple(cells), tuple(first or [1]), tuple(errors))


def python_text(text: str) -> str | None:
    """A cell as Python, line by line: magics and shell commands become ``pass``. None if it still is not Python."""
    if documents.is_python(text):
        return text
    lines = text.split("\n")
    if text.lstrip().startswith("%%"):
        if not PYTHON_CELL_MAGIC.match(text):
            return "\n" * text.count("\n")
        at = next(n for n, one in enumerate(lines) if one.strip())
        lines[at] = ""
    going = False
    for n, one in enumerate(lines):
        shell = SHELL_ASSIGNMENT.match(one)
        magic = LINE_MAGIC.match(one)
        if going:
            lines[n], going = "", one.rstrip().endswith("\\")
        elif shell or magic:
            lines[n] = f"{shell[1]}None" if shell else f"{magic[1]}pass" if magic else one
            going = one.rstrip().endswith("\\")
    plain = "\n".join(lines)
    return plain if documents.is_python(plain) else None


def _lines_differ(text: str, first: int, last: int) -> bool:
    """Whether lines of a cell differ between its text and the Python made of it."""
    plain, own = (python_text(text) or "").split("\n"), text.split("\n")
    return plain[first - 1 : last] != own[first - 1 : last]


def _cell_error(file: str, cell: CodeCell) -> FileError:
    try:
        source_file.parse_tree(cell.text)
    except SyntaxError as error:
        return FileError(file, documents.syntax_message(error, cell.text), error.lineno, cell.number)
    return FileError(file, "is not Python", None, cell.number)


def _encode_source(text: str, cell: CodeCell, new: str) -> str:
    """The JSON of a cell's source with its new text. Unchanged lines keep their bytes."""
    ascii_only = text[cell.start : cell.end].isascii()

    def encode_line(line: str) -> str:
        return json.dumps(line, ensure_ascii=ascii_only)

    if not cell.listed:
        return encode_line(new)
    raw = [text[a:b] for a, b in cell.strings]
    old = [json.loads(one) for one in raw]
    lines = re.findall(r"[^\n]*\n|[^\n]+$", new)
    done: list[str] = []
    for _, a, b, c, d in difflib.SequenceMatcher(None, old, lines, autojunk=False).get_opcodes():
        done += raw[a:b] if old[a:b] == lines[c:d] else map(encode_line, lines[c:d])
    if not raw:
        return f"[{', '.join(done)}]"
    head, tail = text[cell.start : cell.strings[0][0]], text[cell.strings[-1][1] : cell.end]
    between = text[cell.strings[0][1] : cell.strings[1][0]] if len(raw) > 1 else f",{head[1:]}" if head[1:] else ", "
    return head + between.join(done) + tail


class _CellReader:
    """Reads the JSON text and keeps the positions of the cells' sources, which ``json.loads`` does not give."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.number = 0

    def read(self) -> tuple[list[CodeCell], str]:
        """The code cells, and the language named in the notebook's metadata."""
        cells: list[CodeCell] = []
        language = ""
        for key, at in self._object_items(self._skip_space(0)):
            if key == "cells":
                self.at = at
                cells = list(self._code_cells(at))
            elif key == "metadata":
                about, self.at = JSON_DECODER.raw_decode(self.text, at)
                language = str((about.get("language_info") or {}).get("name") or "").lower()
            else:
                self._read_value(at)
        return cells, language

    def _code_cells(self, at: int) -> Iterator[CodeCell]:
        for each in self._array_items(at):
            self.number += 1
            kind, found = "", None
            for key, value in self._object_items(each):
                if key == "source":
                    found = self._read_source(value)
                else:
                    other = self._read_value(value)
                    kind = str(other) if key == "cell_type" else kind
            if kind == "code" and found is not None:
                yield found

    def _read_source(self, at: int) -> CodeCell:
        if self.text[at] == '"':
            value, end = scanstring(self.text, at + 1, True)
            self.at = end
            return CodeCell(self.number, value, at, end, ((at, end),), False)
        strings, parts = [], []
        for each in self._array_items(at):
            if self.text[each] != '"':
                raise ValueError(f"cell {self.number}: its source is not a string")
            value, end = scanstring(self.text, each + 1, True)
            self.at = end
            strings.append((each, end))
            parts.append(value)
        return CodeCell(self.number, "".join(parts), at, self.at, tuple(strings), True)

    def _read_value(self, at: int) -> object:
        value, self.at = JSON_DECODER.raw_decode(self.text, at)
        return value

    def _object_items(self, at: int) -> Iterator[tuple[str, int]]:
        """Keys with the positions of their values. The caller reads each value, which moves ``self.at`` behind it."""
        self._expect_text(at, "{")
        at = self._skip_space(at + 1)
        while self.text[at] != "}":
            self._expect_text(at, '"')
            key, at = scanstring(self.text, at + 1, True)
            at = self._skip_space(at)
            self._expect_text(at, ":")
            yield key, self._skip_space(at + 1)
            at = self._next_item(self._skip_space(self.at), "}")
        self.at = at + 1

    def _array_items(self, at: int) -> Iterator[int]:
        self._expect_text(at, "[")
        at = self._skip_space(at + 1)
        while self.text[at] != "]":
            yield at
            at = self._next_item(self._skip_space(self.at), "]")
        self.at = at + 1

    def _next_item(self, at: int, closing: str) -> int:
        if self.text[at] == closing:
            return at
        self._expect_text(at, ",")
        return self._skip_space(at + 1)

    def _expect_text(self, at: int, wanted: str) -> None:
        if self.text[at : at + 1] != wanted:
            raise ValueError(f"not JSON at character {at}")

    def _skip_space(self, at: int) -> int:
        match = JSON_SPACE.match(self.text, at)
        return match.end() if match else at
