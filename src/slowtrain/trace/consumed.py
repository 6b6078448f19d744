"""The data sets of a recording that were iterated, out of their counters, and those that were only written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slowtrain.trace import Steps, counters, course, passes, pipeline
from slowtrain.trace.course import Iterated
from slowtrain.trace.pipeline import Pipeline
from slowtrain.trace.recording import Recording


def pipelines(raw: Recording, found: Steps) -> list[Pipeline]:
    plans = {
        e.data.get("number"): pipeline.written(e.data.get("nodes") or ()) for e in raw.events if e.lane == "pipeline"
    }
    made = {e.data.get("number"): e for e in raw.events if e.lane == "iterator"}
    told: dict[int, list[tuple[float, bytes]]] = {}
    for at, iterator, proto in raw.counters:
        told.setdefault(iterator, []).append((at, proto))
    chosen, times = passes.chosen(told, {i: e.data.get("pipeline") for i, e in made.items() if i is not None})
    merged: dict[Any, list[Iterated]] = {}
    by_keras: dict[Any, bool] = {}
    for iterator, rows in sorted(chosen.items()):
        event = made.get(iterator)
        number = event.data.get("pipeline") if event else None
        begun = event.start_ms if event else rows[0][0]
        read = [(at, counters.counters(proto)) for at, proto in rows]
        merged.setdefault(number, []).append(Iterated(begun, read))
        by_keras[number] = bool(event and event.data.get("keras"))
    result = []
    for number, several in merged.items():
        plan, each = plans.get(number, ()), [([c for _, c in one.read], _gap_ms(one.read, found)) for one in several]
        whole = passes.counted(counters.watched(plan, each, by_keras[number]), times[number])
        result.append(replace(whole, course=course.read(whole, several)))
    result += [Pipeline(plan) for number, plan in plans.items() if number not in merged]
    return result


def _gap_ms(rows: Sequence[tuple[float, counters.Counters]], found: Steps) -> float | None:
    """Mean time between a batch handed out and the next one asked for, over readings during steady steps.

    Each reading holds the last hundred gaps at most. Gaps beyond ten times the median
    (validation, an epoch's end) are no part of a step.
    """
    gaps: list[int] = []
    for at, reading in rows:
        i = int(np.searchsorted(found.start_ms, at, side="right")) - 1
        if len(reading.gaps_us) >= 3 and (i < 0 or not found.windowed[min(i, len(found) - 1)]):
            gaps.extend(reading.gaps_us)
    if len(gaps) < 3:
        return None
    column = np.array(gaps, dtype=float)
    return float(column[column <= 10 * np.median(column)].mean()) / 1e3
