"""Starts Python with TensorFlow imported already: the import takes longer than most scripts of tests.

One process imports it. Each start is a fork of that, which goes on as ``python -c TEXT`` does.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

import pytest

from slowtrain.verify.measurement import probe_process

SERVER = """
import contextlib, json, os, socket, sys
import tensorflow, keras
link = socket.socket(fileno=int(sys.argv[1]))
while True:
    asked, files, _, _ = socket.recv_fds(link, 1 << 20, 3)
    if not asked:
        os._exit(0)
    pid = os.fork()
    if not pid:
        break
    for file in files:
        os.close(file)
    link.send(b"%d" % pid)
    link.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
link.close()
os.setsid()
for number, file in enumerate(files):
    os.dup2(file, number)
asked = json.loads(asked)
os.chdir(asked["cwd"])
os.environ.clear()
os.environ.update(asked["env"])
sys.argv[:] = ["-c", *asked["arguments"]]
sys.path[1:1] = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one not in sys.path]
sys.modules.pop("sitecustomize", None)
with contextlib.suppress(ImportError):
    import sitecustomize
exec(asked["text"])
"""


@functools.cache
def _server() -> socket.socket:
    """The process that forks, for as long as this one lives."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-c", SERVER, str(theirs.fileno())]
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=env)
    atexit.register(process.wait)
    atexit.register(ours.close)  # which runs first
    return ours


class WarmProcess:
    """``python -c TEXT ARGUMENTS``, as far as ``Popen`` is used here; one at a time. Both outputs are one file."""

    returncode: int | None = None

    def __init__(
        self, argv: Sequence[str], *, env: Mapping[str, str], stdin: IO[Any], stdout: IO[Any], **_: object
    ) -> None:
        assert argv[1] == "-c"
        self._link = _server()
        asked = {"text": argv[2], "arguments": argv[3:], "env": dict(env), "cwd": os.getcwd()}
        socket.send_fds(self._link, [json.dumps(asked).encode()], [stdin.fileno(), stdout.fileno(), stdout.fileno()])
        self._link.settimeout(None)
        self.pid = int(self._link.recv(64))

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._link.settimeout(timeout)
            try:
                self.returncode = int(self._link.recv(64))
            except TimeoutError:
                raise subprocess.TimeoutExpired("-c", timeout or 0.0) from None
        return self.returncode

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.001)
        return self.returncode


def run(argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> tuple[int, str]:
    """The exit code of ``argv``, and what it prints."""
    with tempfile.TemporaryFile() as file:
        code = WarmProcess(argv, env=env, stdin=file, stdout=file).wait(timeout_s)
        return code, os.pread(file.fileno(), 1 << 20, 0).decode()


@contextmanager
def warm_probes() -> Iterator[None]:
    """Probes start with TensorFlow imported, for tests that are not about its import."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            names = {"STDOUT": subprocess.STDOUT, "TimeoutExpired": subprocess.TimeoutExpired, "Popen": WarmProcess}
            patch.setattr(probe_process, "subprocess", types.SimpleNamespace(**names))
        yield
