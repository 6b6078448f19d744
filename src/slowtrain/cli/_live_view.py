"""The live view of a run in progress: for `watch`, and for `run` with ``--live`` or ``--alert-command``.

It draws on the full screen for `watch`, and on the last rows for `run --live`, and restores the terminal. It uses only
ANSI sequences that xterm, tmux, screen and other common terminals support. Each frame is one write, so that no other
output can appear inside it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from slowtrain.cli import print_message
from slowtrain.cli._answers import supports_colour, supports_unicode
from slowtrain.errors import InputError
from slowtrain.report import frames, live
from slowtrain.shared.live_frame import Alert, Frame, RunState
from slowtrain.watch.frame_outputs import AlertDelivery
from slowtrain.watch.run_watch import ENDED_STATES, Watch

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


LOOK_INTERVAL_S = 2.0
LINE_INTERVAL_S = 10.0


class RunFollower:
    """Reads a run repeatedly, reports each alert once, and gives lines to print."""

    def __init__(self, watch: Watch, telling: AlertDelivery | None = None) -> None:
        self.watch = watch
        self.telling = telling
        self.frame: Frame | None = None
        self.seen: list[Callable[[Frame], None]] = []  # called with each frame
        self._shown_alerts: set[tuple[str, bool]] = set()

    def look(self) -> Frame:
        """Reads the run now. Raises ``InputError`` if the recording cannot be read."""
        frame = self.frame = self.watch.look()
        if self.telling is not None:
            self.telling.look(frame)
        for one in self.seen:
            one(frame)
        return frame

    def is_finished(self) -> bool:
        return self.frame is not None and self.frame.state in ENDED_STATES

    @property
    def hint(self) -> str:
        note = f" · {self.telling.note}" if self.telling is not None and self.telling.note else ""
        return f"q or Ctrl-C quits; the run continues. {self.watch.folder}{note}"

    def new_lines(self) -> Iterator[str]:
        """The run in one line, after the alerts that were not printed yet."""
        if self.frame is None:
            return
        for alert in reversed(self.frame.alerts):
            over = alert.over_ms is not None
            if (alert.id, over) not in self._shown_alerts and (not over or (alert.id, False) in self._shown_alerts):
                self._shown_alerts.add((alert.id, over))
                self._shown_alerts.discard((alert.id, not over))
                yield frames.alert_line(alert)
        yield frames.status_line(self.frame)

    def summary_lines(self) -> Iterator[str]:
        """The lines that stay on the terminal after the view is closed."""
        if self.frame is None:
            return
        yield frames.status_line(self.frame)
        alerts: tuple[Alert, ...] = self.frame.alerts
        for alert in alerts:
            yield frames.alert_line(alert)
        if self.frame.state in ENDED_STATES:
            yield f"full report: slowtrain report {self.watch.folder}"

    def close(self) -> None:
        self.watch.close()
        if self.telling is not None:
            self.telling.close()


def print_once(following: RunFollower, *, as_json: bool) -> None:
    """Prints the current state of the run, as a screen or as JSON."""
    frame = following.look()
    if as_json:
        print(frames.frame_json(frame))
        return
    width, height = terminal_size(sys.stdout) if sys.stdout.isatty() else (80, 40)
    print("\n".join(_screen_lines(frame, sys.stdout, width, height - 1)).rstrip("\n"))


def follow_run(following: RunFollower, every_s: float, lines_s: float) -> None:
    """Shows the run on the full screen until it is over or the user quits.

    Without a terminal, prints a line every ``lines_s`` seconds, and one for each new alert.
    """
    if not can_draw(sys.stdout):
        _print_lines(following, lines_s)
        return
    following.look()
    if following.is_finished():
        print_once(following, as_json=False)
        return
    with Screen(sys.stdout).full_screen() as screen:
        _draw_frame(screen, following)
        while not following.is_finished() and not _wait_for_key(screen, following, every_s):
            following.look()
            _draw_frame(screen, following)
    for line in following.summary_lines():
        print(line)


def _screen_lines(frame: Frame, stream: TextIO, width: int, height: int, hint: str = "") -> list[str]:
    colour, unicode = supports_colour(stream), supports_unicode(stream)
    return live.screen_lines(frame, width=width, height=height, colour=colour, unicode=unicode, hint=hint)


def _draw_frame(screen: Screen, following: RunFollower) -> None:
    if following.frame is not None:
        screen.draw(_screen_lines(following.frame, screen.stream, *terminal_size(screen.stream), following.hint))


def _wait_for_key(screen: Screen, following: RunFollower, every_s: float) -> bool:
    """Waits until the next look, and redraws when the terminal is resized. Returns whether the user quits."""
    until = time.monotonic() + every_s
    while (rest := until - time.monotonic()) > 0:
        if set(screen.wait_for_key(rest)) & set("qQ\x1b"):
            return True
        _draw_frame(screen, following)
    return False


def _print_lines(following: RunFollower, every_s: float) -> None:
    while True:
        following.look()
        for line in following.new_lines():
            print(line, flush=True)
        if following.is_finished():
            return
        time.sleep(every_s)


class LiveView:
    """`slowtrain run` with ``--live`` or ``--alert-command``: ``tick`` is called while the script runs.

    On a terminal, the view uses the last rows and the script's output scrolls above them. Otherwise, it prints a line
    on standard error every ten seconds. It never writes to standard output.
    """

    def __init__(self, folder: Path, telling: AlertDelivery | None, *, shown: bool) -> None:
        self.following = RunFollower(Watch(folder), telling)
        self.shown = shown
        self.foot = StatusRows(sys.stderr) if shown and can_draw(sys.stderr) else None
        self._look_s = 0.0
        self._line_s = LINE_INTERVAL_S
        self._last_warning = ""

    def tick(self, seconds: float) -> None:
        if seconds < self._look_s:
            return
        self._look_s = seconds + LOOK_INTERVAL_S
        try:
            frame = self.following.look()
        except InputError as error:  # printed once; the end of the run reports it too
            self._warn(str(error))
            return
        if self.following.telling is not None and self.following.telling.note:
            self._warn(self.following.telling.note)
        if self.foot is not None and self.foot.rows:
            self._draw(frame)
        elif self.shown and seconds >= self._line_s:
            self._line_s = seconds + LINE_INTERVAL_S
            for line in self.following.new_lines():
                print_message(line)

    def _warn(self, message: str) -> None:
        if message != self._last_warning and self.foot is None:
            self._last_warning = message
            print_message(message)

    def _draw(self, frame: Frame) -> None:

        if self.foot is None or frame.state is RunState.ENDED:
            return
        width, _ = terminal_size(sys.stderr)
        try:
            self.foot.draw(
                live.foot_lines(
                    frame,
                    width=width,
                    height=self.foot.rows,
                    colour=supports_colour(sys.stderr),
                    unicode=supports_unicode(sys.stderr),
                )
            )
        except OSError:
            self.foot = None

    def close(self) -> None:
        """Restores the terminal and prints the alerts."""
        if self.foot is not None:
            self.foot.close()
        with contextlib.suppress(InputError):
            self.following.look()  # alerts since the last look, such as the one that ended the run
        frame = self.following.frame
        if self.foot is not None and frame is not None:
            for alert in frame.alerts:
                print_message(frames.alert_line(alert))
        self.following.close()
