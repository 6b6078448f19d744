"""What ran inside the deep windows: op executions from the profiler's own planes, per step.

The profiler counts from its start, which it gives as a time of day. The recorder's clock is monotonic, and the
recorder noted both clocks at once. Therefore each op is assigned to its step, and work between steps (validation,
callbacks) to no step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Codes, Floats, median_value, quantile
from slowtrain.columns.device import Kernels
from slowtrain.model import Bar
from slowtrain.profile import framework_names, host_reasons
from slowtrain.profile.format import xplane
from slowtrain.profile.profile_steps import StepTimes
from slowtrain.profile.summaries.host_activity import is_function_call, is_made_of_small_calls

MAX_BARS = 400
MAX_NAMED_OPS = 400  # the costliest ops, each listed by itself
MAX_OP_NAMES = 4000  # in total, because a file may hold any number
INNER_NUMBER = re.compile(r"_\d+(?=[/:]|$)")


class ProfileWindow(Struct, frozen=True):
    """A profile and the steps inside it, in ms of the run. ``origin_ms`` is the time from which its lines count."""

    space: xplane.Space
    origin_ms: float
    steps: StepTimes


class _EventRows(Struct, frozen=True):
    """Events of one kind in ms of the run."""

    text: Sequence[str]
    code: Codes
    start_ms: Floats
    end_ms: Floats


def open_window(path: Path, clock_ms: float, begun_ms: float, steps: StepTimes) -> ProfileWindow:
    """Read a window's profile. Raises ``InputError`` or ``OSError``.

    ``clock_ms`` is the difference between the run's time and the time of day. ``begun_ms`` is when the profiler was
    started, for files that do not contain it (before TensorFlow 2.16).
    """
    space = xplane.read_space(path)
    starts = (plane.stats.get(framework_names.PROFILE_START) for plane in space.planes if plane.stats)
    begun = next((start for start in starts if isinstance(start, int)), None)
    origin_ms = begun_ms + space.origin_ns / 1e6 if begun is None else (begun + space.origin_ns) / 1e6 + clock_ms
    return ProfileWindow(space, origin_ms, steps)


def host_window_ops(space: xplane.Space, origin_ms: float, found: StepTimes, *, whole: bool = False) -> Kernels | None:
    """Return what the host ran in these steps; ``origin_ms`` is the profile's start on their clock.

    ``whole``: also read what input threads did after the last step; a long profile has no room for it. None if
    nothing ran. Raises ``InputError`` for broken events.
    """
    lines = list(_thread_rows(space, origin_ms, found, whole))
    steps, start_ms, end_ms = len(found), found.start_ms, found.end_ms
    own = [rows for _, rows, is_op in lines if is_op]
    ops = [_filter_rows(rows, host_reasons.is_model_op) for rows in own]
    waits = [_filter_rows(rows, host_reasons.waits_for_peers) for rows in own]
    peers = intervals.union_all((r.start_ms, r.end_ms) for r in waits)
    other = [rows for _, rows, is_op in lines if is_op is False]
    if not ops and not other:
        return None
    start = np.concatenate([r.start_ms for r in ops] or [np.zeros(0)])
    end = np.concatenate([r.end_ms for r in ops] or [np.zeros(0)])
    alone = intervals.subtract(peers, intervals.union(start, end))
    by_type, by_name = _op_tables(ops, steps)
    feeding = [(r, is_op) for name, r, is_op in lines if name.startswith(framework_names.INPUT_THREADS)]
    by_input, _ = _op_tables((_filter_rows(r, _is_op) for r, is_op in feeding if is_op is not None), steps)
    if not by_input:  # a large buffer is filled before the steps that use it
        by_input, _ = _op_tables((_filter_rows(r, _is_op) for r, is_op in feeding if is_op is None), steps)
    other_rows = [r for r, is_op in feeding if is_op is False]
    by_input = _op_tables(map(_begun_dataset_rows, other_rows), steps)[0] | by_input
    calls = _sum_ms(other, is_function_call)
    runs = _sum_ms(other, lambda t: t == framework_names.EAGER_RUN)
    eager = _count_rows(
        other, lambda t: framework_names.eager_op(t) not in (None, *framework_names.LOOP_OPS)
    ) or _single_jax_calls(other, steps)
    busy = intervals.covered_length(intervals.union(start, end), start_ms, end_ms)
    return Kernels(
        steps,
        float((end_ms - start_ms).mean()),
        float(busy.mean()),
        float((end - start).sum()) / steps,
        len(start) / steps,
        _sum_ms(other, lambda t: t in framework_names.GET_NEXT_OPS) / steps,
        by_type,
        by_name,
        eager / steps,
        max(runs - calls, 0.0) / steps,
        calls / steps,
        _median_step_bars(lines, found),
        _eager_work_ms(other, found),
        by_input=by_input,
        peers_ms=float(intervals.covered_length(alone, start_ms, end_ms).mean()),
        input_calls=_count_rows(other_rows, lambda t: t.startswith(framework_names.ITERATOR_NEXT_FUNCTION)) / steps,
    )


def _thread_rows(
    space: xplane.Space, origin_ms: float, found: StepTimes, whole: bool
) -> Iterator[tuple[str, _EventRows, bool | None]]:
    """Yield for each host thread its op executions (True) and its other events (False) inside the steps.

    None marks what a thread of the input pipeline ran outside the steps.
    """
    for plane in space.planes:
        if plane.name != framework_names.HOST_PLANE:
            continue
        compiled = [framework_names.HLO_OP] if framework_names.HLO_OP in plane.stat_names.values() else []
        before_ps = None if whole or not len(found) else int((float(found.end_ms.max()) - origin_ms) * 1e9) + 1
        for line in plane.lines:
            events = line.events(compiled, before_ps=before_ps)
            if not len(events):
                continue
            start = origin_ms + events.start_ps / 1e9
            end = start + events.duration_ps / 1e9
            inside = intervals.containing_range(found.start_ms, found.end_ms, start) >= 0
            text, inverse = plane.event_texts(events.metadata_id)
            hlo = np.zeros(len(start), dtype=bool)
            if (stat := events.stats.get(framework_names.HLO_OP)) is not None:
                hlo[stat.rows] = True
            # Ops on tf.data's threads make input; they are not part of the step's computation.
            feeding = line.name.startswith(framework_names.INPUT_THREADS)
            op = np.array([_is_op(t) for t in text])[inverse] | hlo
            mine, rest = op & inside & (not feeding), (~op | feeding) & inside
            groups: list[tuple[Bools, bool | None]] = [(mine, True), (rest, False), (op & ~inside & feeding, None)]
            for keep, is_op in groups:
                if keep.any():
                    yield line.name, _EventRows(text, inverse[keep], start[keep], end[keep]), is_op


def _filter_rows(rows: _EventRows, wanted: Callable[[str], bool]) -> _EventRows:
    keep = _matching_rows(rows, wanted)
    return replace(rows, code=rows.code[keep], start_ms=rows.start_ms[keep], end_ms=rows.end_ms[keep])


def _begun_dataset_rows(rows: _EventRows) -> _EventRows:
    """Return rows that start iterating a data set, as ops of its type.

    The op that makes the data set is often too short to be recorded.
    """
    text = [f"begun:{t.partition('#')[0].removeprefix(framework_names.MAKE_ITERATOR)}" for t in rows.text]
    return replace(_filter_rows(rows, lambda t: t.startswith(framework_names.MAKE_ITERATOR)), text=text)


def _op_tables(
    ops: Iterable[_EventRows], steps: int
) -> tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]:
    """Return ms and count per step by op type and by op name, costliest first."""
    by_type: dict[str, list[float]] = {}
    by_name: dict[str, list[float]] = {}
    for rows in ops:
        ms = np.bincount(rows.code, rows.end_ms - rows.start_ms, minlength=len(rows.text))
        count = np.bincount(rows.code, minlength=len(rows.text))
        for i in np.flatnonzero(count).tolist():
            for table, key in ((by_type, op_type(rows.text[i]) or "XLA"), (by_name, rows.text[i])):
                row = table.setdefault(key, [0.0, 0.0])
                row[0] += float(ms[i]) / steps
                row[1] += float(count[i]) / steps
    types = sorted(by_type.items(), key=lambda item: -item[1][0])[:MAX_NAMED_OPS]
    return {k: (ms, n) for k, (ms, n) in types}, _fold_names(by_name)


def _fold_names(by_name: dict[str, list[float]]) -> dict[str, tuple[float, float]]:
    """List the costliest ops by name; merge the rest if they differ only in numbers, under the costliest name."""
    rows_by_name: dict[str, list[float]] = {}
    speaks: dict[str, str] = {}
    for i, (name, (ms, count)) in enumerate(sorted(by_name.items(), key=lambda item: -item[1][0])):
        row = rows_by_name.setdefault(
            name if i < MAX_NAMED_OPS else speaks.setdefault(INNER_NUMBER.sub("_", name), name), [0.0, 0.0]
        )
        row[0] += ms
        row[1] += count
        if len(rows_by_name) == MAX_OP_NAMES:
            break
    return {k: (ms, n) for k, (ms, n) in rows_by_name.items()}


def _sum_ms(lines: list[_EventRows], wanted: Callable[[str], bool]) -> float:
    """Return the ms of all events whose text is wanted."""
    return sum(float((r.end_ms - r.start_ms)[_matching_rows(r, wanted)].sum()) for r in lines)


def _count_rows(lines: list[_EventRows], wanted: Callable[[str], bool]) -> int:
    return sum(int(_matching_rows(r, wanted).sum()) for r in lines)


def _single_jax_calls(lines: list[_EventRows], steps: int) -> int:
    """Return the calls of JAX's compiled functions if many small ones make up the step (one per op), else 0."""
    count, spent = 0, dict[str, float]()
    for rows in lines:
        mine = np.flatnonzero(_matching_rows(rows, lambda t: t.startswith(framework_names.PJIT_CALL)))
        if not len(mine):
            continue
        start, end = rows.start_ms[mine], rows.end_ms[mine]
        outermost = intervals.is_outermost(start, end)
        count += int(outermost.sum())
        for i in np.flatnonzero(outermost):
            text = rows.text[rows.code[mine[i]]]
            spent[text] = spent.get(text, 0.0) + float(end[i] - start[i])
    return count if is_made_of_small_calls(count, steps, spent) else 0


