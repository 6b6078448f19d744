"""A file as a document: its text for the causes, and edits of that text written back into the file's bytes.

A notebook's code cells are joined to one text. Only lines that differ are replaced in the ``source`` of a changed cell.
All other bytes of the file stay.
"""

from __future__ import annotations

import difflib
import functools
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from json.decoder import JSONDecoder, scanstring  # type: ignore[attr-defined]  # not in the stubs
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.errors import InputError
from slowtrain.model import Edit
from slowtrain.model.inspections import FileError
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source, parse_tree

PYTHON_2_SYNTAX = re.compile(
    r"^[ \t]*(?:print[ \t]+[^\s=(.,\[]|print[ \t]*>>|exec[ \t]+['\"]|raise[ \t]+\w+[ \t]*,"
    r"|except[ \t]+[\w.]+[ \t]*,[ \t]*[a-z_]\w*:)",
    re.MULTILINE,
)

# ``pip install x`` is a magic without its ``%``.
LINE_MAGIC = r"^([ \t]*)(?:[%!?][^\n]*|pip3?[ \t]+(?:un)?install\b[^\n]*|[^\n#'\"]*\?{1,2}[ \t]*)$"
SHELL_ASSIGNMENT = r"^([ \t]*[\w.,\[\]'\" ]+=[ \t]*)[!%][^=\n].*$"
# Cell magics whose body is Python run in the notebook.
PYTHON_CELL_MAGIC = r"^\s*%%(?:time|timeit|capture|prun|script[ \t]+python3?)\b"


class UnreadableFileError(Exception):
    """A file cannot be linted: ``says`` is the reason in a few words, ``line`` the line if known."""

    def __init__(self, says: str, line: int | None = None) -> None:
        super().__init__(says)
        self.says, self.line = says, line


class ScriptDocument(Struct, frozen=True):
    """A Python file."""

    source: Source
    content: bytes
    errors: tuple[FileError, ...] = ()

    def place(self, line: int) -> tuple[int | None, int]:
        """Converts a line of the source to a cell (None: the file has no cells) and a line in it."""
        return None, line

    def edited_bytes(self, wanted: Iterable[Edit]) -> bytes:
        """The file's bytes with edits of its source applied. Raises ``InputError`` if they cannot be applied."""
        return edits.apply_edits(self.content, wanted)

    def diff(self, wanted: Iterable[Edit]) -> str:
        """A unified diff of the edits. Raises ``InputError`` if they cannot be applied."""
        new, _ = decode_script(self.edited_bytes(wanted))
        return edits.file_diff(self.source.file.lstrip("/"), self.source.text, new)


class CodeCell(Struct, frozen=True):
    """A code cell: its ``number`` among all cells, its text, and the range of its source in the file's text.

    ``listed`` is true if the source is a JSON list of strings; ``strings`` are their ranges, or the one of a string.
    """

    number: int
    text: str
    start: int
    end: int
    strings: tuple[tuple[int, int], ...]
    listed: bool


class Notebook(Struct, frozen=True):
    """A notebook, with the methods of a script. ``first``: the line of the joined source at which each cell begins."""

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
            yield self.cells[at], apply_to_text(self.cells[at].text, several)


Document = ScriptDocument | Notebook


def is_notebook(file: str) -> bool:
    return file.endswith(".ipynb")


def open_document(file: str, content: bytes) -> Document:
    """A file's bytes as a document. Raises ``UnreadableFileError`` if they cannot be decoded or are no notebook."""
    if is_notebook(file):
        return _notebook_document(file, content)
    return ScriptDocument(Source(file, decode_script(content)[0]), content)


def decode_script(content: bytes) -> tuple[str, str]:
    """A Python file's text, with its line ends kept, and its encoding. Raises ``UnreadableFileError``."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return content.decode(encoding), encoding
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        if isinstance(error, UnicodeDecodeError):
            says = f"cannot be decoded: not {error.encoding} at byte {error.start}"
            raise UnreadableFileError(says, content.count(b"\n", 0, error.start) + 1) from error
        raise UnreadableFileError(f"cannot be decoded: {error}") from error


def syntax_message(error: SyntaxError, text: str) -> str:
    """One line about a syntax error. Says so if the file is Python 2, because Python 3's message does not."""
    old = "Missing parentheses in call to" in (error.msg or "") or PYTHON_2_SYNTAX.search(text)
    if old:
        return f"Python 2, not Python 3: {error.msg}"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"syntax error: {error.msg} (Python {version})"


def is_python(text: str) -> bool:
    try:
        parse_tree(text)
    except (SyntaxError, UnicodeError):
        return False
    return True


def split_lines(text: str) -> list[str]:
    """The lines as ``ast`` counts them, without line ends."""
    return re.split(r"\r\n|\r|\n", text)


def character_column(row: str, column: int) -> int:
    """Converts a column in bytes, as ``ast`` gives it, to a column in characters."""
    return column if row.isascii() else len(row.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))


