"""Early and late steps, and the machine's figures in both, if they explain that late steps are slower.

A change of a figure explains nothing by itself: others used a little more of a machine with idle cores, a clock fell
by a twentieth while steps doubled. Therefore each change is compared with its possible cost.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from slowtrain.columns.arrays import NO_FLOATS, Floats, Ints
from slowtrain.model import Category, Place
from slowtrain.number_text import format_count, format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals import memory_growth
from slowtrain.trace.signals.host.stalls import MIN_FULL_SHARE, machine_cores, other_process_cores
from slowtrain.trace.signals.step_trend import step_numbers

# A part explains the growth if it has this share of it, and grew this many times as much as the rest. If all of
# a step got slower equally, it was the machine.
MIN_GROWTH_PART, MIN_RATIO_TO_REST = 0.5, 2.0

MIN_CROWDING_CORES = 0.2  # processors that others use more than before
MIN_DISK_WAIT_SHARE = 0.1  # increase, of all cores' time
MAX_CLOCK_RATIO = 0.95  # of what it was before
MIN_FREE_HEAP_SHARE = 0.2  # increase, of malloc's heap
MIN_FREE_HEAP_BYTES = 64e6  # free bytes of the heap
MIN_DISK_BYTES_PER_S = 1e6  # bytes per second, for small scattered files; fewer bytes do not explain a wait
MAX_PAGE_MS = 20.0  # a page from a busy rotating disk; fewer pages do not explain a wait

# Conditions that vary on a machine independently of the script.
MACHINE_KINDS = ("others", "stolen", "quota", "processor", "paging", "disk", "allocator")


class SlowdownReason(Struct, frozen=True):
    """What explains that late steps are slower than early ones.

    ``ms`` is the increase per step by category. ``kind`` is a category, ``line``, ``others``, ``clock``,
    ``processor``, ``disk``, ``allocator``, ``graph``, ``call`` or empty: then nothing that was measured explains it.
    ``says`` is a clause with its numbers. ``by`` is what makes that category grow, if the machine's figures or
    tf.data show it: ``disk``, ``stage`` (of tf.data), or empty.
    """

    kind: str
    says: str
    where: tuple[Place, ...]
    ms: Mapping[Category, float]
    by: str = ""


class EarlyAndLate(Struct, frozen=True):
    """Early and late steps, as indices; increase of late ones by category; lines met in both, in ms per step."""

    trace: Trace
    early: Ints
    late: Ints
    ms: Mapping[Category, float]
    lines: tuple[tuple[Place, float, float], ...]

    @property
    def step_ms(self) -> tuple[float, float]:
        then, now = (float(self.trace.steps.ms[i].mean()) for i in (self.early, self.late))
        return then, now

    def readings(self, column: Floats | None, at: Floats | None = None) -> tuple[Floats, Floats]:
        """Return a column's finite readings during both stretches of steps; ``at``: times, if not the samples'."""
        if column is None:
            return NO_FLOATS, NO_FLOATS
        at = self.trace.samples["time_ms"] if at is None else at
        steps, is_finite = self.trace.steps, np.isfinite(column)
        edges = ((steps.start_ms[i[0]], steps.end_ms[i[-1]]) for i in (self.early, self.late))
        then, now = (column[is_finite & (at >= low) & (at <= high)] for low, high in edges)
        return then, now

    def means(self, column: Floats | None, at: Floats | None = None) -> tuple[float, float]:
        """Return the means of these readings; NaN without any."""
        then, now = (float(part.mean()) if len(part) else float("nan") for part in self.readings(column, at))
        return then, now

    def reason(self, kind: str, says: str) -> SlowdownReason:
        return SlowdownReason(kind, says, (), self.ms)

    def slowed_by(self, then: float, now: float) -> bool:
        """Return whether a change from ``then`` to ``now`` times explains most of the slowdown."""
        before, after = self.step_ms
        return then > 0 and now / then - 1 >= MIN_GROWTH_PART * (after / before - 1)


def explains_growth(before: float, after: float, all_before: float, all_after: float) -> bool:
    """Return whether one part has most of the growth, and grew much more than the rest of the step."""
    grown, whole = after - before, all_after - all_before
    rest = (all_after - after) / max(all_before - before, 1e-9) - 1
    own = after / before - 1 if before > 0 else np.inf
    return whole > 0 and grown >= MIN_GROWTH_PART * whole and own >= MIN_RATIO_TO_REST * max(rest, 0.0)


def machine_reason(sides: EarlyAndLate) -> SlowdownReason | None:
    """Return the machine figure whose change explains the slowdown, None if there is none."""
    return (
        crowding_reason(sides)
        or _gpu_clock_reason(sides)
        or _cpu_clock_reason(sides)
        or _paging_reason(sides)
        or _disk_reason(sides)
        or _malloc_reason(sides)
    )


def crowding_reason(sides: EarlyAndLate) -> SlowdownReason | None:
    """Return a loss of processors to other processes, to other virtual machines, or to the script's own quota."""
    return _other_processes_reason(sides) or _quota_reason(sides)


