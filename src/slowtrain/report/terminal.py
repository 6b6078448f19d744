"""A terminal as paper: its width, colours and characters, and text made to fit them.

The standard library is enough here; it keeps ``slowtrain`` quick to start.
"""

from __future__ import annotations

import unicodedata

from slowtrain.report.wording import clean, finite
from slowtrain.values import dataclass

# The 16 colours that follow the user's own theme.
_STYLES = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33",
    "blue": "34", "magenta": "35", "cyan": "36", "grey": "90",
}  # fmt: skip

# What stands for our own punctuation on a stream that is not Unicode.
_ASCII = str.maketrans(
    {
        "\N{MIDDLE DOT}": "|",
        "\N{EN DASH}": "-",
        "\N{EM DASH}": "-",
        "\N{HORIZONTAL ELLIPSIS}": "...",
        "\N{MULTIPLICATION SIGN}": "x",
        "\N{MICRO SIGN}": "u",
        "\N{RIGHTWARDS ARROW}": "->",
        "\N{LEFT SINGLE QUOTATION MARK}": "'",
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
        "\N{LEFT DOUBLE QUOTATION MARK}": '"',
        "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
        "\N{LESS-THAN OR EQUAL TO}": "<=",
        "\N{GREATER-THAN OR EQUAL TO}": ">=",
        "\N{NO-BREAK SPACE}": " ",
    }
)
_EIGHTHS = " ▏▎▍▌▋▊▉"


def cells(text: str) -> int:
    """How many columns ``text`` takes: ideographs two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_cells(c) for c in text)


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _head(text: str, width: int) -> int:
    """How many characters of ``text`` fit ``width`` columns."""
    if text[: width + 1].isascii():
        return min(len(text), width)
    taken = 0
    for index, character in enumerate(text):
        taken += _cells(character)
        if taken > width:
            return index
    return len(text)


@dataclass(frozen=True)
class Paper:
    """What can be written on: ``width`` columns, with or without colour and Unicode."""

    width: int
    colour: bool
    unicode: bool

    def plain(self, text: str) -> str:
        """Somebody's text, harmless and in the stream's characters, on one line."""
        text = " ".join(clean(text).split())
        if self.unicode or text.isascii():
            return text
        # Names that differ stay different: an é is shown as \xe9.
        return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")

    def code(self, text: str, width: int) -> str:
        """A line of source or of a diff, its spaces kept, cut to ``width`` columns."""
        mark = text[:1] if text[:1] in ("+", "-") else ""
        rest = text[len(mark) :]
        indent = len(rest) - len(rest.lstrip(" "))
        lead = (mark + " " * indent)[:width]
        return lead + self.fit(rest[indent:], max(width - len(lead), 0))

    def fit(self, text: str, width: int) -> str:
        """``text`` cut to ``width`` columns, with a sign that it was."""
        text = self.plain(text)
        if cells(text) <= width:
            return text
        more = "…" if self.unicode else "..."
        if width <= cells(more):
            return text[: _head(text, max(width, 0))]
        return text[: _head(text, width - cells(more))].rstrip() + more

    def wrap(self, text: str, width: int, lines: int = 99) -> list[str]:
        """``text`` in at most ``lines`` lines; words longer than a line are broken."""
        text, width = self.plain(text), max(width, 1)
        wrapped: list[str] = []
        while text:
            if len(wrapped) == lines - 1:
                return [*wrapped, self.fit(text, width)]
            end = _head(text, width)
            if end < len(text) and text[end] != " ":
                end = text.rfind(" ", 1, end) if " " in text[1:end] else max(end, 1)
            wrapped.append(text[:end].rstrip())
            text = text[end:].lstrip()
        return wrapped

    def style(self, text: str, *styles: str) -> str:
        if not (self.colour and text and styles):
            return text
        return f"\x1b[{';'.join(_STYLES[s] for s in styles)}m{text}\x1b[0m"

    def bar(self, share: float, width: int) -> str:
        """A bar of ``share`` of ``width`` columns, in eighths of a column where the stream has them."""
        share = finite(share) or 0.0
        eighths = round(min(max(share, 0.0), 1.0) * width * 8)
        if not self.unicode:
            return "#" * max(round(eighths / 8), 1 if share > 0 else 0)
        eighths = max(eighths, 1) if share > 0 else 0
        return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()

    def pad(self, text: str, width: int, *, right: bool = False) -> str:
        gap = " " * max(width - cells(text), 0)
        return gap + text if right else text + gap
