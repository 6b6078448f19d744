"""Draws on a terminal and restores it: the full screen for `watch`, the last rows for `run --live`.

Uses only ANSI sequences that xterm, tmux, screen and other common terminals support. Each frame is one write, so that
no other output can appear inside it.
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

ENTER_SCREEN = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # alternate screen, no cursor, no line wrapping
LEAVE_SCREEN = "\x1b[?7h\x1b[?25h\x1b[?1049l"
SAVE_CURSOR, RESTORE_CURSOR, RESET_SCROLL_REGION = "\x1b7", "\x1b8", "\x1b[r"
MIN_TERMINAL_ROWS = 10  # on a terminal with fewer rows, nothing is drawn and the script keeps all rows
STATUS_ROWS, FEW_STATUS_ROWS = 8, 5
MIN_FULL_STATUS_ROWS = 20


def can_draw(stream: TextIO) -> bool:
    """Whether ``stream`` is a terminal with cursor control."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """The current columns and rows of the terminal; 80 by 24 if unknown."""
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 80, 24
    return found.columns or 80, found.lines or 24


def write_terminal(stream: TextIO, text: str) -> None:
    """Writes ``text`` to the file descriptor, past the stream's buffer. Raises ``OSError`` if the terminal is gone."""
    stream.flush()
    data = text.encode(stream.encoding or "utf-8", "replace")
    while data:
        data = data[os.write(stream.fileno(), data) :]


class Screen:
    """The full screen of a terminal, inside the context of ``full_screen``."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._wake: tuple[int, int] | None = None
        self._before: list[Any] | None = None
        self._interrupted = False

    @contextlib.contextmanager
    def full_screen(self) -> Iterator[Screen]:
        """Shows the screen and restores the terminal after an error, Ctrl-C, SIGTERM and SIGHUP, and during Ctrl-Z."""
        handlers = {
            signal.SIGWINCH: lambda *_: None,
            signal.SIGINT: self._interrupt,
            signal.SIGTERM: _exit_on_signal,
            signal.SIGHUP: _exit_on_signal,
            signal.SIGTSTP: self._suspend,
        }
        read, wrote = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(wrote, False)
        previous: dict[int, Any] = {n: signal.signal(n, h) for n, h in handlers.items()}
        woken = signal.set_wakeup_fd(wrote, warn_on_full_buffer=False)
        self._wake = read, wrote
        self._show_screen()
        try:
            yield self
        finally:
            with contextlib.suppress(OSError):  # the terminal may be closed
                self._restore_terminal()
            signal.set_wakeup_fd(woken)
            for number, handler in previous.items():
                signal.signal(number, handler)
            os.close(read)
            os.close(wrote)

    def draw(self, lines: Sequence[str]) -> None:
        # Each line is erased before it is drawn: after a full line the cursor is on the last column, and erasing then
        # would remove its last character.
        write_terminal(self.stream, "\x1b[H" + "\r\n".join(f"\x1b[2K{line}\x1b[0m" for line in lines) + "\x1b[J")

    def wait_for_key(self, seconds: float) -> str:
        """Waits for a key and returns it. Returns an empty string after ``seconds`` or when the terminal is resized."""
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

    def _show_screen(self) -> None:
        self._before = _set_unbuffered_input()
        write_terminal(self.stream, ENTER_SCREEN)

    def _restore_terminal(self) -> None:
        write_terminal(self.stream, LEAVE_SCREEN)
        if self._before is not None:
            import termios

            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)
            self._before = None

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """Defers KeyboardInterrupt to ``wait_for_key``. Raised during a look, it could end in a callback of SQLite."""
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True

    def _suspend(self, _number: int, _frame: FrameType | None) -> None:
        self._restore_terminal()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._suspend)  # execution continues here after fg
        self._show_screen()


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _set_unbuffered_input() -> list[Any] | None:
    """Makes keys available at once and not echoed. Returns the settings to restore.

    Returns None if standard input is not a terminal, or this process is in the background.
    """
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


class StatusRows:
    """The last rows of a terminal. The script's output, including its progress bars, scrolls above them."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._size = (0, 0)

    @property
    def rows(self) -> int:
        """The number of rows to draw on. 0 if the terminal has too few rows."""
        height = terminal_size(self.stream)[1]
        return 0 if height < MIN_TERMINAL_ROWS else STATUS_ROWS if height >= MIN_FULL_STATUS_ROWS else FEW_STATUS_ROWS

    def draw(self, lines: Sequence[str]) -> None:
        """Draws ``lines``, which must be as many as :attr:`rows`."""
        now, rows = terminal_size(self.stream), len(lines)
        text = ""
        if now != self._size:
            text = self._reserve_rows(now[1], rows)
            self._size = now
        top = now[1] - rows
        drawn = "".join(f"\x1b[{top + 1 + i};1H\x1b[2K{line}\x1b[0m" for i, line in enumerate(lines))
        # Line wrapping is switched off for our own lines only.
        write_terminal(self.stream, f"{text}{SAVE_CURSOR}\x1b[?7l{drawn}\x1b[?7h{RESTORE_CURSOR}")

    def _reserve_rows(self, height: int, rows: int) -> str:
        """Scrolls the existing output up and limits scrolling to the rows above ours.

        Setting the scroll region moves the cursor, so the cursor is saved and restored.
        """
        again = f"{SAVE_CURSOR}{RESET_SCROLL_REGION}{RESTORE_CURSOR}\x1b[J" if self._size[1] else ""
        return f"{again}{chr(10) * rows}\x1b[{rows}A{SAVE_CURSOR}\x1b[1;{height - rows}r{RESTORE_CURSOR}"

    def close(self) -> None:
        """Clears the rows and removes the scroll region."""
        if self._size[1]:
            self._size = (0, 0)
            with contextlib.suppress(OSError):
                write_terminal(self.stream, f"{SAVE_CURSOR}{RESET_SCROLL_REGION}{RESTORE_CURSOR}\x1b[J")
