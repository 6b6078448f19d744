"""However a script ends, what was recorded can be read; and signals reach the script as they would without us."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slowtrain.capture.process import launch
from slowtrain.errors import InputError
from slowtrain.recording import reader, recording_folder

from . import running

BUSY = """
    import gc, os, resource, shutil, signal, sys, time
    begun = time.perf_counter()
    def busy(seconds):
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            gc.collect(0)
            time.sleep(0.001)
"""


each_ending = pytest.mark.parametrize(
    ("last_words", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("os.abort()", 134),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 139),
        ("os._exit(9)", 9),
        ("raise SystemExit(3)", 3),
    ],
)


def ended(folder: Path, last_words: str) -> running.Done:
    """A recording of a script that is busy for a second and a half before its last words."""
    return running.recorded(folder / "run", running.write(folder, BUSY + f"    busy(1.5)\n    {last_words}"))


@each_ending
def test_readable_however_it_ends(last_words: str, code: int, tmp_path: Path) -> None:
    done = ended(tmp_path, last_words)
    assert done.code == code
    raw = reader.read_recording(done.folder)
    assert len(raw.lanes["gc"])
    assert raw.lanes["stack"]
    assert raw.samples
    assert raw.launch["exit_code"] == code
    assert "faults" not in raw.facts


@pytest.mark.bench
@each_ending
def test_readable_up_to_the_last_second(last_words: str, code: int, tmp_path: Path) -> None:
    raw = reader.read_recording(ended(tmp_path, last_words).folder)
    assert raw.end_ms - raw.lanes["gc"].end_ms[-1] < 1000
    assert len(raw.lanes["gc"]) > 50


@pytest.mark.parametrize(("counted", "killed"), [("oom_kill 8", True), ("oom_kill 7", None), ("", None)])
def test_a_kill_that_the_kernel_counts_was_for_want_of_memory(
    counted: str, killed: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = tmp_path / "vmstat"
    counter.write_text("nr_free_pages 1\noom_kill 7\n")
    monkeypatch.setattr("slowtrain.capture.process.failure_hooks.VMSTAT_FILE", counter)
    words = f"open({str(counter)!r}, 'w').write('{counted}'); os.kill(os.getpid(), signal.SIGKILL)"
    script = running.write(tmp_path, f"import os, signal\n{words}\n")
    launch.run_recorded(launch.command_line(str(script), [], False), tmp_path)
    assert json.loads((tmp_path / launch.LAUNCH_FILE).read_text()).get("memory_kill") == killed


def test_a_full_disk_ends_the_recording_only(tmp_path: Path) -> None:
    text = """
    resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, resource.RLIM_INFINITY))
    busy(3)
    print("done", flush=True)
    """
    script = running.write(tmp_path, BUSY + text)
    done = running.recorded(tmp_path / "run", script)
    assert (done.out, done.err, done.code) == ("done\n", "", 0)
    raw = reader.read_recording(done.folder)
    assert raw.lanes["gc"]
    assert "ended" in raw.facts
    assert "end_ns" not in raw.facts
    whole_ms = (raw.launch["end_ns"] - raw.launch["start_ns"]) / 1e6
    assert raw.lanes["gc"].end_ms[-1] <= raw.end_ms < whole_ms - 300  # of what came after nothing is told


def test_a_disk_on_which_nothing_fits_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is noted where the start was, if there is room; of the reason only the name of its file came to be."""
    monkeypatch.setattr(
        "slowtrain.machine.samples.core_clock.measure_core_pace", lambda: 1.5
    )  # it is measured at the end, too
    about = launch.note_start(tmp_path, ["python", "train.py"], 1)
    (tmp_path / "ended.txt").touch()

    def full(path: Path, _data: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert launch.note_end(tmp_path, about, 3, 99) == 3
    noted = json.loads((tmp_path / launch.LAUNCH_FILE).read_text())
    assert noted == {**about, "end_ns": 99, "exit_code": 3}
    launch.note_end(tmp_path, {**about, "heard": ["x" * 100_000]}, 4, 100)
    assert json.loads((tmp_path / launch.LAUNCH_FILE).read_text()) == noted
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ended.txt", launch.LAUNCH_FILE]
    assert recording_folder.early_end_reason(tmp_path) == "its disk is full"


def test_a_folder_that_is_removed(tmp_path: Path) -> None:
    text = """
    time.sleep(0.5)
    shutil.rmtree(sys.argv[1])
    busy(1)
    print("done", flush=True)
    """
    script = running.write(tmp_path, BUSY + text)
    done = running.recorded(tmp_path / "run", script, str(tmp_path / "run"))
    assert (done.out, done.err, done.code) == ("done\n", "", 0)
    assert not done.folder.exists()
    with pytest.raises(InputError, match="is not a recording"):
        reader.read_recording(done.folder)


def test_two_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: launch.new_folder(tmp_path / "runs", "train"), range(8)))
    assert len(set(folders)) == 8


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(InputError, match=r"cannot write a recording to .*; choose a folder with --out FOLDER"):
        launch.new_folder(tmp_path / "runs", "train")


