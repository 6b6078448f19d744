"""The machine's state while steps got slower: its figures early and late, if they explain the slowdown.

A change of a figure explains nothing by itself: others used a little more of a machine with idle cores, a clock fell
by a twentieth while steps doubled. Therefore each change is compared with its possible cost.
"""

from __future__ import annotations

from slowtrain.figures import counted, plain
from slowtrain.trace import Floats, growth
from slowtrain.trace.sides import MORE_THAN_REST, MOST_OF_IT, Moved, Sides, finite
from slowtrain.trace.stalled import FULL, machine_cores, others
from slowtrain.trace.trend import numbers

CROWDED = 0.2  # processors that others use more than before
DISK = 0.1  # increase, of all cores' time
SLOWER_CLOCK = 0.95  # of what it was before
IN_PIECES = 0.2  # increase, of malloc's heap
LEAST_FREE = 64e6  # free bytes of the heap
SLOWEST_DISK = 1e6  # bytes per second, for small scattered files; fewer bytes do not explain a wait
SLOWEST_PAGE_MS = 20.0  # a page from a busy rotating disk; fewer pages do not explain a wait

# Conditions that vary on a machine independently of the script.
MOODS = ("others", "stolen", "quota", "processor", "paging", "disk", "allocator")


def moved(sides: Sides) -> Moved | None:
    """Return the machine figure whose change explains the slowdown, None if there is none."""
    return crowded(sides) or _gpu(sides) or _processor(sides) or _paging(sides) or _disk(sides) or _allocator(sides)


def crowded(sides: Sides) -> Moved | None:
    """Return a loss of processors to other processes, to other virtual machines, or to the script's own quota."""
    return _others(sides) or _quota(sides)


def _others(sides: Sides) -> Moved | None:
    """Return what other processes took, if almost no core was idle: a script loses no more than they took."""
    rest, busy = others(sides.trace), sides.trace.samples.get("cpu_mean_share")
    if rest is None or busy is None:
        return None
    (then, now), cores = sides.means(rest), machine_cores(sides.trace)
    if not (now - then >= CROWDED and sides.means(busy)[1] >= FULL):
        return None
    if not sides.slowed_by(1 / max(cores - then, CROWDED), 1 / max(cores - now, CROWDED)):
        return None
    stolen = sides.trace.samples.get("steal_share")
    if stolen is not None:
        shares = sides.means(stolen)
        if (shares[1] - shares[0]) * cores >= MOST_OF_IT * (now - then):
            says = "the hypervisor gave {:.0%} of the cores' time to others at first and {:.0%} at the end"
            return Moved("stolen", says.format(*shares), (), sides.ms)
    says = f"other processes took {counted(then, 'processor', 2)} at first and {plain(now, 2)} at the end"
    return Moved("others", says, (), sides.ms)


def _quota(sides: Sides) -> Moved | None:
    """Return the time for which the container's quota stopped the script."""
    stopped = _each_step(sides, "throttled_seconds")
    before, after = sides.step_ms
    if stopped is None or not 1e3 * (stopped[1] - stopped[0]) >= MOST_OF_IT * (after - before):
        return None
    then, now = (plain(1e3 * seconds) for seconds in stopped)
    says = f"the container's quota stopped it for {then} ms of a step at first and {now} ms at the end"
    return Moved("quota", says, (), sides.ms)


def _gpu(sides: Sides) -> Moved | None:
    for key, column in sides.trace.samples.items():
        if key.startswith("gpu_sm_mhz") and (says := _fell(sides, column, "the GPU's clock")):
            warm = sides.trace.samples.get(key.replace("sm_mhz", "celsius"))
            if warm is not None:
                says += ", its temperature went from {:.0f} to {:.0f} °C".format(*sides.means(warm))
            return Moved("clock", says, (), sides.ms)
    return None


def _processor(sides: Sides) -> Moved | None:
    """Return a drop of the clock of the main thread's core."""
    column = sides.trace.samples.get("cpu_mhz")
    says = _fell(sides, column, "the processor's clock") if column is not None else ""
    return Moved("processor", says, (), sides.ms) if says else None


def _fell(sides: Sides, column: Floats, what: str) -> str:
    """Return a clause that a clock fell, if that is most of the slowdown."""
    then, now = sides.means(column)
    if not (0 < now < SLOWER_CLOCK * then and sides.slowed_by(1 / then, 1 / now)):
        return ""
    return f"{what} fell from {then:.0f} to {now:.0f} MHz"


def _paging(sides: Sides) -> Moved | None:
    """Return pages that have to be read from a disk, because they were swapped out or never in memory."""
    pages = _each_step(sides, "major_faults")
    before, after = sides.step_ms
    if pages is None or not pages[1] > MORE_THAN_REST * pages[0]:
        return None
    if (pages[1] - pages[0]) * SLOWEST_PAGE_MS < MOST_OF_IT * (after - before):
        return None
    then, now = (plain(count) for count in pages)
    says = f"a step waited for {then} pages of memory from a disk at first and for {now} at the end"
    return Moved("paging", says, (), sides.ms)


def _disk(sides: Sides) -> Moved | None:
    waits = sides.trace.samples.get("iowait_share")
    if waits is None:
        return None
    (then, now), (before, after) = sides.means(waits), sides.step_ms
    waited = (now * after - then * before) * machine_cores(sides.trace)  # each such idle core stands for a thread
    if not (now - then >= DISK and waited >= MOST_OF_IT * (after - before)):
        return None
    says = f"the cores waited for a disk {then:.0%} of the time at first and {now:.0%} at the end"
    return Moved("disk", says, (), sides.ms)


def _allocator(sides: Sides) -> Moved | None:
    """Return fragmentation of malloc's heap, which makes its searches longer."""
    columns = [sides.trace.samples.get(f"heap_{what}_bytes") for what in ("free", "used")]
    if columns[0] is None or columns[1] is None:
        return None
    free, used = sides.means(columns[0]), sides.means(columns[1])
    then, now = (f / (f + u) if f + u > 0 else float("nan") for f, u in zip(free, used, strict=True))
    if not (now - then >= IN_PIECES and free[1] >= LEAST_FREE):
        return None
    says = f"of malloc's heap {then:.0%} lay free in pieces at first and {now:.0%} at the end ({growth.size(free[1])})"
    return Moved("allocator", says, (), sides.ms)


def read(sides: Sides, more_ms: float) -> str:
    """Return a clause that more is read from a disk than before, instead of from the page cache; empty if not."""
    each = _each_step(sides, "read_bytes")
    if each is None or not each[1] > MORE_THAN_REST * each[0] or each[1] - each[0] < SLOWEST_DISK * more_ms / 1e3:
        return ""
    return f"; a step read {growth.size(each[0])} from a disk at first and {growth.size(each[1])} at the end"


def _each_step(sides: Sides, key: str) -> tuple[float, float] | None:
    """Return the increase per step of a cumulative figure, early and late; None if it was not read."""
    counted = sides.trace.samples.get(key)
    if counted is None:
        return None
    number = numbers(sides.trace.steps)
    each = []
    for index in (sides.early, sides.late):
        rows = finite(counted[sides.stretch(index)])
        if len(rows) < 2:
            return None
        each.append(float(rows[-1] - rows[0]) / (float(number[index[-1]] - number[index[0]]) + 1))
    return each[0], each[1]
