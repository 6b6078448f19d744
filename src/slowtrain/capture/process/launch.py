"""The parent's side: starts the user's script as it would start without Slowtrain, waits, and keeps its exit code."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from slowtrain.capture.process.failure_hooks import OomKillCounter
from slowtrain.capture.process.stderr_listener import StderrListener
from slowtrain.errors import InputError
from slowtrain.machine.samples import core_clock

BOOTSTRAP = Path(__file__).with_name("bootstrap")
LAUNCH_FILE = "launch.json"
BLOCK_BYTES = 512  # the unit of st_blocks, whatever block size the disk has
TICK_S = 0.5
FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)  # batch systems send the last two


@dataclass(frozen=True)
class Outcome:
    """How the script ended. ``exit_code`` is 128 + signal if a signal ended it."""

    exit_code: int
    start_ns: int
    end_ns: int


def new_folder(parent: Path, stem: str, *, advice: str = "choose a folder with --out FOLDER") -> Path:
    """Creates a new folder ``parent/stem-20260131-235959``. Raises ``InputError`` if it cannot be written."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for attempt in range(1000):
        folder = parent / (f"{stem}-{stamp}" + (f"-{attempt}" if attempt else ""))
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            continue
        except OSError as error:
            raise InputError(f"cannot write a recording to {parent} ({error.strerror}); {advice}") from error
    raise InputError(f"cannot find a free name for a recording in {parent}; {advice}")


def command_line(target: str, arguments: Sequence[str], as_module: bool) -> list[str]:
    """Returns the interpreter's command line for a script or, with ``as_module``, for ``-m target``."""
    return [sys.executable, *(["-m"] if as_module else []), target, *arguments]


