"""``slowtrain watch`` from outside: its pictures, its lines, what goes wrong, a real terminal."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from .making import Making

SCRIPT = """
import sys, time
for i in range(int(sys.argv[1])):
    print("line", i, flush=True)
    time.sleep(0.1)
"""


def watch(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slowtrain", "watch", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env={**os.environ, **environment},
    )


@pytest.fixture
def made(tmp_path: Path) -> Making:
    """A run in progress, which this very process is."""
    made = Making(tmp_path / "slowtrain-runs" / "train-1", 60.0)
    made.until_now(20.0, waits_ms=5.0)
    made.sampled([1e9] * 20)
    return made


def test_one_picture_of_the_newest_run(made: Making, tmp_path: Path) -> None:
    old = Making(tmp_path / "slowtrain-runs" / "train-0", 600.0)
    old.ends()
    for file in (old.folder).iterdir():
        os.utime(file, (1e9, 1e9))
    done = watch(tmp_path, "--once")
    assert done.returncode == 0, done.stderr
    assert "running" in done.stdout
    assert "20.0 ms now" in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stderr == ""


def test_one_document(made: Making, tmp_path: Path) -> None:
    done = watch(tmp_path, "--json", str(made.folder))
    found = json.loads(done.stdout)
    assert found["schema"] == "slowtrain.frame/1"
    assert found["step"]["now_ms"] == pytest.approx(20, rel=0.01)
    assert done.returncode == 0


def test_lines_where_there_is_no_terminal(made: Making, tmp_path: Path) -> None:
    """One every few seconds until the run ends; each alert once."""
    at = made.at_ns
    made.write(events=[(at, at, "nonfinite", "loss", {"step": 7, "value": "inf"})])
    process = subprocess.Popen(
        [sys.executable, "-m", "slowtrain", "watch", "--every", "0.3", "--no-diagnosis"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    made.ends()
    out, err = process.communicate(timeout=60)
    lines += out.splitlines()
    assert process.returncode == 0, err
    assert sum("loss is inf" in line for line in lines) == 1
    assert sum("20.0 ms a step" in line for line in lines) >= 3
    assert "ended (exit code 0)" in lines[-1]


def test_what_a_run_that_has_ended_was(made: Making, tmp_path: Path) -> None:
    made.ends(1)
    done = watch(tmp_path, "--out", "slowtrain-runs")
    assert (done.returncode, done.stderr) == (0, "")
    assert "ended (exit code 1)" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "slowtrain-runs"), "slowtrain-runs does not exist"),
        (("nowhere",), "nowhere is not a recording"),
        (("--out", "."), "no recordings in ."),
        (("--every", "0"), "--every must be"),
        (("--out", "slowtrain-runs", "--alert-command", "no-such-program-here"), "no program"),
        (("--prometheus-port", "x"), "invalid int value"),
    ],
)
def test_misuse_is_one_line(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    if "--alert-command" in arguments:
        Making(tmp_path / "slowtrain-runs" / "run").ends()
    done = watch(tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_the_alert_command_of_a_watch(made: Making, tmp_path: Path) -> None:
    at = made.at_ns
    made.write(events=[(at, at, "nonfinite", "loss", {"step": 7, "value": "nan"})])
    code = "import os, sys; open('told', 'w').write(os.environ['SLOWTRAIN_ALERT_ID'] + sys.stdin.read())"
    done = watch(tmp_path, "--once", "--alert-command", f'{sys.executable} -c "{code}"')
    assert done.returncode == 0, done.stderr
    told = (tmp_path / "told").read_text()
    assert told.startswith("nonfinite-loss{")
    assert "loss is nan" in told


# -- a terminal


class Terminal:
    """A pseudo-terminal with a program in it."""

    def __init__(self, folder: Path, *command: str, environment: Mapping[str, str]) -> None:
        self.pid, self.file = pty.fork()
        if not self.pid:
            os.chdir(folder)
            os.environ.update({"TERM": "xterm", "PYTHONIOENCODING": "utf-8", **environment})
            os.execv(sys.executable, [sys.executable, *command])
        self.resize(80, 24)
        self.seen = b""

    def resize(self, columns: int, rows: int) -> None:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: str, seconds: float = 120.0) -> str:
        """What was written up to ``text``, and a little more; from then on only what is new is seen."""
        end = time.monotonic() + seconds
        while text.encode() not in self.seen:
            assert time.monotonic() < end, self.seen.decode(errors="replace")
            self._read(0.2)
        self._read(0.2)
        seen, self.seen = self.seen.decode(errors="replace"), b""
        return seen

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.file], [], [], seconds)
        try:
            data = os.read(self.file, 1 << 16) if ready else b""
        except OSError:  # it has ended
            return False
        self.seen += data
        return bool(data) or not ready

    def ended(self) -> tuple[int, str]:
        end = time.monotonic() + 120
        while self._read(0.2) and time.monotonic() < end:
            continue
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status), self.seen.decode(errors="replace")

    def send(self, keys: str) -> None:
        os.write(self.file, keys.encode())


@contextlib.contextmanager
def terminal(folder: Path, *command: str, **environment: str) -> Iterator[Terminal]:
    made = Terminal(folder, *command, environment=environment)
    try:
        yield made
    finally:
        with contextlib.suppress(OSError):
            os.kill(made.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(made.pid, 0)
        os.close(made.file)


ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
WATCH = ("-m", "slowtrain", "watch", "--no-diagnosis", "--every", "0.5")


@pytest.mark.parametrize(("keys", "code"), [("q", 0), ("\x03", 130)])
def test_leaving_gives_the_terminal_back(keys: str, code: int, made: Making, tmp_path: Path) -> None:
    with terminal(tmp_path, *WATCH) as shown:
        seen = shown.until("quits; the run continues")
        assert seen.startswith(ENTER) or ENTER in seen
        assert "20.0 ms now" in seen
        shown.send(keys)
        exit_code, rest = shown.ended()
        assert exit_code == code
        assert LEAVE in rest
        assert "\x1b[?25h" in rest  # the cursor
        assert ENTER not in rest[rest.index(LEAVE) :]


def test_a_signal_gives_the_terminal_back(made: Making, tmp_path: Path) -> None:
    with terminal(tmp_path, *WATCH) as shown:
        shown.until("quits; the run continues")
        os.kill(shown.pid, signal.SIGTERM)
        exit_code, rest = shown.ended()
        assert exit_code == 128 + signal.SIGTERM
        assert LEAVE in rest


def test_it_ends_with_the_run_and_leaves_the_last_word(made: Making, tmp_path: Path) -> None:
    with terminal(tmp_path, *WATCH) as shown:
        shown.until("quits; the run continues")
        made.ends(0)
        exit_code, rest = shown.ended()
        assert exit_code == 0
        assert "full report: slowtrain report" in rest[rest.index(LEAVE) :]


def test_a_dumb_terminal_gets_lines(made: Making, tmp_path: Path) -> None:
    with terminal(tmp_path, *WATCH, TERM="dumb") as shown:
        seen = shown.until("20.0 ms a step")
        assert "\x1b" not in seen


def test_no_colour(made: Making, tmp_path: Path) -> None:
    with terminal(tmp_path, *WATCH, NO_COLOR="1") as shown:
        seen = shown.until("quits; the run continues")
        assert not re.search(r"\x1b\[[0-9;]*[1-9][0-9;]*m", seen)


# -- tmux


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[list[str]]:
    """A server of our own, in the foreground: its own way to the background is barred in some containers."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed here")
    command = ["tmux", "-S", str(tmp_path / "tmux"), "-f", "/dev/null"]
    server = subprocess.Popen(
        [*command, "-D"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 10
        while not (tmp_path / "tmux").exists() and time.monotonic() < end:
            time.sleep(0.05)
        yield command
    finally:
        subprocess.run([*command, "kill-server"], check=False, capture_output=True)
        server.wait(10)


def screen(
    tmux: list[str],
    wanted: str,
    fits: Callable[[list[str]], bool] = bool,
    *,
    whole: bool = False,
    seconds: float = 120.0,
) -> list[str]:
    """The lines of the pane once they contain ``wanted`` and fit; ``whole``: with those that were scrolled away."""
    end = time.monotonic() + seconds
    while True:
        back = ["-S", "-"] if whole else []
        done = subprocess.run([*tmux, "capture-pane", "-p", *back], capture_output=True, text=True, check=True)
        lines = done.stdout.rstrip("\n").split("\n")
        if wanted in done.stdout and fits(lines):
            return lines
        assert time.monotonic() < end, done.stdout
        time.sleep(0.2)


def start(tmux: list[str], folder: Path, columns: int, rows: int, command: str) -> None:
    subprocess.run(
        [*tmux, "new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(folder), command],
        check=True, env={**os.environ, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip


def test_in_tmux_at_80_columns_and_resized(tmux: list[str], made: Making, tmp_path: Path) -> None:
    start(tmux, tmp_path, 80, 24, f"{sys.executable} {' '.join(WATCH)}; echo code $?; sleep 60")
    lines = screen(tmux, "quits; the run continues")
    assert lines[0].startswith("slowtrain train.py")
    assert lines[0].rstrip().endswith("s")
    assert "quits; the run continues" in lines[23]
    subprocess.run([*tmux, "resize-window", "-x", "200", "-y", "50"], check=True)
    screen(tmux, "quits; the run continues", lambda lines: "quits; the run continues" in lines[-1] and len(lines) == 50)
    screen(tmux, "quits; the run continues", lambda lines: len(lines[0]) > 100)
    subprocess.run([*tmux, "resize-window", "-x", "60", "-y", "12"], check=True)
    screen(tmux, "slowtrain train.py", lambda lines: len(lines) <= 12)
    for _ in range(3):  # a key that comes while tmux is busy with a resize is lost now and then
        subprocess.run([*tmux, "send-keys", "C-c"], check=True)
        with contextlib.suppress(AssertionError):
            screen(tmux, "code 130", seconds=30.0)
            break
    lines = screen(tmux, "code 130", seconds=1.0)
    assert not any("the run continues" in line for line in lines)


@pytest.mark.parametrize("piped", [False, True])
def test_a_live_run_keeps_the_scripts_output_above(piped: bool, tmux: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    pipe = " | cat" if piped else ""
    start(
        tmux, tmp_path, 80, 24,
        f"{sys.executable} -m slowtrain run --live train.py 40{pipe}; echo done; sleep 60",
    )  # fmt: skip
    lines = screen(tmux, "line 20")
    assert lines[16].startswith("────")
    assert lines[17].startswith("slowtrain train.py 40")
    above = [line for line in lines[:16] if line]
    assert all(line.startswith(("line", "slowtrain: recording")) for line in above), lines
    assert re.match(r"line [23]\d$", above[-1])
    lines = screen(tmux, "done", whole=True)
    assert not any(line.startswith("────") for line in lines)
    said = [line for line in lines if line.startswith("line ")]
    assert said == [f"line {i}" for i in range(40)]  # none is missing, none twice


def test_a_live_run_without_a_terminal(tmp_path: Path) -> None:
    """Standard output is the script's alone."""
    (tmp_path / "train.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "slowtrain", "run", "--live", "train.py", "110"],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.startswith("line 0\n")
    assert "\x1b" not in done.stdout + done.stderr
    assert re.search(r"^slowtrain: 1\d s, starting, no steps yet", done.stderr, re.MULTILINE), done.stderr
