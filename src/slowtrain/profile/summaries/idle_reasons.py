"""Why a device waits: every idle moment gets a reason from what the host was doing at that time.

The kernel that ends a gap identifies its host call, and the call its thread. The reason is what this thread was in
before the call. If the thread was idle, the reason is what other threads did. If no thread did anything that the
profiler records, it is Python between two calls of the framework. A kernel whose call returned before the gap began
waited in the device's own queue.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Floats, Ints, distinct_values
from slowtrain.columns.intervals import Intervals
from slowtrain.model import IdleGap
from slowtrain.profile import framework_names, host_reasons, host_threads
from slowtrain.profile.device_activity import COLLECTIVE, KERNEL, Activities
from slowtrain.profile.host_threads import HostThread
from slowtrain.profile.summaries import missing_data
from slowtrain.profile.timeline import ProfiledDevice, Timeline, launch_calls

QUEUE_REASON, PYTHON_REASON, DISPATCH_REASON, EAGER_REASON = "queue", "python", "dispatch", "eager"
INPUT_REASON, UNATTRIBUTED_REASON, OTHER_PROCESS_REASON = "input", "unattributed", "other-process"
SYNC_REASON, AWAITED_REASON = "sync", "awaited"
MIN_DETAIL_GAP_SHARE = 0.1  # a span that covers less of a gap does not describe it
MAX_BETWEEN_OPS_MS = 0.5  # shorter Python between two eager ops belongs to dispatching them
# A framework call with a longer stretch without named spans does not start ops: in 79 recorded profiles the longest
# such stretch takes 17 ms.
MAX_DISPATCH_MS = 250.0
MAX_LONGEST_GAPS = 10
MIN_GAP_MS = 1e-6  # shorter gaps are below the clock's resolution
# On an idle device a kernel starts within some microseconds after its launch returned. On an H200 later starts were
# seen in profiles with other processes on the card (0.1 to 4.3 ms a step) and not without (0.00 to 0.05 ms).
MIN_OTHER_PROCESS_MS = 0.05


class IdleMoments(Struct, frozen=True):
    """Idle moments by reason; the reasons are disjoint and together equal ``gaps``."""

    gaps: Intervals
    reasons: dict[str, Intervals]
    hidden_ms: float = 0.0  # unattributed time in which hidden graphs may have run

    def ms(self, reason: str) -> float:
        return intervals.total_length(self.reasons[reason]) if reason in self.reasons else 0.0


def device_idle_reasons(timeline: Timeline, device: ProfiledDevice, gaps: Intervals) -> IdleMoments:
    """Return ``gaps`` of ``device`` with a reason for each moment."""
    start, end = gaps
    if not (keep := end - start > MIN_GAP_MS).all():
        start, end = start[keep], end[keep]
    threads = [t for t in timeline.threads if t.host == device.host]
    found: dict[str, list[Intervals]] = {}
    left = _take_reason(found, UNATTRIBUTED_REASON, (start, end), missing_data.hidden_graph_times(timeline, device))
    hidden_ms = sum(map(intervals.total_length, found.get(UNATTRIBUTED_REASON, ())))
    left = _take_reason(found, OTHER_PROCESS_REASON, left, _delays_after_launch(device.activities, threads, left))
    left = _take_by_launch(found, device.activities, threads, left)
    for reason in _REASON_ORDER:
        if reason == EAGER_REASON:
            left = _take_other_threads(found, threads, left)
        spans = [t.of(reason) for t in threads if not (reason == INPUT_REASON and t.makes_input)]
        left = _take_reason(found, reason, left, intervals.union_all(spans))
    left = _take_reason(found, EAGER_REASON, left, intervals.union_all([_gaps_between_ops(t) for t in threads]))
    left = _take_reason(found, SYNC_REASON, left, intervals.union_all([t.of(AWAITED_REASON) for t in threads]))
    _take_main_python(found, threads, left)
    reasons = {reason: intervals.union_all(parts) for reason, parts in found.items()}
    _doubt_long_dispatch(reasons)
    _separate_command_buffers(reasons, intervals.union_all([t.of(host_reasons.COMMAND_BUFFER_REASON) for t in threads]))
    return IdleMoments((start, end), {r: i for r, i in reasons.items() if len(i[0])}, hidden_ms)


# Of several reasons at one moment the first counts: what a thread waits for in a call comes before the call.
_REASON_ORDER = (
    "compile", "input", host_reasons.HOST_OP_REASON, "sync", "d2h", "callback", "convert", "h2d", "allocation",
    "eager", "dispatch", "python",
)  # fmt: skip


def _delays_after_launch(activities: Activities, threads: Sequence[HostThread], gaps: Intervals) -> Intervals:
    """Return the end of each gap after the next kernel was launched, if this process had no other work for the device.

    If this takes longer than a kernel usually needs to start, another process used the device.
    """
    start, end = gaps
    if not len(activities) or not len(start):
        return intervals.EMPTY
    following = np.minimum(np.searchsorted(activities.start_ms, end - MIN_GAP_MS), len(activities) - 1)
    caller, _, returned = launch_calls(threads, activities.correlation[following])
    # A kernel launched while the previous one ran waited in this process's own queue.
    launched = (caller >= 0) & (returned >= start)
    ready = np.where(launched, returned, end)
    ends_gap = activities.start_ms[following] >= end - 2 * MIN_GAP_MS  # the last gap has nothing after it
    late = ends_gap & (activities.kind[following] == KERNEL) & (end - ready > MIN_OTHER_PROCESS_MS)
    return ready[late], end[late]


def _doubt_long_dispatch(reasons: dict[str, Intervals]) -> None:
    """Move long stretches of a call without named spans to unattributed."""
    start, end = reasons.get(DISPATCH_REASON, intervals.EMPTY)
    long = end - start > MAX_DISPATCH_MS
    if long.any():
        reasons[DISPATCH_REASON] = start[~long], end[~long]
        reasons[UNATTRIBUTED_REASON] = intervals.union_all(
            [reasons.get(UNATTRIBUTED_REASON, intervals.EMPTY), (start[long], end[long])]
        )


def _separate_command_buffers(reasons: dict[str, Intervals], buffered: Intervals) -> None:
    """Make the host's work inside a command buffer, which the profiler turns off, a reason of its own."""
    if not len(buffered[0]):
        return
    unaffected = (OTHER_PROCESS_REASON, UNATTRIBUTED_REASON, INPUT_REASON)
    others = [(reason, spans) for reason, spans in reasons.items() if reason not in unaffected]
    reasons |= {reason: intervals.subtract(spans, buffered) for reason, spans in others}
    reasons[host_reasons.COMMAND_BUFFER_REASON] = intervals.union_all(
        [intervals.intersect(spans, buffered) for _, spans in others]
    )