def _matching_rows(rows: _EventRows, wanted: Callable[[str], bool]) -> Bools:
    return np.array([bool(wanted(t)) for t in rows.text], dtype=bool)[rows.code]


def _eager_work_ms(lines: list[_EventRows], found: StepTimes) -> float:
    """Return ms per step in which eager ops compute.

    Steps of a loop run the same ops in the same order, so that the lower quartile over the steps is free of
    interference by other processes. Most ops of a step are tiny, so that the median op measures the overhead of any
    op.
    """
    starts, spent = [np.zeros(0)], [np.zeros(0)]
    for rows in lines:
        run = _matching_rows(rows, lambda t: t == framework_names.EAGER_RUN)
        call = _matching_rows(rows, is_function_call)
        if run.any():
            calls = intervals.union(rows.start_ms[call], rows.end_ms[call])
            own = intervals.covered_length(calls, rows.start_ms[run], rows.end_ms[run]) <= 0
            starts.append(rows.start_ms[run][own])
            spent.append((rows.end_ms - rows.start_ms)[run][own])
    start, ms = np.concatenate(starts), np.concatenate(spent)
    order = np.argsort(start)
    step = np.searchsorted(found.start_ms, start[order], side="right") - 1
    count = np.bincount(step, minlength=len(found))
    if not len(start) or count.max() == 0:
        return 0.0
    usual = int(np.bincount(count[count > 0]).argmax())
    table = np.array([ms[order][step == i] for i in np.flatnonzero(count == usual)])
    each = np.array([quantile(column, 0.25) for column in table.T])
    return float(np.maximum(each - median_value(each), 0.0).sum())


