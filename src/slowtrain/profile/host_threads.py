"""Host threads of a profile: spans that can explain a device's wait, calls that started device work, op executions.

Also calls of tf.functions, which of them traced, and which thread is the main one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns import intervals
from slowtrain.columns.arrays import NO_INTS, Bools, Codes, Floats, Ints
from slowtrain.profile import framework_names, host_reasons
from slowtrain.profile.device_activity import (
    COLLECTIVE,
    KERNEL,
    Activities,
    constant_column,
    join_activities,
)
from slowtrain.profile.format import xplane

SPAN_STATS = (framework_names.CORRELATION_ID, framework_names.STEP_NUM, framework_names.HLO_OP)
CALL_STATS = frozenset({framework_names.FUNCTION_CALL, framework_names.TRACING_COUNT})
_CALL_PREFIXES = (
    framework_names.PJIT_CALL,
    *(f"{call}{prefix}" for call in framework_names.EAGER_CALLS for prefix in framework_names.FUNCTION_PREFIXES),
)
_EAGER_PREFIXES = (*framework_names.EAGER_CALLS, framework_names.EAGER_FAST_PATH)


class HostThread(Struct, frozen=True):
    """Spans of one host thread in order of their start. ``reason`` and ``name`` index ``REASONS`` and ``texts``."""

    label: str
    host: str
    start_ms: Floats
    end_ms: Floats
    reason: Codes  # into names.REASONS, -1: no reason
    name: Codes
    texts: tuple[str, ...]
    launches: tuple[Floats, Floats, Ints, Ints]  # start, end, correlation, name of calls that started device work
    step_num: Ints | None = None  # of spans that are steps, else -1
    calls: FunctionCalls | None = None  # of tf.functions

    @property
    def makes_input(self) -> bool:
        """Whether the thread makes input ahead of time; its spans are not waits of the step."""
        return self.label.startswith(framework_names.INPUT_THREADS) and not self.label.startswith(
            framework_names.GET_NEXT_THREADS
        )

    @property
    def in_python(self) -> intervals.Intervals:
        """When the thread ran Python code, from the Python tracer's frames, without the time that it waited in them."""
        return intervals.subtract(self.of("python"), self.time_inside(framework_names.WAITING_FRAME))

    @property
    def awaiting_arguments(self) -> intervals.Intervals:
        """When the thread was in the call of a program, before the first kernel launch."""
        return intervals.subtract(
            self.time_inside(framework_names.PJRT_CALL), self.time_inside(framework_names.PJRT_LAUNCHING)
        )

    def time_inside(self, pattern: str) -> intervals.Intervals:
        """Return when the thread was inside spans whose names match."""
        mine = np.array([re.match(pattern, t) is not None for t in self.texts], dtype=bool)
        rows = np.flatnonzero(mine[self.name]) if len(self.name) else NO_INTS
        return intervals.union(self.start_ms[rows], self.end_ms[rows])

    def with_spans(self, reason: str, name: str, spans: intervals.Intervals) -> HostThread:
        """Return the thread with additional spans, which the recorder noted."""
        count = len(spans[0])
        start, end = (np.concatenate(pair) for pair in ((self.start_ms, spans[0]), (self.end_ms, spans[1])))
        why = np.concatenate((self.reason, np.full(count, host_reasons.REASONS.index(reason))))
        code = np.concatenate((self.name, np.full(count, len(self.texts))))
        step = None if self.step_num is None else np.concatenate((self.step_num, np.full(count, -1)))
        order = np.argsort(start, kind="stable")
        return replace(self, start_ms=start[order], end_ms=end[order], reason=why[order], name=code[order],
                       texts=(*self.texts, name), step_num=None if step is None else step[order])  # fmt: skip

    def of(self, *reasons: str) -> intervals.Intervals:
        """Return when the thread was inside spans of these reasons."""
        mine = np.zeros(len(self.reason), dtype=bool)
        for reason in reasons:
            mine |= self.reason == host_reasons.REASONS.index(reason)
        rows = np.flatnonzero(mine)
        return intervals.union(self.start_ms[rows], self.end_ms[rows])


def read_threads(
    space: xplane.Space, host: str, until_ps: int | None, *, devices: bool
) -> tuple[list[HostThread], Activities]:
    """Return the host's threads; and, if no device worked, the op executions on the host as device activities."""
    found: list[HostThread] = []
    ops: list[Activities] = []
    for plane in space.planes:
        if plane.name != framework_names.HOST_PLANE:
            continue
        known = set(plane.stat_names.values())
        stats = [s for s in SPAN_STATS if s in known]
        # Events of the framework's own threads without a reason can be skipped by name, before they are decoded.
        named = None if stats else plane.wanted_ids(_is_meaningful)
        for line in plane.lines:
            # Python calls functions from its own threads only.
            own = line.name.startswith("tf_")
            events = line.events(stats if own else [*stats, *known & CALL_STATS], named if own else None, until_ps)
            if not len(events):
                continue
            thread, computing = _read_thread(plane, line, events, host, devices=devices)
            if len(thread.start_ms) or len(thread.launches[0]):
                found.append(thread)
            if not devices and computing is not None and not line.name.startswith(framework_names.INPUT_THREADS):
                ops.append(computing)
    return found, join_activities(ops)


