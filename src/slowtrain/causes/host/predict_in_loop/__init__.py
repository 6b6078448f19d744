"""Predict, evaluate or fit is called in a loop for little work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.arrays import median_value
from slowtrain.columns.spans import Event, Spans, place_of
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.device.op_work import PYTHON_COLD_SHARE, cold_cache_ms
from slowtrain.trace.signals.host.host_work import (
    graph_step_ms,
    spread_over_categories,
    starts_in_steady,
    starts_in_windows,
)
from slowtrain.whatif import Drop, Remedy, Skip

MIN_CALLS = 8  # from one line: a script may evaluate after each of a few stages
MIN_GROWTH_FACTOR = 1.4  # last third of the calls over the first third
MIN_GROWTH_RANK_CORRELATION = 0.9  # of duration with call number; a machine that gets busier stays far below
MIN_FIXED_SHARE = 0.5  # of a call: below it the model's own work takes most of the time
MIN_CALLS_PER_STEP = 0.9  # then the steps of a profiler window contain such a call


class CallGroup(Struct, frozen=True):
    """Calls of fit, evaluate or predict from one line."""

    loop: str
    place: Place | None
    every: Spans
    calls: Spans  # without those that traced or lie in a profiler window
    work_ms: float  # of the model's own functions in one call

    @property
    def call_ms(self) -> float:
        return float(self.calls.ms.mean())

    @property
    def fixed_ms(self) -> float:
        return max(self.call_ms - self.work_ms, 0.0)


class RepeatedCallFinding(Struct, frozen=True):
    """At least one group of calls, in order of decreasing cost."""

    groups: tuple[CallGroup, ...]


class PredictInLoop(Cause[RepeatedCallFinding]):
    """`predict`, `evaluate` or `fit` is called again and again for little work."""

    title = "Predict, evaluate or fit is called in a loop for little work"
    usual_ms_per_step = 30.0  # each call makes a data set and starts its threads
    needs = frozenset({Signal.CALLS, Signal.PHASES})
    words = (".predict", ".fit")

    def find(self, trace: Trace) -> RepeatedCallFinding | None:
        groups = _costly_call_groups(trace)
        return RepeatedCallFinding(tuple(groups)) if groups else None

    def evidence(self, trace: Trace, finding: RepeatedCallFinding) -> Evidence:
        worst = finding.groups[0]
        return Evidence(
            f"{worst.loop}() was called {len(worst.every)} times from one line, {format_number(worst.call_ms)} ms "
            f"each, of which the model's own work takes {format_number(worst.work_ms, 2)} ms",
            {
                "calls": float(len(worst.every)),
                "call_ms": worst.call_ms,
                "work_ms": worst.work_ms,
                "fixed_ms": worst.fixed_ms,
            },
            tuple(dict.fromkeys(g.place for g in finding.groups if g.place is not None)),
        )

    def remedies(self, trace: Trace, finding: RepeatedCallFinding) -> Sequence[Remedy]:
        remedies: list[Remedy] = []
        count = max(int(trace.steps.steady.sum()), 1)
        in_steps = work = 0.0
        for group in finding.groups:
            inside = group.every.ms[starts_in_steady(trace, group.every)]
            in_steps += float(np.maximum(inside - group.work_ms, 0.0).sum()) / count
            work += group.work_ms * len(inside) / count
            others = int((~starts_in_steady(trace, group.calls)).sum()) if len(inside) else len(group.every)
            rest = group.fixed_ms * others
            if rest > 0:
                remedies.append(Skip(rest, spread=(0.9, 1.02)))
        # The model's own work remains, whatever the sum over several lines.
        in_steps = min(in_steps, max(trace.step_ms - work, 0.0))
        if in_steps > 0:
            # The rest of the step no longer runs with caches that the Python of a call has replaced.
            stays = max(trace.step_ms - in_steps - work, 0.0)
            in_steps += (
                cold_cache_ms(stays, PYTHON_COLD_SHARE) * in_steps / trace.step_ms if not trace.on_accelerator else 0.0
            )
            first = (Category.INPUT, Category.COMPILE, Category.DISPATCH, Category.GC)
            remedies.append(Drop(spread_over_categories(trace, in_steps, first), spread=(0.97, 1.01)))
        return remedies

    def scope_in(self, trace: Trace, finding: RepeatedCallFinding) -> str:
        calls = finding.groups[0].calls
        return "step" if starts_in_steady(trace, calls).sum() >= 0.5 * len(calls) else "run"


def _costly_call_groups(trace: Trace) -> list[CallGroup]:
    """Groups whose fixed cost is most of each call, in order of decreasing cost."""
    found: dict[tuple[str, str], list[Event]] = {}
    for event in trace.events_of("loop"):
        if event.data.get("site"):
            found.setdefault((event.name, str(event.data["site"])), []).append(event)
    groups = [g for (loop, _), events in found.items() if (g := _call_group(trace, loop, events)) is not None]
    return sorted(groups, key=lambda g: -g.fixed_ms * len(g.every))


def _call_group(trace: Trace, loop: str, events: list[Event]) -> CallGroup | None:
    if len(events) < MIN_CALLS:
        return None
    zero = np.zeros(len(events), dtype=np.int64)
    calls = Spans(np.array([e.start_ms for e in events]), np.array([e.end_ms for e in events]), zero, zero, zero)
    traces = np.sort(np.array([e.start_ms for e in trace.events_of("trace")]))
    traced = np.searchsorted(traces, calls.end_ms) > np.searchsorted(traces, calls.start_ms)
    plain = calls.where(~traced & ~starts_in_windows(trace, calls))
    if len(plain) < MIN_CALLS // 2 or len(plain) < 0.25 * len(events) or _get_slower(plain):
        return None
    group = CallGroup(loop, place_of(events[0].data.get("site")), calls, plain, _model_work_ms(trace, plain))
    return group if group.fixed_ms >= MIN_FIXED_SHARE * group.call_ms else None


def _get_slower(calls: Spans) -> bool:
    """Whether each call takes longer than the one before: then something grows, which is another cause."""
    third = len(calls) // 3
    if not third or median_value(calls.ms[-third:]) < MIN_GROWTH_FACTOR * median_value(calls.ms[:third]):
        return False
    ranks = calls.ms.argsort().argsort()
    return bool(np.corrcoef(ranks, np.arange(len(calls)))[0, 1] >= MIN_GROWTH_RANK_CORRELATION)


def _model_work_ms(trace: Trace, calls: Spans) -> float:
    """Time of the model's functions in one call: their median, or less if the profiler window shows less.

    The median is too high: inside a call the functions start with cold caches, and those of `fit` also wait for the
    batch. If steps contain such calls, the graph ops of a step, divided by its calls, bound the ops of one call.
    The ops that Python starts one by one create the call's data set.
    """
    work = trace.lane("function")
    index = np.searchsorted(calls.start_ms, work.start_ms, side="right") - 1
    inside = (index >= 0) & (work.start_ms < calls.end_ms[np.maximum(index, 0)])
    median = float(median_value(np.bincount(index[inside], work.ms[inside], minlength=len(calls))))
    each = float(starts_in_steady(trace, calls).sum()) / max(int(trace.steps.steady.sum()), 1)
    if trace.kernels is None or each < MIN_CALLS_PER_STEP:
        return median
    each = max(each, 1.0)
    return min(median, graph_step_ms(trace, trace.kernels.count / each, trace.kernels.busy_ms / each))