WAITS = """
    import signal, sys, time
    count = 0
    def got(number, frame):
        global count
        count += 1
        if sys.argv[1] == "raise":
            raise KeyboardInterrupt
    if sys.argv[1] != "default":
        for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP"):
            signal.signal(getattr(signal, name), got)
    try:
        print("ready", flush=True)
        until = time.monotonic() + 20
        while time.monotonic() < until and not (sys.argv[1] == "count" and count):
            time.sleep(0.02)
    except KeyboardInterrupt:
        time.sleep(0.3)  # a second signal would end this
        print("saved", flush=True)
        sys.exit(9)
    time.sleep(0.3)
    print("count", count)
"""


def signalled(tmp_path: Path, how: str, send: Callable[[int], None]) -> tuple[int, str, str]:
    script = running.write(tmp_path, WAITS)
    command = running.recorder(tmp_path / "run", script, how)
    # What a shell starts in the background ignores Ctrl-C, and so does all that is started from there.
    ignored = signal.signal(signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=running.environment(),
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, ignored)
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        send(process.pid)
        out, err = process.communicate(timeout=120)
    assert reader.read_recording(tmp_path / "run").launch["exit_code"] == process.returncode
    return process.returncode, out, err


def test_ctrl_c_reaches_the_script_once(tmp_path: Path) -> None:
    """The terminal sends it to everybody in the group."""
    assert signalled(tmp_path, "raise", lambda pid: os.killpg(pid, signal.SIGINT)) == (9, "saved\n", "")


def test_an_interrupt_for_us_alone_is_passed_on(tmp_path: Path) -> None:
    assert signalled(tmp_path, "raise", lambda pid: os.kill(pid, signal.SIGINT)) == (9, "saved\n", "")


def test_ctrl_c_of_a_script_without_a_handler(tmp_path: Path) -> None:
    code, out, err = signalled(tmp_path, "default", lambda pid: os.killpg(pid, signal.SIGINT))
    assert (code, out) == (9, "saved\n"), err


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGHUP"])
def test_signals_are_passed_on(name: str, tmp_path: Path) -> None:
    number = getattr(signal, name)
    assert signalled(tmp_path, "count", lambda pid: os.kill(pid, number)) == (0, "count 1\n", "")


def test_a_script_that_is_terminated(tmp_path: Path) -> None:
    code, out, err = signalled(tmp_path, "default", lambda pid: os.kill(pid, signal.SIGTERM))
    assert (code, out, err) == (143, "", "")


@pytest.mark.parametrize("told_by_the_system", [True, False])
def test_the_end_is_waited_for_with_and_without_a_file_for_the_process(
    told_by_the_system: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not told_by_the_system:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    elif not hasattr(os, "pidfd_open"):
        pytest.skip("this system has no file for a process")
    with subprocess.Popen([sys.executable, "-c", "input(); raise SystemExit(7)"], stdin=subprocess.PIPE) as child:
        ending = launch._ChildWait(child)
        assert (ending._file is not None) == told_by_the_system
        with pytest.raises(subprocess.TimeoutExpired):
            ending.wait(0.2)
        assert child.stdin is not None
        child.stdin.close()  # input() ends with an error then
        assert ending.wait(90) == 1
        assert ending._file is None


@pytest.mark.bench
def test_who_waits_for_the_end_does_not_compute() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        spent = time.process_time()
        with pytest.raises(subprocess.TimeoutExpired):
            launch._ChildWait(child).wait(0.5)
        assert time.process_time() - spent < 0.1
