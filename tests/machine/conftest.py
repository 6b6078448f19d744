"""Drawn computers: folders that look like ``/`` with ``proc``, ``sys`` and cgroups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

CPUINFO = "".join(
    f"processor\t: {n}\nmodel name\t: Drawn CPU 3000\nphysical id\t: 0\ncore id\t\t: {n // 2}\n"
    "flags\t\t: fpu avx2 fma avx512f hypervisor\n\n"
    for n in range(8)
)
BASE: Mapping[str, str] = {
    "proc/cpuinfo": CPUINFO,
    "proc/meminfo": "MemTotal: 16000 kB\nMemFree: 100 kB\nMemAvailable:    9000 kB\n"
    "SwapTotal: 2000 kB\nSwapFree: 1500 kB\n",
    "proc/self/status": "Name:\tpython\nCpus_allowed_list:\t0-3,6\n",
    "proc/self/statm": "1000 250 30 1 0 100 0\n",
    "proc/self/io": "rchar: 5000\nwchar: 60\nsyscr: 7\nsyscw: 8\nread_bytes: 4096\nwrite_bytes: 512\n",
    "proc/stat": "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n"
    "intr 9 9\nctxt 99\nprocs_running 1\nprocs_blocked 0\nsoftirq 1\n",
    "sys/devices/system/node/node0/cpulist": "0-3\n",
    "sys/devices/system/node/node1/cpulist": "4-7\n",
    "sys/devices/system/node/node0/distance": "10 21\n",
    "sys/devices/system/node/node1/distance": "21 10\n",
    "etc/os-release": 'NAME="Drawn Linux"\nID=drawn\nVERSION_ID="7"\n',
    "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3500000\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "dev/shm/keep": "",
}

Draw = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def draw(tmp_path: Path) -> Draw:
    """Makes a computer of :data:`BASE` and the files given."""

    def draw(files: Mapping[str, str]) -> Path:
        for name, text in {**BASE, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return draw
