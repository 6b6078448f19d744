"""Runs scripts in forks of a process that has imported TensorFlow, so that no run pays for the import.

    python clinic/gpu_bench/forks.py        reads one request a line:
    {"script": "…", "arguments": [], "log": "…", "environment": {}}

Writes one answer a line: {"exit": 0, "wall_s": 8.1, "train_s": 3.9, "work": 12800.0}. The process itself never touches
the card: a CUDA context does not survive a fork, so that each fork makes its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import runpy
import signal
import sys
import time
import traceback
from pathlib import Path

LONGEST_S = 90  # the scripts take up to 20 s; one that hangs must not take the rest of the budget


def run_forked(
    script: str, arguments: list[str], log: Path, environment: dict[str, str]
) -> dict[str, float | int | None]:
    """Runs the script in a fork, its output in ``log``, and waits for it."""
    begun = time.perf_counter()
    child = os.fork()
    if child == 0:
        os.environ.update(environment)
        os._exit(_run_here(script, arguments, log))
    status = _wait(child, begun + LONGEST_S)
    return {"exit": status, "wall_s": time.perf_counter() - begun, **read_printed(log.read_text(errors="replace"))}


def _run_here(script: str, arguments: list[str], log: Path) -> int:
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    code = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001  the parent learns of it from the exit code, the reader from the log
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _wait(child: int, until: float) -> int:
    """The exit code; minus the signal where a signal ended it; the child is killed at ``until``."""
    while time.perf_counter() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGKILL


def read_printed(text: str) -> dict[str, float | None]:
    """The training time and the amount of work that a script prints at its end; None where it does not."""
    spent = re.findall(r"^TRAIN_SECONDS\s+([\d.]+)", text, re.MULTILINE)
    work = re.findall(r"^WORK\s+([\d.]+)", text, re.MULTILINE)
    return {"train_s": float(spent[-1]) if spent else None, "work": float(work[-1]) if work else None}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")  # what TensorFlow prints while it is imported must not mix with the answers
    os.dup2(2, 1)
    import keras  # noqa: F401
    import tensorflow as tf  # noqa: F401

    for line in sys.stdin:
        asked = json.loads(line)
        done = run_forked(asked["script"], asked["arguments"], Path(asked["log"]), asked.get("environment", {}))
        print(json.dumps(done), file=answers, flush=True)


if __name__ == "__main__":
    main()
