"""What to do if the machine has become slower, for each
:class:`slowtrain.trace.signals.drift.machine_conditions.SlowdownReason`.
"""

from __future__ import annotations

from collections.abc import Mapping

CURE_BY_REASON: Mapping[str, str] = {
    "others": "run the other processes at another time, or on another machine",
    "stolen": "use a machine with dedicated processors, or another hour: the hypervisor gives them to others",
    "quota": "give the container more processors (docker run --cpus, the limit of the pod), or start fewer threads",
    "clock": "cool the GPU, or set a power limit that it can hold: heat or power lowers its clock",
    "processor": "let the processor keep its clock: better cooling, a higher power limit, the governor `performance`",
    "paging": "keep less in memory, or add memory: pages that were swapped out have to be read from the disk again",
    "allocator": "reuse arrays instead of making new ones, or preload another allocator (jemalloc, tcmalloc)",
    "stage": "look at what that stage works on: later elements are larger, a file is read from a later position, or "
    "its function processes more and more data",
    "disk": "read from memory or a faster disk: the data no longer fits into the page cache",
}
