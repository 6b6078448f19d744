"""Processor time by kind of thread: what makes input is told from what runs the step."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from slowtrain.machine.host.gpu_devices import Gpus
from slowtrain.machine.samples.sampler import Sampler

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


def stat(name: str, utime: int, stime: int) -> str:
    return f"7 ({name}) S 1 1 1 0 -1 0 0 0 0 0 {utime} {stime} 0 0 20 0"


def test_threads_by_name(tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    for number, said in {
        str(os.getpid()): stat("python", 3 * ticks, ticks),
        "101": stat("tf_Compute", ticks, 0),
        "102": stat("tf_numa_-1_Eige", ticks, ticks),
        "103": stat("python) S (x", 50 * ticks, 0),  # a thread may call itself anything
    }.items():
        (tmp_path / "proc/self/task" / number).mkdir(parents=True)
        (tmp_path / "proc/self/task" / number / "stat").write_text(said)
    sampler = Sampler(tmp_path, gpus=Gpus())
    found = sampler.sample()
    assert (found["main_cpu_seconds"], found["framework_cpu_seconds"]) == (4.0, 3.0)
    assert len(sampler._files) == 3  # of the threads that count alone files stay open


def test_a_busy_thread_is_not_the_main_ones_time() -> None:
    """On this machine: another thread computes for 0.3 s of CPU time, and the main one waits."""
    sampler = Sampler(gpus=Gpus())
    before = sampler.sample()

    def compute() -> None:
        while time.thread_time() < 0.3:
            sum(range(1000))

    worker = threading.Thread(target=compute)
    worker.start()
    worker.join()
    after = sampler.sample()
    spent = {k: float(after[k]) - float(before[k]) for k in ("process_cpu_seconds", "main_cpu_seconds")}  # type: ignore[arg-type]
    assert spent["main_cpu_seconds"] < 0.5 * spent["process_cpu_seconds"]