def _is_meaningful(text: str) -> bool:
    """Return whether a name gives a reason or an op."""
    op = host_reasons.is_graph_op(text) or text == framework_names.XLA_CPU_REST
    return op or host_reasons.host_reason(text) is not None


def _read_thread(
    plane: xplane.Plane, line: xplane.Line, events: xplane.Events, host: str, *, devices: bool
) -> tuple[HostThread, Activities | None]:
    texts, code = plane.event_texts(events.metadata_id)
    start = events.start_ps / 1e9
    end = start + events.duration_ps / 1e9
    reason = np.array([host_reasons.reason_index(text, devices=devices) for text in texts], dtype=np.int8)[code]
    reason[host_reasons.frames_begun_before(start, code, texts)] = -1
    host_reasons.mark_compiling_calls(start, end, code, texts, reason)
    host_reasons.mark_loop_ops(start, end, code, texts, reason)
    parts = (_op_executions(line, events, start, end, code, texts), _eager_executions(line, start, end, code, texts))
    ops = join_activities([part for part in parts if part is not None])
    calls = read_calls(events, start, end, code)
    if calls is not None:
        compiling, calling = host_reasons.REASONS.index("compile"), host_reasons.REASONS.index("dispatch")
        reason[calls[1]] = np.where(calls[0].traced, compiling, calling)
        end = end.copy()
        end[calls[1]] = tracing_ends(
            calls[0], np.sort(start[host_reasons.matches_text(texts, code, framework_names.FUNCTION_RUN)])
        )
    step = _filled_stat(events, framework_names.STEP_NUM, -1)
    correlation = _filled_stat(events, framework_names.CORRELATION_ID, 0)
    launch = np.flatnonzero(correlation > 0) if correlation is not None else NO_INTS
    launches = (start[launch], end[launch], NO_INTS if correlation is None else correlation[launch], code[launch])
    if devices and not line.name.startswith(framework_names.INPUT_THREADS):
        reason[host_reasons.host_computed_ops(start, end, code, texts, launches[0])] = host_reasons.REASONS.index(
            host_reasons.HOST_OP_REASON
        )
    keep = np.flatnonzero((reason >= 0) | (step >= 0) if step is not None else reason >= 0)
    if (np.diff(start[keep]) < 0).any():
        keep = keep[np.argsort(start[keep], kind="stable")]
    thread = HostThread(
        line.name, host, start[keep], end[keep], reason[keep], code[keep], texts, launches,
        step[keep] if step is not None and (step[keep] >= 0).any() else None, calls[0] if calls is not None else None,
    )  # fmt: skip
    return thread, ops if len(ops) else None


def _op_executions(
    line: xplane.Line, events: xplane.Events, start: Floats, end: Floats, code: Codes, texts: tuple[str, ...]
) -> Activities | None:
    """Return the op executions of graphs and of XLA programs."""
    op = np.array([host_reasons.is_graph_op(t) or t == framework_names.XLA_CPU_REST for t in texts], dtype=bool)[code]
    if (hlo := events.stats.get(framework_names.HLO_OP)) is not None:
        op[hlo.rows] = True
    rows = np.flatnonzero(op)
    return _op_activities(line, start[rows], end[rows], code[rows], texts) if len(rows) else None


def without_peer_waits(ops: Activities) -> Activities:
    """Remove waits for the rest of an XLA program during which an op waits for other processes: it is the same wait."""
    rest = np.array([t == framework_names.XLA_CPU_REST for t in ops.texts], dtype=bool)[ops.name]
    peers = ops.busy(COLLECTIVE)
    if not rest.any() or not len(peers[0]):
        return ops
    first = np.flatnonzero(rest)[:1]
    start, end = intervals.subtract(intervals.union(ops.start_ms[rest], ops.end_ms[rest]), peers)
    left = ops.where(np.repeat(first, len(start)))
    return join_activities([ops.where(~rest), replace(left, start_ms=start, end_ms=end)])


