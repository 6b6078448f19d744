"""The same run in several circumstances: what hangs on which thread comes first comes out differently in each.

TensorFlow's executor hands ops to threads as they become ready. Which does come first, and with it how much memory is
held at once, depends on whether threads run side by side or in turn, and on what else the cores are busy with.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

ALONE = "alone"
ONE_CORE = "on one core"
BUSY = "beside busy cores"
ALL = (ALONE, ONE_CORE, BUSY)
# Ends with its parent, however that ends.
# Ends with its parent, also where that ended before it was asked for.
_SPIN = "import os, sys\nparent = int(sys.argv[1])\nwhile os.getppid() == parent: sum(range(10**6))"


@contextlib.contextmanager
def under(circumstance: str) -> Iterator[None]:
    """Processes begun inside run so: what is inherited is this thread's affinity. Where the system has none (macOS,
    Windows) ``ONE_CORE`` is ``ALONE``.
    """
    if circumstance == ONE_CORE and hasattr(os, "sched_setaffinity"):
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {sorted(cores)[os.getpid() % len(cores)]})  # not all of several on the same one
        try:
            yield
        finally:
            os.sched_setaffinity(0, cores)
    elif circumstance == BUSY:
        with contextlib.ExitStack() as stack:
            for _ in range(_cores()):
                stack.callback(_ended, subprocess.Popen([sys.executable, "-S", "-c", _SPIN, str(os.getpid())]))
            yield
    else:
        yield


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