def _other_processes_reason(sides: EarlyAndLate) -> SlowdownReason | None:
    """Return what other processes took, if almost no core was idle: a script loses no more than they took."""
    (then, now), cores = sides.means(other_process_cores(sides.trace)), machine_cores(sides.trace)
    _, busy = sides.means(sides.trace.samples.get("cpu_mean_share"))
    if not (now - then >= MIN_CROWDING_CORES and busy >= MIN_FULL_SHARE):
        return None
    if not sides.slowed_by(1 / max(cores - then, MIN_CROWDING_CORES), 1 / max(cores - now, MIN_CROWDING_CORES)):
        return None
    stolen = sides.means(sides.trace.samples.get("steal_share"))
    if (stolen[1] - stolen[0]) * cores >= MIN_GROWTH_PART * (now - then):
        says = "the hypervisor gave {:.0%} of the cores' time to others at first and {:.0%} at the end"
        return sides.reason("stolen", says.format(*stolen))
    says = f"other processes took {format_count(then, 'processor', 2)} at first and {format_number(now, 2)} at the end"
    return sides.reason("others", says)


def _quota_reason(sides: EarlyAndLate) -> SlowdownReason | None:
    """Return the time for which the container's quota stopped the script."""
    stopped = _rise_per_step(sides, "throttled_seconds")
    before, after = sides.step_ms
    if not 1e3 * (stopped[1] - stopped[0]) >= MIN_GROWTH_PART * (after - before):
        return None
    then, now = (format_number(1e3 * seconds) for seconds in stopped)
    says = f"the container's quota stopped the process for {then} ms of a step at first and {now} ms at the end"
    return sides.reason("quota", says)


def _gpu_clock_reason(sides: EarlyAndLate) -> SlowdownReason | None:
    for key, column in sides.trace.samples.items():
        if key.startswith("gpu_sm_mhz") and (says := _clock_drop_text(sides, column, "the GPU's clock")):
            warm = sides.trace.samples.get(key.replace("sm_mhz", "celsius"))
            if warm is not None:
                says += ", its temperature went from {:.0f} to {:.0f} °C".format(*sides.means(warm))
            return sides.reason("clock", says)
    return None


def _cpu_clock_reason(sides: EarlyAndLate) -> SlowdownReason | None:
    """Return a drop of the clock of the main thread's core."""
    says = _clock_drop_text(sides, sides.trace.samples.get("cpu_mhz"), "the processor's clock")
    return sides.reason("processor", says) if says else None


def _clock_drop_text(sides: EarlyAndLate, column: Floats | None, what: str) -> str:
    """Return a clause that a clock fell, if that is most of the slowdown."""
    then, now = sides.means(column)
    if not (0 < now < MAX_CLOCK_RATIO * then and sides.slowed_by(1 / then, 1 / now)):
        return ""
    return f"{what} fell from {then:.0f} to {now:.0f} MHz"


def _paging_reason(sides: EarlyAndLate) -> SlowdownReason | None:
    """Return pages that have to be read from a disk, because they were swapped out or never in memory."""
    pages = _rise_per_step(sides, "major_faults")
    before, after = sides.step_ms
    if not pages[1] > MIN_RATIO_TO_REST * pages[0]:
        return None
    if (pages[1] - pages[0]) * MAX_PAGE_MS < MIN_GROWTH_PART * (after - before):
        return None
    then, now = (format_number(count) for count in pages)
    says = f"a step waited for {then} memory pages from a disk at first and for {now} at the end"
    return sides.reason("paging", says)


def _disk_reason(sides: EarlyAndLate) -> SlowdownReason | None:
    (then, now), (before, after) = sides.means(sides.trace.samples.get("iowait_share")), sides.step_ms
    waited = (now * after - then * before) * machine_cores(sides.trace)  # each such idle core stands for a thread
    if not (now - then >= MIN_DISK_WAIT_SHARE and waited >= MIN_GROWTH_PART * (after - before)):
        return None
    says = f"the cores waited for a disk {then:.0%} of the time at first and {now:.0%} at the end"
    return sides.reason("disk", says)


def _malloc_reason(sides: EarlyAndLate) -> SlowdownReason | None:
    """Return fragmentation of malloc's heap, which makes its searches longer."""
    free, used = (sides.means(sides.trace.samples.get(f"heap_{what}_bytes")) for what in ("free", "used"))
    then, now = (f / (f + u) if f + u > 0 else float("nan") for f, u in zip(free, used, strict=True))
    if not (now - then >= MIN_FREE_HEAP_SHARE and free[1] >= MIN_FREE_HEAP_BYTES):
        return None
    says = (
        f"{then:.0%} of malloc's heap was free but in pieces at first and {now:.0%} at the end "
        f"({memory_growth.format_bytes(free[1])})"
    )
    return sides.reason("allocator", says)


def disk_read_text(sides: EarlyAndLate, more_ms: float) -> str:
    """Return a clause that more is read from a disk than before, instead of from the page cache; empty if not."""
    then, now = _rise_per_step(sides, "read_bytes")
    if not (now > MIN_RATIO_TO_REST * then and now - then >= MIN_DISK_BYTES_PER_S * more_ms / 1e3):
        return ""
    first, last = memory_growth.format_bytes(then), memory_growth.format_bytes(now)
    return f"; a step read {first} from a disk at first and {last} at the end"


def _rise_per_step(sides: EarlyAndLate, key: str) -> tuple[float, float]:
    """Return the increase per step of a cumulative figure, early and late; NaN if it was not read."""
    number = step_numbers(sides.trace.steps)
    stretches = zip(sides.readings(sides.trace.samples.get(key)), (sides.early, sides.late), strict=True)
    then, now = (
        float(rows[-1] - rows[0]) / (float(number[i[-1]] - number[i[0]]) + 1) if len(rows) > 1 else float("nan")
        for rows, i in stretches
    )
    return then, now