def apply_to_text(text: str, wanted: Iterable[Edit]) -> str:
    """A text with edits applied. Raises ``InputError`` if they cannot be applied."""
    try:
        return edits.apply_edits(text.encode(), wanted).decode()
    except UnicodeError as error:
        raise InputError(f"the text is not valid Unicode ({error})") from error


def _notebook_document(file: str, content: bytes) -> Notebook:
    """A notebook's bytes as a document. Raises ``UnreadableFileError`` if they are not a notebook."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"cannot be decoded: not utf-8 at byte {error.start}") from error
    try:
        cells, language = _read_cells(text)
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise UnreadableFileError(f"not a notebook: {error}") from error
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
        parse_tree(joined)
    except SyntaxError as error:  # each cell parses alone, but not all together: a __future__ import in a later cell
        raise UnreadableFileError(syntax_message(error, joined)) from error
    return Notebook(Source(file, joined), content, text, tuple(cells), tuple(first or [1]), tuple(errors))


def python_text(text: str) -> str | None:
    """A cell as Python, line by line: magics and shell commands become ``pass``. None if it still is not Python."""
    if is_python(text):
        return text
    lines = text.split("\n")
    if text.lstrip().startswith("%%"):
        if not re.match(PYTHON_CELL_MAGIC, text):
            return "\n" * text.count("\n")
        at = next(n for n, one in enumerate(lines) if one.strip())
        lines[at] = ""
    going = False
    for n, one in enumerate(lines):
        shell = re.match(SHELL_ASSIGNMENT, one)
        magic = re.match(LINE_MAGIC, one)
        if going:
            lines[n], going = "", one.rstrip().endswith("\\")
        elif shell or magic:
            lines[n] = f"{shell[1]}None" if shell else f"{magic[1]}pass" if magic else one
            going = one.rstrip().endswith("\\")
    plain = "\n".join(lines)
    return plain if is_python(plain) else None


def _lines_differ(text: str, first: int, last: int) -> bool:
    """Whether lines of a cell differ between its text and the Python made of it."""
    plain, own = (python_text(text) or "").split("\n"), text.split("\n")
    return plain[first - 1 : last] != own[first - 1 : last]


def _cell_error(file: str, cell: CodeCell) -> FileError:
    try:
        parse_tree(cell.text)
    except SyntaxError as error:
        return FileError(file, syntax_message(error, cell.text), error.lineno, cell.number)
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
    head, tail = text[cell.start : cell.strings[0][0]], text[cell.strings[-1][1] : cell.end]
    between = text[cell.strings[0][1] : cell.strings[1][0]] if len(raw) > 1 else f",{head[1:]}" if head[1:] else ", "
    return head + between.join(done) + tail


class _LocatedText(str):
    """A string of a JSON text, which begins and ends at these positions with its quotation marks."""

    __slots__ = ("end", "start")
    start: int
    end: int


@functools.cache
def _locating_decoder() -> JSONDecoder:
    """A decoder whose strings know where they stand, which ``json.loads`` does not tell."""

    def parse_string(text: str, at: int, strict: bool = True) -> tuple[_LocatedText, int]:
        value, end = scanstring(text, at, strict)
        found = _LocatedText(value)
        found.start, found.end = at - 1, end
        return found, end

    decoder: Any = JSONDecoder()
    decoder.parse_string = parse_string
    decoder.scan_once = py_make_scanner(decoder)
    return decoder  # type: ignore[no-any-return]


def _read_cells(text: str) -> tuple[list[CodeCell], str]:
    """The code cells that are not empty, and the language in the notebook's metadata. Raises ``ValueError``."""
    notebook = _locating_decoder().decode(text)
    match notebook:
        case {"cells": list(cells)}:
            found = [_read_cell(text, number, cell) for number, cell in enumerate(cells, 1)]
        case {"cells": _} | list() | str():
            raise ValueError("it has no list of cells")
        case _:
            found = []
    match notebook:
        case {"metadata": {"language_info": {"name": str(language)}}}:
            return [cell for cell in found if cell is not None], language.lower()
    return [cell for cell in found if cell is not None], ""


def _read_cell(text: str, number: int, cell: Any) -> CodeCell | None:
    """A cell; None if it is empty or not code."""
    match cell:
        case {"source": _LocatedText() as source}:
            strings, start, end = [source], source.start, source.end
        case {"source": list(strings)} if all(isinstance(one, str) for one in strings):
            start = text.rindex("[", 0, strings[0].start) if strings else 0
            end = text.index("]", strings[-1].end) + 1 if strings else 0
        case {"source": _} | int() | float() | str() | list() | None:
            raise ValueError(f"cell {number}: its source is not a string")
        case _:
            return None
    ranges = tuple((one.start, one.end) for one in strings)
    whole = CodeCell(number, "".join(strings), start, end, ranges, not isinstance(cell["source"], str))
    return whole if whole.text and cell.get("cell_type") == "code" else None