def _take_by_launch(
    found: dict[str, list[Intervals]], activities: Activities, threads: Sequence[HostThread], gaps: Intervals
) -> Intervals:
    """Take what the call that started the kernel after a gap explains; return the rest."""
    if not any(len(t.launches[0]) for t in threads):
        return intervals.union_all([gaps])
    start, end = gaps
    caller, called, returned = _launching_threads(activities, threads, end)
    queued = returned <= start
    _add_part(found, QUEUE_REASON, (start[queued], end[queued]))
    rest = [(start[caller < 0], end[caller < 0])]
    copying = intervals.union_all([t.of("h2d") for t in threads if t.label.startswith(framework_names.PJRT_POOL)])
    for number in distinct_values(caller[(caller >= 0) & ~queued]):
        mine = (caller == number) & ~queued
        launch = np.clip(called[mine], start[mine], end[mine])
        _add_part(found, DISPATCH_REASON, _non_empty((launch, end[mine])))
        rest.append(_take_own_spans(found, threads[number], _non_empty((start[mine], launch)), copying))
    return intervals.union_all(rest)


def _take_own_spans(
    found: dict[str, list[Intervals]], thread: HostThread, left: Intervals, copying: Intervals
) -> Intervals:
    """Take what the launching thread's own spans explain; return the rest. ``copying``: others copied its arguments."""
    left = _take_reason(found, "h2d", left, intervals.intersect(thread.awaiting_arguments, copying))
    for reason in _REASON_ORDER[:-1]:
        left = _take_reason(found, reason, left, thread.of(reason))
    # A thread that runs Python does not wait for another thread.
    return _take_reason(found, PYTHON_REASON, left, thread.in_python)


def _take_reason(found: dict[str, list[Intervals]], reason: str, left: Intervals, spans: Intervals) -> Intervals:
    """Assign ``reason`` to the part of ``left`` inside ``spans``; return the rest."""
    mine = intervals.intersect(left, spans)
    _add_part(found, reason, mine)
    return intervals.subtract(left, spans) if len(mine[0]) else left


def _take_other_threads(found: dict[str, list[Intervals]], threads: Sequence[HostThread], left: Intervals) -> Intervals:
    """Assign what threads do while a framework call waits: making input, or waiting for other processes.

    In short gaps between ops such work only happens at the same time, and is not the reason.
    """
    inside = intervals.union_all([t.of(EAGER_REASON, DISPATCH_REASON) for t in threads])
    for reason, reported in (
        (host_reasons.READING_REASON, INPUT_REASON),
        (host_reasons.PEERS_REASON, host_reasons.PEERS_REASON),
    ):
        spans = intervals.intersect(inside, intervals.union_all([t.of(reason) for t in threads if not t.makes_input]))
        start, end = left
        long = _non_empty((start, np.where(end - start >= MAX_BETWEEN_OPS_MS, end, start)))
        left = _take_reason(found, reported, left, intervals.intersect(long, spans)) if len(spans[0]) else left
    return left


def _take_main_python(found: dict[str, list[Intervals]], threads: Sequence[HostThread], left: Intervals) -> None:
    """Assign time between framework calls on the main thread to Python.

    Time before its first and after its last call has no known reason.
    """
    main = host_threads.find_main_thread(threads)
    if main is not None and len(main.start_ms) > 1:
        inside = (np.array([main.start_ms[0]]), np.array([main.end_ms.max()]))
        left = _take_reason(found, PYTHON_REASON, left, inside)
    _add_part(found, UNATTRIBUTED_REASON, left)


