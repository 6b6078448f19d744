"""When the machine loses its power, what was handed to the disk at least a second before can be read.

No power is cut here: ``strace`` notes what a recording's process writes and when it waits for the disk. From that the
files are put together as a disk may hold them that lost its power at some moment: with all that was waited for, and any
part of what was not.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from slowtrain.recording import reader, recording_folder

from . import running

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

SCRIPT = """
    import gc, time
    until = time.perf_counter() + 4
    while time.perf_counter() < until:
        gc.collect(0)
        time.sleep(0.002)
"""
CALL = re.compile(r'^(\d+) +(\d+\.\d+) (\w+)\(\d+<([^>]*)>(?:, "((?:\\x[0-9a-f]{2})*)", \d+, (\d+))?(.*)')
RESUMED = re.compile(r"^(\d+) +(\d+\.\d+) <\.\.\. (\w+) resumed>")
SYNCS = ("fdatasync", "fsync")
PAGE = 512  # what a disk writes whole


@dataclass
class File:
    """``safe`` is what the disk was waited for; ``open`` was written since: (offset, bytes)."""

    safe: bytearray = field(default_factory=bytearray)
    open: list[tuple[int, bytes]] = field(default_factory=list)

    def put(self, offset: int, data: bytes) -> None:
        if len(self.safe) < offset + len(data):
            self.safe.extend(bytes(offset + len(data) - len(self.safe)))
        self.safe[offset : offset + len(data)] = data

    def settle(self) -> None:
        for offset, data in self.open:
            self.put(offset, data)
        self.open.clear()

    def cut(self, chance: random.Random) -> bytes:
        """As a disk may hold it now."""
        left = File(bytearray(self.safe))
        for offset, data in self.open:
            for at in range(0, len(data), PAGE):
                if chance.random() < 0.5:
                    left.put(offset + at, data[at : at + PAGE])
        return bytes(left.safe)


def disk_at(log: list[str], moment: float, folder: Path) -> dict[str, File]:
    """The recording's files at ``moment``, in seconds since 1970."""
    files: dict[str, File] = {}
    waiting: dict[str, File] = {}  # by thread
    for line in log:
        if (resumed := RESUMED.match(line)) and resumed[3] in SYNCS and float(resumed[2]) <= moment:
            waiting.pop(resumed[1], File()).settle()
        call = CALL.match(line)
        if call is None or float(call[2]) > moment or Path(_plain(call[4])).parent != folder:
            continue
        file = files.setdefault(Path(_plain(call[4])).name, File())
        if call[3] == "pwrite64":
            file.open.append((int(call[6]), _bytes(call[5])))
        elif call[3] in SYNCS and "unfinished" in call[7]:
            waiting[call[1]] = file
        elif call[3] in SYNCS:
            file.settle()
    return files


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _plain(path: str) -> str:
    return os.fsdecode(_bytes(path)) if path.startswith("\\x") else path


def disks_without_power(folder: Path, count: int) -> tuple[reader.Recording, list[tuple[float, Path]]]:
    """A recording, and ``count`` folders with what a disk may hold of it that lost its power, with the moment in ms."""
    script, run, noted = running.write(folder, SCRIPT), folder / "run", folder / "calls.txt"
    traced = ["strace", "-f", "-ttt", "-y", "-xx", "-s", "100000", "-o", str(noted)]
    traced += ["-e", "trace=pwrite64,fdatasync,fsync,ftruncate"]
    done = subprocess.run(
        [*traced, *running.recorder(run, script)], capture_output=True, text=True, timeout=120, check=False
    )
    if "ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    log = noted.read_text(encoding="ascii", errors="replace").splitlines()
    assert not any("ftruncate" in line and str(run) in line for line in log)  # disk_at does not know it
    whole, found = reader.read_recording(run), []
    ends = whole.lanes["gc"].end_ms
    begun = float(whole.launch["start_time"])
    for seed in range(count):
        chance = random.Random(seed)
        at_ms = chance.uniform(ends[0] + 1500, ends[-1])
        lost = folder / f"lost-{seed}"
        lost.mkdir()
        for name, file in disk_at(log, begun + at_ms / 1e3, run).items():
            if name in (recording_folder.RECORDING_FILE, f"{recording_folder.RECORDING_FILE}-wal"):
                (lost / name).write_bytes(file.cut(chance))
        shutil.copy(run / recording_folder.LAUNCH_FILE, lost)
        found.append((at_ms, lost))
    return whole, found


def test_what_the_disk_was_waited_for_can_be_read(tmp_path: Path) -> None:
    whole, disks = disks_without_power(tmp_path, 20)
    ends = whole.lanes["gc"].end_ms
    for _, disk in disks:
        left = reader.read_recording(disk).lanes["gc"].end_ms
        assert np.array_equal(left, ends[: len(left)])


@pytest.mark.bench
def test_a_second_before_the_power_went_is_there(tmp_path: Path) -> None:
    _, disks = disks_without_power(tmp_path, 40)
    for at_ms, disk in disks:
        assert at_ms - reader.read_recording(disk).lanes["gc"].end_ms[-1] < 1000