def _eager_executions(
    line: xplane.Line, start: Floats, end: Floats, code: Codes, texts: tuple[str, ...]
) -> Activities | None:
    """Return the ops that Python started one by one: the runs of their kernels, named by the enclosing calls."""
    kinds = [framework_names.eager_op(t) for t in texts]
    call = np.flatnonzero(np.array([t.startswith(framework_names.EAGER_LOCAL) for t in texts], dtype=bool)[code])
    run = np.flatnonzero(host_reasons.matches_text(texts, code, framework_names.EAGER_RUN))
    if not len(call) or not len(run):
        return None
    call, run = call[np.argsort(start[call], kind="stable")], run[np.argsort(start[run], kind="stable")]
    around = call[np.maximum(np.searchsorted(start[call], start[run], side="right") - 1, 0)]
    own = np.array([k is not None and k not in framework_names.CALLER_OPS for k in kinds], dtype=bool)[code[around]]
    run, around = run[own & (end[run] <= end[around])], around[own & (end[run] <= end[around])]
    return (
        _op_activities(line, start[run], end[run], code[around], tuple(f"{k}:{k}" for k in kinds)) if len(run) else None
    )


def _op_activities(line: xplane.Line, start: Floats, end: Floats, code: Codes, texts: tuple[str, ...]) -> Activities:
    """Return op executions on processors; ops that wait for other processes become collectives.

    Ops that log, save or decode are left out, because they do not compute the model.
    """
    peers = np.array([host_reasons.waits_for_peers(t) for t in texts], dtype=bool)[code]
    model = np.array([host_reasons.is_model_op(t) for t in texts], dtype=bool)[code] | peers
    if not model.all():
        start, end, code, peers = start[model], end[model], code[model], peers[model]
    n = len(start)
    kind = np.where(peers, COLLECTIVE, KERNEL) if peers.any() else constant_column(KERNEL, n)
    return Activities(
        start, end, kind, code, code, constant_column(line.id, n), constant_column(0, n), constant_column(0.0, n), texts
    )


def _filled_stat(events: xplane.Events, stat: str, missing: int) -> Ints | None:
    found = events.stats.get(stat)
    return found.per_event(missing).astype(np.int64) if found is not None and len(found.rows) else None


class FunctionCalls(Struct, frozen=True):
    """Calls in order of their start. ``name`` indexes the thread's texts; ``nth`` counts traces including this one."""

    start_ms: Floats
    end_ms: Floats
    name: Ints
    nth: Ints  # 0: unknown
    traced: Bools


def read_calls(events: xplane.Events, start: Floats, end: Floats, code: Ints) -> tuple[FunctionCalls, Ints] | None:
    """Return the calls and their rows, None if there are none. ``end`` and ``code`` belong to all events."""
    stat = events.stats.get(framework_names.FUNCTION_CALL)
    if stat is None or not len(stat.rows):
        return None
    rows = stat.rows[np.argsort(start[stat.rows], kind="stable")]
    traced = np.array([*(t.startswith(framework_names.TRACED_PREFIX) for t in stat.texts), False])[stat.labels()[rows]]
    count = events.stats.get(framework_names.TRACING_COUNT)
    nth = count.per_event(0).astype(np.int64)[rows] if count is not None else np.zeros_like(rows)
    return FunctionCalls(start[rows], end[rows], code[rows], nth, traced), rows


def tracing_ends(calls: FunctionCalls, runs: Floats) -> Floats:
    """Return when each call's graph began to run; in a call that traces, the time before is tracing.

    ``runs``: when graphs of the thread began to run, in order. Calls without a run give their end.
    """
    if not len(runs):
        return calls.end_ms
    begun = runs[np.maximum(np.searchsorted(runs, calls.end_ms) - 1, 0)]
    inside = (begun > calls.start_ms) & (begun < calls.end_ms)
    return np.where(calls.traced & inside, begun, calls.end_ms)


def find_main_thread(threads: Sequence[HostThread]) -> HostThread | None:
    """Return the thread that calls the training functions, else the one with Python's name, else one that runs Python.

    None if no thread runs Python. TensorFlow's pools also run Python (``py_function``); they are excluded.
    """
    known = [
        (_main_thread_rank(t), i, t)
        for i, t in enumerate(threads)
        if not t.label.startswith(framework_names.FRAMEWORK_THREADS)
    ]
    rank, _, best = max(known, key=lambda k: (k[0], -k[1]), default=((), 0, None))
    return best if any(rank[:-1]) else None


def _main_thread_rank(thread: HostThread) -> tuple[bool, bool, int, int, int, int]:
    """Return the signs of the main thread, strongest first: function calls, name, eager ops, frames, spans."""
    count = np.bincount(thread.name, minlength=len(thread.texts))
    calls, ops, frames = (
        int(count[[i for i, text in enumerate(thread.texts) if text.startswith(prefixes)]].sum())
        for prefixes in (_CALL_PREFIXES, _EAGER_PREFIXES, framework_names.PYTHON_CALL)
    )
    named = re.fullmatch(framework_names.PYTHON_THREAD, thread.label) is not None
    return calls > 0, named, calls, ops, frames, len(thread.start_ms)
