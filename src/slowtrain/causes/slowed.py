"""What to do where the machine has become slower, by the kind of
:class:`slowtrain.trace.signals.series.early_and_late.SlowdownReason`.
"""

from __future__ import annotations

from collections.abc import Mapping

CURES: Mapping[str, str] = {
    "others": "run what takes the processors at another time, or on another machine",
    "stolen": "ask for a machine whose processors are its own, or another hour: the hypervisor gives them to others",
    "quota": "give the container more processors (docker run --cpus, the limit of the pod), or start fewer threads",
    "clock": "give the GPU air, or a power limit that it can hold: it is held down by heat or power",
    "processor": "let the processor hold its clock: better cooling, a higher power limit, the governor `performance`",
    "paging": "keep less in memory, or have more of it: what was put out has to be read from the disk again",
    "allocator": "make arrays once and fill them again; or preload another allocator (jemalloc, tcmalloc)",
    "stage": "look at what that stage works on: later elements are larger, a file is read from further behind, or what "
    "its function goes through gets longer",
    "disk": "read from memory or a faster disk: what the page cache held at first no longer fits",
}
