"""Runs the same process in several circumstances, because results that depend on thread order differ between them.

TensorFlow's executor hands ops to threads as they become ready. Which op starts first, and so how much memory is held
at once, depends on whether threads run in parallel, and on the other load of the cores.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

ALONE = "alone"
ON_ONE_CORE = "on one core"
BESIDE_BUSY_CORES = "with the other cores busy"
ALL_CIRCUMSTANCES = (ALONE, ON_ONE_CORE, BESIDE_BUSY_CORES)
# Ends with its parent, however the parent ends, and also if that happened before the process began to watch it.
_SPIN_SCRIPT = "import os, sys\nparent = int(sys.argv[1])\nwhile os.getppid() == parent: sum(range(10**6))"


@contextlib.contextmanager
def circumstance_applied(circumstance: str) -> Iterator[None]:
    """Processes that are started inside run in this circumstance, because they inherit this thread's affinity.

    If the system has no affinity (macOS, Windows), ``ON_ONE_CORE`` is ``ALONE``.
    """
    if circumstance == ON_ONE_CORE and hasattr(os, "sched_setaffinity"):
        cores = os.sched_getaffinity(0)
        # So that several probes do not all use the same core.
        os.sched_setaffinity(0, {sorted(cores)[os.getpid() % len(cores)]})
        try:
            yield
        finally:
            os.sched_setaffinity(0, cores)
    elif circumstance == BESIDE_BUSY_CORES:
        with contextlib.ExitStack() as stack:
            for _ in range(_count_cores()):
                stack.callback(
                    _end_process, subprocess.Popen([sys.executable, "-S", "-c", _SPIN_SCRIPT, str(os.getpid())])
                )
            yield
    else:
        yield


def _count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
