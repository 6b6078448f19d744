"""What a process sees that is begun in one circumstance or another."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time

import pytest

from slowtrain.verify.batch_sizes import memory_need

AFFINE = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no affinity")
CORES = "import os; print(len(os.sched_getaffinity(0)))"


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@AFFINE
def test_a_process_on_one_core_has_one_and_the_next_has_all() -> None:
    here = os.sched_getaffinity(0)
    with memory_need.circumstance_applied(memory_need.ON_ONE_CORE):
        assert printed(CORES) == "1"
    assert os.sched_getaffinity(0) == here
    with memory_need.circumstance_applied(memory_need.ALONE):
        assert printed(CORES) == str(len(here))


@AFFINE
def test_the_cores_are_given_back_after_a_fault() -> None:
    here = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError), memory_need.circumstance_applied(memory_need.ON_ONE_CORE):
        raise ZeroDivisionError
    assert os.sched_getaffinity(0) == here


def children() -> set[int]:
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as stat:
            if int(stat.read().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(name))
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="this system has no /proc")
@AFFINE
def test_beside_busy_cores_each_core_has_a_process_and_afterwards_none() -> None:
    before = children()
    with memory_need.circumstance_applied(memory_need.BESIDE_BUSY_CORES):
        busy = children() - before
        assert len(busy) == len(os.sched_getaffinity(0))
    assert children() == before


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="this system has no /proc")
def test_busy_processes_end_with_the_one_that_began_them() -> None:
    code = (
        "import os, sys\n"
        "from slowtrain.verify.batch_sizes import memory_need\n"
        "inside = memory_need.circumstance_applied(memory_need.BESIDE_BUSY_CORES)\n"
        "inside.__enter__()\n"
        "for pid in os.popen(f'pgrep -P {os.getpid()} -f getppid').read().split(): print(pid)\n"
        "sys.stdout.flush()\n"
        "os._exit(0)\n"
    )
    begun = [int(pid) for pid in printed(code).split()]
    assert begun
    until = time.monotonic() + 10
    while time.monotonic() < until and any(os.path.exists(f"/proc/{pid}") for pid in begun):
        time.sleep(0.05)
    assert not [pid for pid in begun if os.path.exists(f"/proc/{pid}")]
