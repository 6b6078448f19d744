"""A file as a document: its text and syntax tree for the causes, and edits written back into the file's bytes."""

from __future__ import annotations

import io
import re
import sys
import tokenize
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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


class UnreadableFileError(Exception):
    """A file cannot be linted: ``says`` is the reason in a few words, ``line`` the line if known."""

    def __init__(self, says: str, line: int | None = None) -> None:
        super().__init__(says)
        self.says, self.line = says, line


class Document(ABC):
    """A file. Its ``source`` may be joined from parts of it, such as the cells of a notebook."""

    source: Source
    errors: Sequence[FileError] = ()

    @abstractmethod
    def place(self, line: int) -> tuple[int | None, int]:
        """Converts a line of the source to a cell (None if the file has no cells) and a line in it."""

    @abstractmethod
    def edited_bytes(self, wanted: Iterable[Edit]) -> bytes:
        """The file's bytes with edits of its source applied. Raises ``InputError`` if they cannot be applied."""

    @abstractmethod
    def diff(self, wanted: Iterable[Edit]) -> str:
        """A unified diff of the edits. Raises ``InputError`` if they cannot be applied."""


@dataclass(frozen=True)
class ScriptDocument(Document):
    """A Python file."""

    source: Source
    content: bytes

    def place(self, line: int) -> tuple[int | None, int]:
        return None, line

    def edited_bytes(self, wanted: Iterable[Edit]) -> bytes:
        return edits.apply_edits(self.content, wanted)

    def diff(self, wanted: Iterable[Edit]) -> str:
        new, _ = decode_script(self.edited_bytes(wanted))
        return edits.file_diff(self.source.file.lstrip("/"), self.source.text, new)


def script_document(file: str, content: bytes) -> ScriptDocument:
    """A Python file's bytes as a document. Raises ``UnreadableFileError`` if they cannot be decoded."""
    text, _ = decode_script(content)
    return ScriptDocument(Source(file, text), content)


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
