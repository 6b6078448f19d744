"""A file as what causes look at: its text and tree, and the way back from places in it to the file's own bytes."""

from __future__ import annotations

import io
import re
import sys
import tokenize
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from slowtrain.errors import InputError
from slowtrain.model import Edit
from slowtrain.model.answers.linted_files import FileError
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source, parse_tree
from slowtrain.values import dataclass

PYTHON_2 = re.compile(
    r"^[ \t]*(?:print[ \t]+[^\s=(.,\[]|print[ \t]*>>|exec[ \t]+['\"]|raise[ \t]+\w+[ \t]*,"
    r"|except[ \t]+[\w.]+[ \t]*,[ \t]*[a-z_]\w*:)",
    re.MULTILINE,
)


class Unreadable(Exception):
    """Why a file cannot be looked at, in a few words; ``line`` where that is known."""

    def __init__(self, says: str, line: int | None = None) -> None:
        super().__init__(says)
        self.says, self.line = says, line


class Document(ABC):
    """A file: its ``source`` may be put together from parts of it."""

    source: Source
    errors: Sequence[FileError] = ()

    @abstractmethod
    def place(self, line: int) -> tuple[int | None, int]:
        """The cell, None where there are none, and the line in it, of a line of the source."""

    @abstractmethod
    def changed(self, wanted: Iterable[Edit]) -> bytes:
        """The file's bytes with edits of its source. Raises ``InputError`` where they cannot be made."""

    @abstractmethod
    def diff(self, wanted: Iterable[Edit]) -> str:
        """The same as a text for people. Raises ``InputError``."""


@dataclass(frozen=True)
class Script(Document):
    """A Python file."""

    source: Source
    content: bytes

    def place(self, line: int) -> tuple[int | None, int]:
        return None, line

    def changed(self, wanted: Iterable[Edit]) -> bytes:
        return edits.apply_edits(self.content, wanted)

    def diff(self, wanted: Iterable[Edit]) -> str:
        new, _ = decoded(self.changed(wanted))
        return edits.file_diff(self.source.file.lstrip("/"), self.source.text, new)


def script(file: str, content: bytes) -> Script:
    """A Python file's bytes as a document. Raises ``Unreadable``."""
    text, _ = decoded(content)
    return Script(Source(file, text), content)


def decoded(content: bytes) -> tuple[str, str]:
    """A Python file's text, its line ends kept, and its encoding. Raises ``Unreadable``."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return content.decode(encoding), encoding
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        if isinstance(error, UnicodeDecodeError):
            says = f"cannot be decoded: not {error.encoding} at byte {error.start}"
            raise Unreadable(says, content.count(b"\n", 0, error.start) + 1) from error
        raise Unreadable(f"cannot be decoded: {error}") from error


def complaint(error: SyntaxError, text: str) -> str:
    """One line on a syntax error; whether it is Python 2, which nobody would guess from Python 3's message."""
    old = "Missing parentheses in call to" in (error.msg or "") or PYTHON_2.search(text)
    if old:
        return f"Python 2, not Python 3: {error.msg}"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"syntax error: {error.msg} (Python {version})"


def parses(text: str) -> bool:
    try:
        parse_tree(text)
    except (SyntaxError, UnicodeError):
        return False
    return True


def rows(text: str) -> list[str]:
    """The lines as ``ast`` counts them, without their ends."""
    return re.split(r"\r\n|\r|\n", text)


def characters(row: str, column: int) -> int:
    """A column in bytes, as ``ast`` has it, in characters."""
    return column if row.isascii() else len(row.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))


def applied(text: str, wanted: Iterable[Edit]) -> str:
    """A text with edits. Raises ``InputError``."""
    try:
        return edits.apply_edits(text.encode(), wanted).decode()
    except UnicodeError as error:
        raise InputError(f"the text is not Unicode ({error})") from error
