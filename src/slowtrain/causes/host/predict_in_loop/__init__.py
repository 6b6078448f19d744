"""Predict, evaluate or fit is called in a loop for little work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from slowtrain.causes import Cause
from slowtrain.causes.host.predict_in_loop import fix
from slowtrain.columns.array_statistics import median_value
from slowtrain.columns.spans import Event, Spans, place_of
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.cures.host import kerascalls
from slowtrain.trace import Trace
from slowtrain.trace.signals.device.op_work import PYTHON_COLD_SHARE, cold_cache_ms
from slowtrain.trace.signals.host.host_work import (
    graph_step_ms,
    spread_over_categories,
    starts_in_steady,
    starts_in_windows,
)
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy, Skip

LEAST = 8  # calls of one line: a script may well evaluate after each of a few stages
GROWN = 1.4  # times as long at the end as in the beginning
STEADILY = 0.9  # rank correlation of calls with their number; a machine that gets busier is far from it
FIXED_SHARE = 0.5  # of a call: below, the call's own work is what takes the time
CALLED = "call model(x, training=False) in a tf.function, or predict all inputs at once"
ON_BATCH = "call predict_on_batch, which makes no data set and no iterator around its input"
MOSTLY = 0.9  # of the steps: those that are seen in a window make such a call


@dataclass(frozen=True)
class Group:
    """Calls of fit, evaluate or predict from one line; in ``calls`` without those that traced or lay in windows."""

    loop: str
    place: Place | None
    every: Spans
    calls: Spans
    work_ms: float  # of the model's own functions in one call

    @property
    def call_ms(self) -> float:
        return float(self.calls.ms.mean())

    @property
    def fixed_ms(self) -> float:
        return max(self.call_ms - self.work_ms, 0.0)


class PredictInLoop(Cause[Evidence]):
    """`predict`, `evaluate` or `fit` is called again and again for little work."""

    title = "predict, evaluate or fit is called in a loop for little work"
    needs = frozenset({Signal.CALLS, Signal.PHASES})
    words = (".predict", ".fit")

    def find(self, trace: Trace) -> Evidence | None:
        groups = _groups(trace)
        if not groups:
            return None
        worst = groups[0]
        return Evidence(
            f"{worst.loop}() was called {len(worst.every)} times from one line, {format_number(worst.call_ms)} ms "
            "each, "
            f"of which the model's own work is {format_number(worst.work_ms, 2)} ms",
            {
                "calls": float(len(worst.every)),
                "call_ms": worst.call_ms,
                "work_ms": worst.work_ms,
                "fixed_ms": worst.fixed_ms,
            },
            tuple(dict.fromkeys(g.place for g in groups if g.place is not None)),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        remedies: list[Remedy] = []
        count = max(int(trace.steps.steady.sum()), 1)
        in_steps = work = 0.0
        for group in _groups(trace):
            inside = group.every.ms[starts_in_steady(trace, group.every)]
            in_steps += float(np.maximum(inside - group.work_ms, 0.0).sum()) / count
            work += group.work_ms * len(inside) / count
            others = int((~starts_in_steady(trace, group.calls)).sum()) if len(inside) else len(group.every)
            rest = group.fixed_ms * others
            if rest > 0:
                remedies.append(Skip(rest, spread=(0.9, 1.02)))
        # The model's own work stays, whatever the means of calls of several lines add up to.
        in_steps = min(in_steps, max(trace.step_ms - work, 0.0))
        if in_steps > 0:
            # What is left beside the calls no longer follows all the Python of one. Their own work is counted as alone.
            stays = max(trace.step_ms - in_steps - work, 0.0)
            in_steps += (
                cold_cache_ms(stays, PYTHON_COLD_SHARE) * in_steps / trace.step_ms if not trace.on_accelerator else 0.0
            )
            first = (Category.INPUT, Category.COMPILE, Category.DISPATCH, Category.GC)
            remedies.append(Drop(spread_over_categories(trace, in_steps, first), spread=(0.97, 1.01)))
        return remedies

    def scope_in(self, trace: Trace, evidence: Evidence) -> str:
        found = _groups(trace)[:1]
        return "step" if any(starts_in_steady(trace, g.calls).sum() >= 0.5 * len(g.calls) for g in found) else "run"

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        groups = _groups(trace)
        if groups and groups[0].loop == "fit":
            chunks = "call train_on_batch for each chunk, or one fit over all of them"
            once: tuple[Edit, ...] = ()
            if _one_step(trace, groups[0]):
                once = _edits(trace, groups[0], kerascalls.trained_at_once)
                once = once or _edits(trace, groups[0], fix.with_history)
            yield Prescription("edit", Effect.EQUIVALENT, chunks, edits=once)
        else:
            each = _of_all(trace, groups, kerascalls.predicted_at_once)
            if each:
                yield Prescription("edit", Effect.EQUIVALENT, ON_BATCH, edits=each)
            yield Prescription("edit", Effect.EQUIVALENT, CALLED)


def _edits(trace: Trace, group: Group, cure: Callable[[Source, int], list[Edit]]) -> tuple[Edit, ...]:
    return measured.first(trace, [group.place] if group.place is not None else [], cure)


def _of_all(trace: Trace, groups: Sequence[Group], cure: Callable[[Source, int], list[Edit]]) -> tuple[Edit, ...]:
    """A cure of every line that predicts, as far as it can be made."""
    found = (e for g in groups if g.loop == "predict" for e in _edits(trace, g, cure))
    return tuple(dict.fromkeys(found))


def _one_step(trace: Trace, group: Group) -> bool:
    """Whether each of the calls took one step: a chunk is one batch."""
    inside = np.searchsorted(group.calls.start_ms, trace.steps.start_ms, side="right") - 1
    known = inside[inside >= 0]
    taken = trace.steps.start_ms[inside >= 0] < group.calls.end_ms[known]
    counts = np.bincount(known[taken], minlength=len(group.calls))
    return bool(len(counts) and counts.max() == 1)


def _groups(trace: Trace) -> list[Group]:
    """Groups in which the fixed part prevails, costliest first."""
    found: dict[tuple[str, str], list[Event]] = {}
    for event in trace.events_of("loop"):
        if event.data.get("site"):
            found.setdefault((event.name, str(event.data["site"])), []).append(event)
    groups = [g for (loop, _), events in found.items() if (g := _group(trace, loop, events)) is not None]
    return sorted(groups, key=lambda g: -g.fixed_ms * len(g.every))


def _group(trace: Trace, loop: str, events: list[Event]) -> Group | None:
    if len(events) < LEAST:
        return None
    zero = np.zeros(len(events), dtype=np.int64)
    calls = Spans(np.array([e.start_ms for e in events]), np.array([e.end_ms for e in events]), zero, zero, zero)
    traces = np.sort(np.array([e.start_ms for e in trace.events_of("trace")]))
    traced = np.searchsorted(traces, calls.end_ms) > np.searchsorted(traces, calls.start_ms)
    plain = calls.where(~traced & ~starts_in_windows(trace, calls))
    if len(plain) < LEAST // 2 or len(plain) < 0.25 * len(events):
        return None
    group = Group(loop, place_of(events[0].data.get("site")), calls, plain, _work_ms(trace, plain))
    if _grows(plain):
        return None
    return group if group.fixed_ms >= FIXED_SHARE * group.call_ms else None


def _grows(calls: Spans) -> bool:
    """Whether each call takes longer than the one before: that is something that grows, not the price of a call."""
    third = len(calls) // 3
    if not third or median_value(calls.ms[-third:]) < GROWN * median_value(calls.ms[:third]):
        return False
    ranks = calls.ms.argsort().argsort()
    return bool(np.corrcoef(ranks, np.arange(len(calls)))[0, 1] >= STEADILY)


def _work_ms(trace: Trace, calls: Spans) -> float:
    """Time of the model's functions in a call that has nothing around it: their median, or what the window saw.

    Between the Python of a call they begin with cold caches, and those of `fit` also wait for the batch. Where steps
    make such calls, a call's ops are at most all those of graphs that a step has, over its calls: what Python starts
    one by one makes the call's data set.
    """
    work = trace.lane("function")
    index = np.searchsorted(calls.start_ms, work.start_ms, side="right") - 1
    inside = (index >= 0) & (work.start_ms < calls.end_ms[np.maximum(index, 0)])
    median = float(median_value(np.bincount(index[inside], work.ms[inside], minlength=len(calls))))
    each = float(starts_in_steady(trace, calls).sum()) / max(int(trace.steps.steady.sum()), 1)
    if trace.kernels is None or each < MOSTLY:
        return median
    each = max(each, 1.0)
    return min(median, graph_step_ms(trace, trace.kernels.count / each, trace.kernels.busy_ms / each))
