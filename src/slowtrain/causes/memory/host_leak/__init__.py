"""Host memory that grows from step to step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.memory.host_leak.host_growth import (
    MAX_HOURS_UNTIL_FULL,
    HostGrowth,
    find_host_growth,
)
from slowtrain.causes.memory.host_leak.leak_cures import cures_of_growth
from slowtrain.model import Evidence, Prescription, Signal, VerdictKind
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import free_host_bytes
from slowtrain.whatif import Remedy

MAX_HOURS_TO_SPOIL = 24.0  # memory that is full before a run of a day has ended matters more than any saving
MAX_SLOWDOWN = 10.0  # of the mean step until memory is full: a run that gets slower than that is ended before


class HostLeak(Cause[HostGrowth]):
    """The process's memory grows from step to step, until the machine or the container kills it."""

    title = "Host memory grows"
    verdict_word = VerdictKind.MEMORY
    fills_memory = True
    lines_shared_as = "kept tensor"
    needs = frozenset({Signal.MEMORY})
    scope = "run"
    matters = True
    words = ("gradient", "Session")

    def find(self, trace: Trace) -> HostGrowth | None:
        return find_host_growth(trace)

    def evidence(self, trace: Trace, finding: HostGrowth) -> Evidence:
        return finding.evidence(trace)

    def remedies(self, trace: Trace, finding: HostGrowth) -> Sequence[Remedy]:
        return []  # memory that is kept costs no time until it is full

    def spoils_in(self, trace: Trace, finding: HostGrowth) -> bool:
        """Whether the run will be killed today, by what the script itself keeps, before it gets too slow to go on."""
        hours = finding.hours if finding.hours is not None else MAX_HOURS_UNTIL_FULL
        if hours >= MAX_HOURS_TO_SPOIL or not finding.suspects:
            return False
        # How long the same steps take if they do not get slower.
        even_ms = (free_host_bytes(trace) or 0.0) / finding.slope.per_step * trace.step_ms
        return 3.6e6 * hours < MAX_SLOWDOWN * even_ms

    def cures(self, trace: Trace, finding: HostGrowth) -> Iterable[Prescription]:
        return cures_of_growth(trace, finding)
