"""A terminal to draw on, put back as it was: the whole screen for `watch`, a few lines at its foot for `run --live`.

Plain ANSI sequences that xterm, tmux, screen, ssh and every terminal of the last thirty years know. Each frame is one
write, so that nothing comes between its parts.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, TextIO

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # the other screen, without cursor, without wrapping
LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
SAVE, RESTORE, WHOLE = "\x1b7", "\x1b8", "\x1b[r"
LEAST_ROWS = 10  # a terminal lower than this keeps all its lines for the script
STATUS_ROWS, FEW_STATUS_ROWS = 8, 5
ROOMY = 20


def drawable(stream: TextIO) -> bool:
    """Whether it is a terminal that knows more than lines."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def size(stream: TextIO) -> tuple[int, int]:
    """Columns and rows now."""
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 80, 24
    return found.columns or 80, found.lines or 24


def write(stream: TextIO, text: str) -> None:
    """All of it at once, past the stream's own buffer. Raises ``OSError`` when nobody is there any more."""
    stream.flush()
    data = text.encode(stream.encoding or "utf-8", "replace")
    while data:
        data = data[os.write(stream.fileno(), data) :]


class Screen:
    """The whole terminal, while it is entered. ``key(seconds)`` waits for a key, a resize or the time."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._wake: tuple[int, int] | None = None
        self._before: list[Any] | None = None
        self._interrupted = False

    @contextlib.contextmanager
    def entered(self) -> Iterator[Screen]:
        """Restores the terminal however this ends: error, Ctrl-C, SIGTERM, SIGHUP. Ctrl-Z leaves it, fg comes back."""
        handlers = {
            signal.SIGWINCH: lambda *_: None,
            signal.SIGINT: self._interrupt,
            signal.SIGTERM: _end,
            signal.SIGHUP: _end,
            signal.SIGTSTP: self._suspend,
        }
        read, wrote = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(wrote, False)
        previous: dict[int, Any] = {n: signal.signal(n, h) for n, h in handlers.items()}
        woken = signal.set_wakeup_fd(wrote, warn_on_full_buffer=False)
        self._wake = read, wrote
        self._enter()
        try:
            yield self
        finally:
            with contextlib.suppress(OSError):  # the terminal itself may be gone
                self._leave()
            signal.set_wakeup_fd(woken)
            for number, handler in previous.items():
                signal.signal(number, handler)
            os.close(read)
            os.close(wrote)

    def draw(self, lines: Sequence[str]) -> None:
        # Each line is emptied first: after a full one the cursor stands on its last column, and would take that along.
        write(self.stream, "\x1b[H" + "\r\n".join(f"\x1b[2K{line}\x1b[0m" for line in lines) + "\x1b[J")

    def key(self, seconds: float) -> str:
        """A key that was pressed; empty when the time is over or the terminal has another size."""
        if self._interrupted:
            raise KeyboardInterrupt
        read = self._wake[0] if self._wake else -1
        inputs = [read, *([sys.stdin.fileno()] if self._before is not None else [])]
        ready, _, _ = select.select(inputs, [], [], seconds)
        if read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(read, 512)
        if self._interrupted:
            raise KeyboardInterrupt
        if self._before is not None and sys.stdin.fileno() in ready:
            return os.read(sys.stdin.fileno(), 64).decode("utf-8", "replace")
        return ""

    def _enter(self) -> None:
        self._before = _unbuffered()
        write(self.stream, ENTER)

    def _leave(self) -> None:
        write(self.stream, LEAVE)
        if self._before is not None:
            import termios

            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)
            self._before = None

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """Raised where a key is waited for: an exception in the midst of a look may end in a callback of SQLite's."""
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True

    def _suspend(self, _number: int, _frame: FrameType | None) -> None:
        self._leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._suspend)  # from here on after fg
        self._enter()


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _unbuffered() -> list[Any] | None:
    """Keys come at once and are not shown; what to put back. None where there is no keyboard, or it is not ours."""
    try:
        import termios
        import tty

        if not sys.stdin.isatty() or os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
            return None
        before = termios.tcgetattr(sys.stdin.fileno())
        tty.setcbreak(sys.stdin.fileno())
    except (ImportError, OSError, ValueError):
        return None
    return before


class Foot:
    """The last rows of a terminal; what a script writes scrolls above them, its progress bars included."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._size = (0, 0)

    @property
    def rows(self) -> int:
        """How many rows are drawn on; 0: the terminal is too low now."""
        height = size(self.stream)[1]
        return 0 if height < LEAST_ROWS else STATUS_ROWS if height >= ROOMY else FEW_STATUS_ROWS

    def draw(self, lines: Sequence[str]) -> None:
        """As many lines as there are :attr:`rows`."""
        now, rows = size(self.stream), len(lines)
        text = ""
        if now != self._size:
            text = self._room(now[1], rows)
            self._size = now
        top = now[1] - rows
        drawn = "".join(f"\x1b[{top + 1 + i};1H\x1b[2K{line}\x1b[0m" for i, line in enumerate(lines))
        # Wrapping is switched off for our own lines alone.
        write(self.stream, f"{text}{SAVE}\x1b[?7l{drawn}\x1b[?7h{RESTORE}")

    def _room(self, height: int, rows: int) -> str:
        """Scrolls what was written out of the way, and keeps it there. Setting the region moves the cursor."""
        again = f"{SAVE}{WHOLE}{RESTORE}\x1b[J" if self._size[1] else ""
        return f"{again}{chr(10) * rows}\x1b[{rows}A{SAVE}\x1b[1;{height - rows}r{RESTORE}"

    def close(self) -> None:
        """Gives the rows back, empty."""
        if self._size[1]:
            self._size = (0, 0)
            with contextlib.suppress(OSError):
                write(self.stream, f"{SAVE}{WHOLE}{RESTORE}\x1b[J")