def _gaps_between_ops(thread: HostThread) -> Intervals:
    """Return short gaps between ops that Python starts one by one."""
    start, end = thread.of(EAGER_REASON)
    return _non_empty((end[:-1], np.where(start[1:] - end[:-1] < MAX_BETWEEN_OPS_MS, start[1:], end[:-1])))


def _add_part(found: dict[str, list[Intervals]], reason: str, part: Intervals) -> None:
    if len(part[0]):
        found.setdefault(reason, []).append(part)


def _non_empty(part: Intervals) -> Intervals:
    keep = part[1] > part[0]
    return part[0][keep], part[1][keep]


def _launching_threads(
    activities: Activities, threads: Sequence[HostThread], end: Floats
) -> tuple[Ints, Floats, Floats]:
    """Return for each gap the thread that launched the work that ends it (-1: unknown), and that call's start and end.

    If a copy ends the gap and the next kernel was not yet launched, the kernel's thread is used instead.
    """
    if not len(activities):
        return launch_calls(threads, np.zeros(len(end), dtype=np.int64))
    following = np.minimum(np.searchsorted(activities.start_ms, end - MIN_GAP_MS), len(activities) - 1)
    caller, called, returned = launch_calls(threads, activities.correlation[following])
    computing = np.flatnonzero(np.isin(activities.kind, (KERNEL, COLLECTIVE)))
    if not len(computing):
        return caller, called, returned
    kernel = computing[np.minimum(np.searchsorted(computing, following), len(computing) - 1)]
    by, began, done = launch_calls(threads, activities.correlation[kernel])
    later = (kernel > following) & (by >= 0) & (began >= end)
    return np.where(later, by, caller), np.where(later, began, called), np.where(later, done, returned)


# -- the longest gaps


def longest_gaps(
    timeline: Timeline, device: ProfiledDevice, idle: IdleMoments, origin_ms: float
) -> tuple[IdleGap, ...]:
    """Return the longest gaps, each with its main reason and a detail of it."""
    start, end = idle.gaps
    found = []
    threads = [t for t in timeline.threads if t.host == device.host]
    for i in _smallest_rows(start - end, MAX_LONGEST_GAPS):
        one = (start[i : i + 1], end[i : i + 1])
        shares = {r: intervals.total_length(intervals.intersect(one, spans)) for r, spans in idle.reasons.items()}
        reason = max(shares, key=lambda r: shares[r], default=UNATTRIBUTED_REASON)
        part = shares.get(reason, 0.0) / max(float(end[i] - start[i]), 1e-12)
        detail = _gap_detail(threads, device, reason, float(start[i]), float(end[i]))
        found.append(IdleGap(float(start[i]) - origin_ms, float(end[i] - start[i]), reason, part, detail))
    return tuple(found)


def _smallest_rows(column: Floats, count: int) -> Ints:
    """Return the rows of the smallest numbers, in order."""
    rows = np.arange(len(column))
    if len(column) > count:
        rows = np.flatnonzero(column <= np.partition(column, count - 1)[count - 1])
    return rows[np.argsort(column[rows], kind="stable")[:count]]


def _gap_detail(threads: Sequence[HostThread], device: ProfiledDevice, reason: str, start: float, end: float) -> str:
    """Return the stage, frame, call or kernel that the gap waited for."""
    if reason in (QUEUE_REASON, DISPATCH_REASON):
        at = int(np.searchsorted(device.activities.start_ms, end - MIN_GAP_MS))
        if at < len(device.activities):
            op = int(device.activities.op[at])
            return f"before {device.activities.texts[op if op >= 0 else int(device.activities.name[at])]}"[:160]
        return ""
    wanted = [
        host_reasons.REASONS.index(r)
        for r in (reason, *([AWAITED_REASON] if reason == SYNC_REASON else []))
        if r in host_reasons.REASONS
    ]
    best, length = "", MIN_DETAIL_GAP_SHARE * (end - start)
    for thread in threads:
        near = slice(*np.searchsorted(thread.start_ms, (start - 1e4, end)))
        rows = near.start + np.flatnonzero(np.isin(thread.reason[near], wanted) & (thread.end_ms[near] > start))
        over = np.minimum(thread.end_ms[rows], end) - np.maximum(thread.start_ms[rows], start)
        if over.max(initial=0) <= 0:
            continue
        # The innermost span that covers nearly as much as the longest one is most specific.
        candidates = np.flatnonzero(over >= 0.9 * over.max())
        inner = candidates[np.argmin(thread.end_ms[rows[candidates]] - thread.start_ms[rows[candidates]])]
        producing = thread.makes_input and reason == INPUT_REASON
        if over[inner] * (2 if producing else 1) > length:
            best, length = thread.texts[int(thread.name[rows[inner]])], float(over[inner]) * (2 if producing else 1)
    return best[:160]
