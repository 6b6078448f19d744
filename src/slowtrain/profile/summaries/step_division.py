"""Divides a step on an accelerator: what the device did, and why it waited.

There is one division for profiles and recordings. A profile's steps are divided as they are. A recording's profiler
window is divided in the same way. Then the device's work is carried over to the steps outside the window in
milliseconds, because the profiler makes neither kernels nor copies longer. The rest of the step belongs to the host,
which the profiler does slow down. It is divided in proportion to the reasons for which the device waited in the
window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Floats
from slowtrain.columns.intervals import Intervals
from slowtrain.model import CATEGORY_PHRASES, Category, IdleGap
from slowtrain.number_text import format_number
from slowtrain.profile import host_reasons
from slowtrain.profile.device_activity import COLLECTIVE, D2D, D2H, H2D, KERNEL, KIND_NAMES, MEMSET
from slowtrain.profile.profile_steps import StepTimes
from slowtrain.profile.summaries import idle_reasons
from slowtrain.profile.timeline import ProfiledDevice, Timeline

DEVICE_CATEGORIES = {  # if several kinds overlap, the first counts
    Category.DEVICE: (KERNEL, D2D, MEMSET),
    Category.COLLECTIVE: (COLLECTIVE,),
    Category.FEED: (H2D,),
    Category.READBACK: (D2H,),
}
CATEGORY_BY_REASON = {  # the category of an idle moment by its reason
    "input": Category.INPUT,
    "compile": Category.COMPILE,
    "callback": Category.CALLBACK,
    "sync": Category.READBACK,
    "d2h": Category.READBACK,
    "convert": Category.CONVERT,
    host_reasons.HOST_OP_REASON: Category.HOST_OP,
    # A host call that starts a copy is a launch, like that of a kernel. The copy itself is device work.
    **dict.fromkeys(
        ("h2d", "allocation", "eager", "dispatch", "queue", host_reasons.COMMAND_BUFFER_REASON), Category.DISPATCH
    ),
    idle_reasons.OTHER_PROCESS_REASON: Category.OTHER_PROCESS,
    host_reasons.PEERS_REASON: Category.COLLECTIVE_WAIT,
    "python": Category.PYTHON,
    "unattributed": Category.UNATTRIBUTED,
}
# Known in windows only. Without the profiler a command buffer is launched as one graph, and whether another process
# used the device is unknown.
WINDOW_ONLY_REASONS = (host_reasons.COMMAND_BUFFER_REASON, idle_reasons.OTHER_PROCESS_REASON)
# Categories of the recorder's lanes on the main thread; all other time is calls of the framework.
MAIN_LANE_CATEGORIES = {
    "next": Category.INPUT,
    "iterator": Category.INPUT,
    "feed": Category.CONVERT,
    "readback": Category.READBACK,
    "trace": Category.COMPILE,
    "build": Category.COMPILE,
    "gc": Category.GC,
    "callback": Category.CALLBACK,
    "import": Category.PYTHON,
}
REASON_BY_CATEGORY = {  # the reason of the device's wait in these lanes
    Category.INPUT: "input", Category.CONVERT: "convert", Category.READBACK: "sync", Category.COMPILE: "compile",
    Category.GC: "python", Category.CALLBACK: "callback", Category.PYTHON: "python",
}  # fmt: skip
UNSETTLED_STEPS, MIN_SETTLED_STEPS = 2, 3  # the first steps under a profiler take up to twice as long; steps to remain
LaneGroup = Category | None  # None: inside calls of the framework
LaneTable = Mapping[LaneGroup, Mapping[Category, float]]
OVERRUN_DETAIL = "after the step"


class WindowDivision(Struct, frozen=True):
    """A mean step of a window, in ms.

    ``device`` is device work by category for each lane of the main thread; the parts are disjoint. Ops that the host
    computes for the device are included, because the profiler does not make them longer either. ``call_idle`` is the
    device's idle time by reason while the main thread was in calls of the framework.
    """

    steps: int
    step_ms: float
    device: LaneTable
    call_idle: Mapping[str, float]


def settled_steps(found: StepTimes) -> StepTimes:
    """Return the steps without the first two, if enough remain."""
    return found.where(slice(UNSETTLED_STEPS, None)) if len(found) >= UNSETTLED_STEPS + MIN_SETTLED_STEPS else found


def divide_profile(
    whole: Timeline, device: ProfiledDevice, found: StepTimes
) -> tuple[idle_reasons.IdleMoments, dict[Category, Floats]]:
    """Return the device's waits, and ms of each category in each step; the categories add up to the step."""
    activities, waits = device_spans(whole, device, found)
    columns: dict[Category, Floats] = {}
    named = [*activities.items(), *((CATEGORY_BY_REASON[reason], spans) for reason, spans in waits.reasons.items())]
    for category, spans in named:
        columns[category] = columns.get(category, 0.0) + intervals.covered_length(spans, found.start_ms, found.end_ms)
    known = sum(columns.values(), np.zeros(len(found)))
    unknown = columns.get(Category.UNATTRIBUTED, np.zeros(len(found)))
    columns[Category.UNATTRIBUTED] = unknown + np.maximum(found.end_ms - found.start_ms - known, 0.0)
    return waits, columns