def run_recorded(
    argv: Sequence[str],
    folder: Path,
    *,
    windows: bool = True,
    max_bytes: int | None = None,
    on_nonfinite: str | None = None,
    stdout: IO[Any] | None = None,
    tick: Callable[[float], None] | None = None,
) -> Outcome:
    """Runs ``argv`` and records into ``folder``. Meanwhile ``tick(seconds)`` is called about twice a second."""
    start_ns = time.perf_counter_ns()
    about = note_start(folder, argv, start_ns)
    heard, kills = StderrListener(stdout), OomKillCounter()
    child = subprocess.Popen(
        argv,
        env=recording_environment(folder, windows=windows, max_bytes=max_bytes, on_nonfinite=on_nonfinite),
        stdout=stdout,
        stderr=heard.child,
    )
    heard.begin()
    interrupt, ending = _InterruptRelay(child), _ChildWait(child)
    previous: dict[int, Any] = {s: signal.signal(s, _forward_signal(child, s)) for s in FORWARDED_SIGNALS}
    previous[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    code = 0
    previous[signal.SIGQUIT] = signal.signal(signal.SIGQUIT, signal.SIG_IGN)  # the terminal sends it to the child, too
    try:
        while True:
            try:
                code = ending.wait(TICK_S)
                break
            except subprocess.TimeoutExpired:
                interrupt.tick()
                kills.look()
                if tick is not None:
                    tick((time.perf_counter_ns() - start_ns) / 1e9)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    end_ns = time.perf_counter_ns()
    exhausted = heard.end()
    about |= {"memory_kill": True} if kills.is_oom_kill(code) else {}
    about |= {"heard": heard.can_listen, **({"exhausted": exhausted} if exhausted is not None else {})}
    return Outcome(note_end(folder, about, code, end_ns), start_ns, end_ns)


def recording_environment(
    folder: Path, *, windows: bool, max_bytes: int | None = None, on_nonfinite: str | None = None
) -> dict[str, str]:
    """Returns the environment in which a Python process records itself into ``folder``, up to ``max_bytes``."""
    variables = dict(os.environ)
    user_path = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = os.pathsep.join([str(BOOTSTRAP), *([user_path] if user_path else [])])
    if user_path is not None:
        variables["SLOWTRAIN_PYTHONPATH"] = user_path  # the child restores it exactly, including empty parts
    variables["SLOWTRAIN_RECORDING"] = str(folder.resolve())
    if max_bytes is not None:
        variables["SLOWTRAIN_MAX_DISK"] = str(max_bytes)
    variables["SLOWTRAIN_WINDOWS"] = "1" if windows else "0"
    if on_nonfinite is not None:
        variables["SLOWTRAIN_ON_NONFINITE"] = on_nonfinite
    return variables


def note_start(folder: Path, argv: Sequence[str], start_ns: int) -> dict[str, Any]:
    """Notes the start of a run beside its recording. Returns the facts that ``note_end`` takes."""
    about = {"argv": list(argv), "start_ns": start_ns, "start_time": time.time(), "cwd": os.getcwd()}
    about["pace"] = core_clock.measure_core_pace()
    _write_launch_file(folder, about)
    return about


def note_end(folder: Path, about: Mapping[str, Any], code: int, end_ns: int) -> int:
    """Notes the end of a run. Returns the exit code: 128 + signal if a signal ended it (``code`` is negative then)."""
    exit_code = code if code >= 0 else 128 - code
    fastest = max(
        float(about.get("pace") or 0.0), core_clock.measure_core_pace()
    )  # another load halves the pace for moments
    _write_launch_file(folder, {**about, "pace": fastest, "end_ns": end_ns, "exit_code": exit_code})
    return exit_code


class _ChildWait:
    """Waits for the child's end without polling. Python's own wait with a timeout wakes up thirty times a second.

    Falls back to that wait if the system has no file descriptors for processes (Linux before 5.3, other systems).
    """

    def __init__(self, child: subprocess.Popen[Any]) -> None:
        self.child = child
        self._file: int | None = None
        with contextlib.suppress(OSError, AttributeError):
            self._file = os.pidfd_open(child.pid)
            self._poll = select.poll()
            self._poll.register(self._file, select.POLLIN)

    def wait(self, seconds: float) -> int:
        """Returns the exit code. Raises ``subprocess.TimeoutExpired`` while the child runs."""
        if self._file is None:
            return self.child.wait(timeout=seconds)
        if not self._poll.poll(1000 * seconds):
            raise subprocess.TimeoutExpired(self.child.args, seconds)
        os.close(self._file)
        self._file = None
        return self.child.wait()


class _InterruptRelay:
    """Handles a SIGINT. In a terminal it does nothing, because the child gets its own.

    Without a terminal somebody sent the signal, either to this process alone or to its process group. The two cases
    look the same. A child that was sent one, too, has ended or is cleaning up a second later. So the signal is passed
    on after that time. A second SIGINT from outside is passed on at once.
    """

    WAIT_S = 1.0

    def __init__(self, child: subprocess.Popen[Any]) -> None:
        self.child = child
        self.seen_s = 0.0
        self.passed_on = False

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if _is_at_terminal():
            return
        if self.seen_s and time.monotonic() - self.seen_s > self.WAIT_S:
            self.child.send_signal(signal.SIGINT)
        self.seen_s = self.seen_s or time.monotonic()

    def tick(self) -> None:
        if self.seen_s and not self.passed_on and time.monotonic() - self.seen_s >= self.WAIT_S:
            self.passed_on = True
            self.child.send_signal(signal.SIGINT)


def _is_at_terminal() -> bool:
    """Returns whether a Ctrl-C in our terminal would reach our process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _forward_signal(child: subprocess.Popen[Any], number: int) -> Callable[[int, FrameType | None], None]:
    def handler(_signal: int, _frame: FrameType | None) -> None:
        child.send_signal(number)

    return handler


def _write_launch_file(folder: Path, about: dict[str, Any]) -> None:
    """Writes the file atomically. If no new file can be created, overwrites the existing one within its disk blocks."""
    file, data = folder / LAUNCH_FILE, json.dumps(about).encode()
    part = folder / (LAUNCH_FILE + ".part")
    try:
        part.write_bytes(data)
        part.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
            if len(data) <= BLOCK_BYTES * getattr(file.stat(), "st_blocks", 0):
                with file.open("r+b") as known:
                    known.write(data)
                    known.truncate()