def _median_step_bars(lines: list[tuple[str, _EventRows, bool | None]], found: StepTimes) -> tuple[Bar, ...]:
    """Return the longest ops and waits of the window's median step, in ms from its start."""
    step = int(np.argsort(found.end_ms - found.start_ms)[len(found) // 2])
    begin, stop = float(found.start_ms[step]), float(found.end_ms[step])
    bars = []
    for _, rows, is_op in lines:
        for i in np.flatnonzero((rows.start_ms >= begin) & (rows.start_ms < stop)):
            text = rows.text[rows.code[i]]
            if is_op or text in framework_names.GET_NEXT_OPS:
                lane = "device" if is_op else "input"
                bars.append(Bar(lane, text, float(rows.start_ms[i]) - begin, min(float(rows.end_ms[i]), stop) - begin))
    longest = sorted(bars, key=lambda b: b.start_ms - b.end_ms)[:MAX_BARS]
    return tuple(sorted(longest, key=lambda b: b.start_ms))


def _is_op(text: str) -> bool:
    return op_type(text) is not None


def op_type(text: str) -> str | None:
    """Return ``MatMul`` for ``dense/MatMul:MatMul``; None for events that are not ops or only call ops."""
    found = framework_names.graph_op(text)
    return None if found is None or found[1] in framework_names.CALLER_OPS else found[1]
