"""Reads what allocators print on the script's standard error when memory runs out.

If standard error is a file, it is read after the script has ended. If it is a pipe of its own, a pipe of ours is put
before it. This changes neither what the script sees (it is no terminal in both cases) nor the order of the output. A
terminal, or a pipe shared with standard output, is left unchanged, because a change could be noticed there.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path
from typing import IO, Any

from slowtrain import oom
from slowtrain.oom.dump_judgement import recorded_summary
from slowtrain.oom.log_reader import LOG_BLOCK_BYTES, LogReader

MAX_JOIN_S = 2.0  # for the last output of a script that has ended
STDERR_DESCRIPTOR = 2


class StderrListener:
    """Listens to standard error. ``child`` is the descriptor for the script; None means ours."""

    def __init__(self, stdout: IO[Any] | None = None) -> None:
        self.child: int | None = None
        self._reader = LogReader()
        self._file: tuple[int, int] | None = None
        self._pipe: int | None = None
        self._thread: threading.Thread | None = None
        with contextlib.suppress(OSError, ValueError):
            self._choose(1 if stdout is None else stdout.fileno())

    def _choose(self, stdout: int) -> None:
        mine, other = os.fstat(STDERR_DESCRIPTOR), os.fstat(stdout)
        if stat.S_ISREG(mine.st_mode):
            self._file = os.open(Path("/proc/self/fd", str(STDERR_DESCRIPTOR)), os.O_RDONLY), mine.st_size
        elif stat.S_ISFIFO(mine.st_mode) and (mine.st_dev, mine.st_ino) != (other.st_dev, other.st_ino):
            self._pipe, self.child = os.pipe()

    @property
    def can_listen(self) -> bool:
        """Whether the output can be read at all."""
        return self._file is not None or self._pipe is not None

    def begin(self) -> None:
        """Begins to read, after the script has been started."""
        if self._pipe is None or self.child is None:
            return
        os.close(self.child)
        self._thread = threading.Thread(target=self._pass_on, args=(self._pipe,), daemon=True)
        self._thread.start()

    def _pass_on(self, pipe: int) -> None:
        listening = True
        while block := os.read(pipe, 1 << 16):
            rest = memoryview(block)
            while rest:
                try:
                    rest = rest[os.write(STDERR_DESCRIPTOR, rest) :]
                # nobody reads the output any more; the script has to notice that as it would without us
                except OSError:
                    os.close(pipe)
                    return
            if listening:
                try:
                    self._reader.feed(block)
                except Exception:
                    listening = False

    def end(self) -> dict[str, Any] | None:
        """Returns what was reported about memory, after the script has ended; None if nothing was."""
        if self._thread is not None:
            self._thread.join(MAX_JOIN_S)  # a process that the script started may keep the pipe open for ever
            if self._thread.is_alive():
                return None
        if self._file is not None:
            self._read_lines(*self._file)
        try:
            self._reader.close()
            return recorded_summary(oom.judge_log(self._reader, "stderr"))
        except Exception:
            return None

    def _read_lines(self, file: int, start: int) -> None:
        with contextlib.suppress(OSError), os.fdopen(file, "rb") as opened:
            opened.seek(min(start, os.fstat(file).st_size))  # a script may have truncated it
            while block := opened.read(LOG_BLOCK_BYTES):
                self._reader.feed(block)