def device_spans(
    whole: Timeline, device: ProfiledDevice, found: StepTimes
) -> tuple[dict[Category, Intervals], idle_reasons.IdleMoments]:
    """Return when the device did what in these steps (disjoint), and its waits in between."""
    left = intervals.union(found.start_ms, found.end_ms)
    spans: dict[Category, Intervals] = {}
    for category, kinds in DEVICE_CATEGORIES.items():
        mine = intervals.intersect(left, device.activities.busy(*kinds))
        left = intervals.subtract(left, mine)
        # A processor does not exchange data by itself: its thread waits in the op for the other processes.
        waits = category is Category.COLLECTIVE and device.kind == "CPU"
        spans[Category.COLLECTIVE_WAIT if waits else category] = mine
    return spans, idle_reasons.device_idle_reasons(whole, device, left)


def divide_window(
    activities: Mapping[Category, Intervals],
    waits: idle_reasons.IdleMoments,
    found: StepTimes,
    lanes: Mapping[LaneGroup, Intervals],
) -> WindowDivision:
    """Divide a window. ``lanes``: when the main thread was in each lane; disjoint, and they cover the steps."""
    count = max(len(found), 1)

    def per_step(spans: Intervals, lane: LaneGroup) -> float:
        return intervals.total_length(intervals.intersect(spans, lanes.get(lane, intervals.EMPTY))) / count

    host_ops = waits.reasons.get(host_reasons.HOST_OP_REASON, intervals.EMPTY)
    computed = [*activities.items(), (Category.HOST_OP, host_ops)]
    device = {lane: {c: per_step(spans, lane) for c, spans in computed} for lane in lanes}
    call_idle = {
        reason: per_step(spans, None)
        for reason, spans in waits.reasons.items()
        if reason != host_reasons.HOST_OP_REASON
    }
    step_ms = float((found.end_ms - found.start_ms).mean()) if len(found) else 0.0
    return WindowDivision(len(found), step_ms, device, {r: ms for r, ms in call_idle.items() if ms > 0})


# -- from the window to the steps without a profiler


class UnprofiledSteps(Struct, frozen=True):
    """Ms of each category for each step, and the device's waits by reason in a mean steady step."""

    columns: dict[Category, Floats]
    idle: Mapping[str, float]


def divide_steps(
    lanes: Mapping[LaneGroup, Floats],
    steady: Bools,
    window: WindowDivision,
    wait_ms: float | None,
    *,
    eager: bool,
    compiling: bool,
) -> UnprofiledSteps:
    """Divide the steps outside a window.

    ``lanes``: ms of the main thread in each lane for each step. ``wait_ms``: wait for input inside calls, None if not
    measured. ``eager``: Python starts the ops one by one, so that converting their operands is part of dispatch.
    ``compiling``: the compilation inside calls was measured, and is not in ``lanes``.
    """
    found = {c: np.zeros(len(steady)) for c in Category}
    waits: dict[str, float] = {}
    spilled: dict[Category, float] = {}
    for lane, column in lanes.items():
        if lane is None:
            continue
        busy, over = _carry_device_ms(found, column, window.device.get(lane, {}), steady)
        for category, ms in over.items():
            spilled[category] = spilled.get(category, 0.0) + ms
        found[lane] += column - busy
        _add_wait(waits, REASON_BY_CATEGORY[lane], column - busy, steady)
    calls = lanes.get(None, np.zeros(len(steady)))
    inside = window.device.get(None, {})
    did = {c: inside.get(c, 0.0) + spilled.get(c, 0.0) for c in (*inside, *spilled)}
    waited = input_wait_ms(calls, steady, wait_ms or 0.0, sum(did.values()))
    found[Category.INPUT] += waited
    _add_wait(waits, "input", waited, steady)
    busy, _ = _carry_device_ms(found, calls - waited, did, steady)
    if did.get(Category.HOST_OP):
        _add_wait(waits, host_reasons.HOST_OP_REASON, busy * (did[Category.HOST_OP] / sum(did.values())), steady)
    host = calls - waited - busy
    measured = (*(("input",) if wait_ms is not None else ()), *(("compile",) if compiling else ()))
    for reason, share in _host_shares(window, measured).items():
        category = CATEGORY_BY_REASON[reason]
        # Inside calls, Python and readbacks belong to the framework itself.
        own = category in (Category.PYTHON, Category.READBACK) or (eager and category is Category.CONVERT)
        found[Category.DISPATCH if own else category] += share * host
        _add_wait(waits, reason, share * host, steady)
    return UnprofiledSteps(found, {reason: ms for reason, ms in waits.items() if ms > 0})


