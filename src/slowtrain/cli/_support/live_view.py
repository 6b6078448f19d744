"""The live view of a run in progress: for `watch`, and for `run` with ``--live`` or ``--alert-command``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from slowtrain.cli._support import terminal_screen
from slowtrain.errors import InputError
from slowtrain.model.answers.live_frame import Alert, Frame, RunState
from slowtrain.watch import ENDED_STATES, Watch
from slowtrain.watch.alert_delivery import AlertDelivery

LOOK_INTERVAL_S = 2.0
LINE_INTERVAL_S = 10.0


class RunFollower:
    """Reads a run repeatedly, reports each alert once, and gives lines to print."""

    def __init__(self, watch: Watch, telling: AlertDelivery | None = None) -> None:
        self.watch = watch
        self.telling = telling
        self.frame: Frame | None = None
        self.seen: list[Callable[[Frame], None]] = []  # called with each frame
        self._said: set[tuple[str, bool]] = set()

    def look(self) -> Frame:
        """Reads the run now. Raises ``InputError`` if the recording cannot be read."""
        frame = self.frame = self.watch.look()
        if self.telling is not None:
            self.telling.look(frame)
        for one in self.seen:
            one(frame)
        return frame

    @property
    def is_finished(self) -> bool:
        return self.frame is not None and self.frame.state in ENDED_STATES

    @property
    def hint(self) -> str:
        note = f" · {self.telling.note}" if self.telling is not None and self.telling.note else ""
        return f"q or Ctrl-C quits; the run continues. {self.watch.folder}{note}"

    def new_lines(self) -> Iterator[str]:
        """The run in one line, after the alerts that were not printed yet."""
        from slowtrain.report import frames

        if self.frame is None:
            return
        for alert in reversed(self.frame.alerts):
            over = alert.over_ms is not None
            if (alert.id, over) not in self._said and (not over or (alert.id, False) in self._said):
                self._said.add((alert.id, over))
                self._said.discard((alert.id, not over))
                yield frames.alert_line(alert)
        yield frames.status_line(self.frame)

    def summary_lines(self) -> Iterator[str]:
        """The lines that stay on the terminal after the view is closed."""
        from slowtrain.report import frames

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


class LiveView:
    """`slowtrain run` with ``--live`` or ``--alert-command``: ``tick`` is called while the script runs.

    On a terminal, the view uses the last rows and the script's output scrolls above them. Otherwise, it prints a line
    on standard error every ten seconds. It never writes to standard output.
    """

    def __init__(self, folder: Path, telling: AlertDelivery | None, *, shown: bool) -> None:
        self.following = RunFollower(Watch(folder), telling)
        self.shown = shown
        self.foot = terminal_screen.StatusRows(sys.stderr) if shown and terminal_screen.can_draw(sys.stderr) else None
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
                print(f"slowtrain: {line}", file=sys.stderr, flush=True)

    def _warn(self, message: str) -> None:
        if message != self._last_warning and self.foot is None:
            self._last_warning = message
            print(f"slowtrain: {message}", file=sys.stderr, flush=True)

    def _draw(self, frame: Frame) -> None:
        from slowtrain.cli._support.answer_output import supports_colour, supports_unicode
        from slowtrain.report import live

        if self.foot is None or frame.state is RunState.ENDED:
            return
        width, _ = terminal_screen.terminal_size(sys.stderr)
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
        from slowtrain.report import frames

        if self.foot is not None:
            self.foot.close()
        with contextlib.suppress(InputError):
            self.following.look()  # alerts since the last look, such as the one that ended the run
        frame = self.following.frame
        if self.foot is not None and frame is not None:
            for alert in frame.alerts:
                print(f"slowtrain: {frames.alert_line(alert)}", file=sys.stderr, flush=True)
        self.following.close()
