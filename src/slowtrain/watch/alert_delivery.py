"""Delivers each alert once, to Python callables or to a command.

A command gets the alert as JSON on standard input and in environment variables. It is started without a shell, one at a
time, with a minimum interval. A failure is noted and never ends the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable

from slowtrain.errors import InputError
from slowtrain.model.answers.live_frame import Alert, Frame
from slowtrain.report import frames

MIN_START_INTERVAL_S = 10.0  # between two starts of the command
MAX_COMMAND_S = 60.0  # then it is ended
MAX_WAITING_ALERTS = 20
MAX_LAST_COMMAND_S = 5.0  # for a running command at the end

AlertCallable = Callable[[Alert, Frame], None]


class AlertDelivery:
    """``note``: the last failure; empty if there was none."""

    def __init__(self, calls: tuple[AlertCallable, ...] = (), command: AlertCommand | None = None) -> None:
        self.calls = calls
        self.command = command
        self._note = ""
        self._told: dict[str, float] = {}

    @property
    def note(self) -> str:
        return self._note or (self.command.note if self.command is not None else "")

    def look(self, frame: Frame) -> None:
        """Delivers current alerts that were not delivered. An alert that ended and begins again is delivered again."""
        for alert in frame.alerts:
            if alert.over_ms is not None or self._told.get(alert.id) == alert.at_ms:
                continue
            self._told[alert.id] = alert.at_ms
            for call in self.calls:
                try:
                    call(alert, frame)
                except Exception as error:  # noqa: BLE001  somebody's function
                    self._note = f"the alert function failed ({type(error).__name__}: {error})"
            if self.command is not None:
                self.command.add(alert, frame)
        if self.command is not None:
            self.command.turn()

    def close(self) -> None:
        if self.command is not None:
            self.command.close()


def parse_alert_command(text: str) -> AlertDelivery:
    """Parses a command line of the user. Raises ``InputError`` if it is not valid."""
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise InputError(f"--alert-command {text!r} cannot be split into words ({error})") from error
    if not argv:
        raise InputError("--alert-command needs a command")
    if shutil.which(argv[0]) is None:
        raise InputError(f"--alert-command: there is no program {argv[0]!r}; give its path")
    return AlertDelivery(command=AlertCommand(argv))


class AlertCommand:
    """Runs ``argv`` for each alert. Meanwhile the newest alert of each id waits."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv
        self.note = ""
        self.runs = 0
        self._waiting: OrderedDict[str, tuple[Alert, Frame]] = OrderedDict()
        self._process: subprocess.Popen[bytes] | None = None
        self._begun_s = float("-inf")

    def add(self, alert: Alert, frame: Frame) -> None:
        self._waiting[alert.id] = alert, frame
        while len(self._waiting) > MAX_WAITING_ALERTS:
            self._waiting.popitem(last=False)

    def turn(self) -> None:
        """Called at each look: collects the running command, or starts the next."""
        at = time.monotonic()
        if self._process is not None:
            self._ended(at)
        if self._process is None and self._waiting and at - self._begun_s >= MIN_START_INTERVAL_S:
            self._begun_s = at
            self._start_command(*self._waiting.popitem(last=False)[1])

    def _ended(self, at: float) -> None:
        process = self._process
        if process is None:
            return
        code = process.poll()
        if code is None and at - self._begun_s > MAX_COMMAND_S:
            _kill_session(process)
            code = process.wait()
            self.note = f"the alert command was stopped after {MAX_COMMAND_S:.0f} s"
        elif code:
            self.note = f"the alert command failed (exit code {code})"
        if code is not None:
            self._process = None

    def _start_command(self, alert: Alert, frame: Frame) -> None:
        document = {"schema": "slowtrain.alert/1", "folder": frame.folder, "command": frame.command}
        document |= {"alert": next(a for a in frames.frame_document(frame)["alerts"] if a["id"] == alert.id)}
        self.runs += 1
        try:
            with tempfile.TemporaryFile() as given:
                given.write(json.dumps(document).encode())
                given.seek(0)
                self._process = subprocess.Popen(
                    self.argv,
                    stdin=given,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=_alert_environment(alert, frame),
                    start_new_session=True,
                )
        except OSError as error:
            self.note = f"the alert command could not be started ({error.strerror})"

    def close(self) -> None:
        """Delivers the last alerts as well, if that is quick."""
        until = time.monotonic() + MAX_LAST_COMMAND_S
        while (self._process is not None or self._waiting) and time.monotonic() < until:
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(max(until - time.monotonic(), 0.1))
            self._begun_s = (
                float("-inf") if self._process is None or self._process.poll() is not None else self._begun_s
            )
            self.turn()
        if self._process is not None:
            _kill_session(self._process)
            self._process.wait()
            self._process = None


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """Ends the command and all that it started: it is the leader of its own session."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _alert_environment(alert: Alert, frame: Frame) -> dict[str, str]:
    place = alert.where[0] if alert.where else None
    given = {
        "ID": alert.id,
        "SAYS": alert.says,
        "URGENT": "1" if alert.urgent else "0",
        "AT_SECONDS": f"{alert.at_ms / 1e3:.1f}",
        "FOLDER": frame.folder,
        "COMMAND": frame.command,
        "FILE": place.file if place else "",
        "LINE": str(place.line) if place else "",
    }
    # Text in a recording may come from anywhere, and an environment variable cannot contain NUL.
    named = {f"SLOWTRAIN_ALERT_{key}": value.replace("\0", "") for key, value in given.items()}
    ours = {k: v for k, v in os.environ.items() if not k.startswith("SLOWTRAIN_")}
    return {**ours, **named}