def _add_wait(waits: dict[str, float], reason: str, column: Floats, steady: Bools) -> None:
    if steady.any():
        waits[reason] = waits.get(reason, 0.0) + float(column[steady].mean())


def _carry_device_ms(
    found: dict[Category, Floats], column: Floats, parts: Mapping[Category, float], steady: Bools
) -> tuple[Floats, dict[Category, float]]:
    """Add the device's ms to each step as far as ``column`` has room; return what was added, and the remainder."""
    total = sum(parts.values())
    if total <= 0:
        return np.zeros(len(column)), {}
    taken = np.minimum(column, total)
    for category, ms in parts.items():
        found[category] += taken * (ms / total)
    left = 1 - float(taken[steady].mean()) / total if steady.any() else 0.0
    return taken, {category: ms * left for category, ms in parts.items()}


def input_wait_ms(calls: Floats, steady: Bools, wait_ms: float, busy_ms: float = 0.0) -> Floats:
    """Return the wait for input in each step's calls, which varies with their length.

    Its mean over the steady steps is ``wait_ms``, which was measured. Calls have ``busy_ms`` for other work.
    """
    if not steady.any():
        return np.zeros(len(calls))
    mean = float(calls[steady].mean())
    wait = min(wait_ms, max(mean - busy_ms, 0.0))
    waits = calls - np.minimum(calls, max(mean - wait, 0.0))
    over = float(waits[steady].mean())
    return np.minimum(waits * (wait / over), calls) if over > 0 else np.zeros(len(calls))


def _host_shares(window: WindowDivision, measured: Sequence[str]) -> dict[str, float]:
    """Return the share of each reason in the host's part of calls, without the reasons measured in the steps."""
    left_out = (*WINDOW_ONLY_REASONS, *measured)
    ms_by_reason = {reason: ms for reason, ms in window.call_idle.items() if reason not in left_out}
    total = sum(ms_by_reason.values())
    return {reason: ms / total for reason, ms in ms_by_reason.items()} if total > 0 else {"dispatch": 1.0}


class MarkOverrun(Struct, frozen=True):
    """``ms`` after the last step's call; for ``reason_ms`` of it the device waits for one reason.

    ``alone``: the profile has no other step, so that it is unknown whether every step has this time.
    """

    ms: float
    reason: str
    reason_ms: float
    gaps: tuple[IdleGap, ...]
    alone: bool

    @property
    def description(self) -> str:
        return f"{format_number(self.reason_ms)} ms {CATEGORY_PHRASES[CATEGORY_BY_REASON[self.reason]]}"

    @property
    def fact(self) -> dict[str, Any]:
        return {"ms": self.ms, "said": self.description}

    @property
    def note(self) -> str:
        cut = f"the profile's mark of the last step ends {format_number(self.ms)} ms after the call of its function"
        return f"{cut} ({self.description}), at an op of later work: that time is not counted as part of the step"


def find_mark_overrun(found: StepTimes, whole: Timeline, device: ProfiledDevice) -> MarkOverrun | None:
    """Return the time after the last step; None if the marks were right."""
    if found.behind is None:
        return None
    start, end = found.behind
    span = np.array([start]), np.array([end])
    busy = device.activities.busy(*range(len(KIND_NAMES)))
    waits = idle_reasons.device_idle_reasons(whole, device, intervals.subtract(span, busy))
    reason = max(waits.reasons, key=waits.ms, default=idle_reasons.UNATTRIBUTED_REASON)
    origin = float(found.start_ms[0])
    gaps = tuple(
        replace(gap, detail=OVERRUN_DETAIL) for gap in idle_reasons.longest_gaps(whole, device, waits, origin)[:1]
    )
    return MarkOverrun(end - start, reason, waits.ms(reason), gaps, len(found) == 1)


def merge_longest_gaps(gaps: tuple[IdleGap, ...], behind: MarkOverrun | None) -> tuple[IdleGap, ...]:
    """Return the longest gaps of the steps and of the time after the last one."""
    every = (*gaps, *(behind.gaps if behind is not None else ()))
    return tuple(sorted(every, key=lambda gap: -gap.ms)[: idle_reasons.MAX_LONGEST_GAPS])
