"""A terminal: its width, colours and characters, and text made to fit them.

Rich knows how many columns a character takes, and writes the styles. Lines are broken here: a report is laid out again
and again until it fits the screen, and Rich takes seven times as long (``docs/dependencies.md``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from rich.cells import cell_len, chop_cells

from slowtrain.report.wording import finite_or_none, printable_text

MAX_COLUMNS, MIN_COLUMNS = 110, 40  # longer lines are hard to read, however wide the terminal is
GREY = "bright_black"
PART_COLOURS = {
    "input": "yellow", "convert": "magenta", "h2d": "magenta", "d2h": "magenta", "compile": "red", "dispatch": "blue",
    "host-op": "blue", "python": "cyan", "callback": "cyan", "gc": "red", "device": "green", "steps": "green",
    "unattributed": GREY,
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
MAX_COLUMN_CHARACTERS = 8  # a letter and its combining marks
_EIGHTHS = " ▏▎▍▌▋▊▉"


@functools.cache
def _style_renderer(style: str) -> Callable[[str], str]:
    """What writes text in a style. The 16 colours follow the user's own theme."""
    from rich.color import ColorSystem  # imported for a terminal with colours only
    from rich.style import Style

    return functools.partial(Style.parse(style).render, color_system=ColorSystem.STANDARD)


def joined_lines(lines: Iterable[str]) -> str:
    """Lines as one text, without blanks at their ends."""
    return "\n".join(line.rstrip() for line in lines) + "\n"


def readable_width(width: int) -> int:
    return max(min(width, MAX_COLUMNS), MIN_COLUMNS)


class Terminal(Struct, frozen=True):
    """What can be written on: ``width`` columns, with or without colour and Unicode."""

    width: int
    colour: bool
    unicode: bool

    def plain(self, text: str) -> str:
        """Somebody's text, harmless and in the stream's characters, on one line."""
        text = " ".join(printable_text(text).split())
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

    def fits(self, text: str, width: int) -> bool:
        return cell_len(self.plain(text)) <= width

    def fit(self, text: str, width: int | None = None) -> str:
        """``text`` cut to ``width`` columns, with a sign that it was."""
        text, width = self.plain(text), self.width if width is None else width
        if cell_len(text) <= width:
            return text
        more = "…" if self.unicode else "..."
        if width <= cell_len(more):
            return _leading_part(text, width)
        return _leading_part(text, width - cell_len(more)).rstrip() + more

    def wrap(self, text: str, width: int | None = None, lines: int = 99) -> list[str]:
        """``text`` in at most ``lines`` lines; words longer than a line are broken."""
        text, width = self.plain(text), max(self.width if width is None else width, 1)
        wrapped: list[str] = []
        while text:
            if len(wrapped) == lines - 1:
                return [*wrapped, self.fit(text, width)]
            end = max(len(_leading_part(text, width)), 1)
            if end < len(text) and text[end] != " " and " " in text[1:end]:
                end = text.rindex(" ", 1, end)
            wrapped.append(text[:end].rstrip())
            text = text[end:].lstrip()
        return wrapped

    def fit_end(self, start: str, text: str) -> str:
        """One line: ``start`` as it is, and as much of ``text`` as fits behind it."""
        return start + self.fit(text, self.width - cell_len(start))

    def label_line(self, label: str, text: str) -> str:
        """The same with a dim label."""
        return self.style(label, "dim") + self.fit(text, self.width - cell_len(label))

    def hanging(
        self, lead: str, text: str, *, indent: int | None = None, lines: int = 99, style: str = ""
    ) -> Iterator[str]:
        """``text`` behind ``lead``; further lines are indented by ``indent``, or as far as the first."""
        indent = len(lead) if indent is None else indent
        for number, row in enumerate(self.wrap(text, self.width - max(len(lead), indent), lines)):
            yield self.style((lead if number == 0 else " " * indent) + row, style)

    def heading(self, text: str) -> str:
        return self.style(self.fit(text), "bold")

    def section(self, title: str, style: str = "bold") -> Iterator[str]:
        """The title of a part of the report, behind an empty line."""
        yield ""
        yield self.style(self.fit(title), style)

    def style(self, text: str, style: str) -> str:
        return _style_renderer(style)(text) if self.colour and style else text

    def bar(self, share: float, width: int) -> str:
        """A bar of ``share`` of ``width`` columns, in eighths of a column where the stream has them."""
        share = finite_or_none(share) or 0.0
        eighths = round(min(max(share, 0.0), 1.0) * width * 8)
        if not self.unicode:
            return "#" * max(round(eighths / 8), 1 if share > 0 else 0)
        eighths = max(eighths, 1) if share > 0 else 0
        return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()

    def pad(self, text: str, width: int, *, right: bool = False) -> str:
        gap = " " * max(width - cell_len(text), 0)
        return gap + text if right else text + gap

    def column(self, text: str, width: int) -> str:
        """``text`` as a cell of a table: cut, or filled with blanks."""
        return self.pad(self.fit(text, width), width)

    def ends(self, left: str, right: str, style: str = "bold") -> str:
        """One line with ``left`` at its start and ``right`` at its end."""
        right = self.plain(right)
        return self.style(self.column(left, self.width - cell_len(right) - 1), style) + " " + right


def _leading_part(text: str, width: int) -> str:
    """As many characters of ``text`` as fit ``width`` columns."""
    if width <= 0 or text[: width + 1].isascii():
        return text[: max(width, 0)]
    return chop_cells(text[: MAX_COLUMN_CHARACTERS * width], width)[0]
