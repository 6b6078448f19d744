"""The iterated data sets of a recording, from their counters, and those that were only written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slowtrain.columns import input_pipeline
from slowtrain.columns.array_statistics import median_value
from slowtrain.columns.arrays import Floats
from slowtrain.columns.input_pipeline import Pipeline
from slowtrain.columns.steps import Steps
from slowtrain.recording.reader import Recording
from slowtrain.trace.pipelines import iterator_counters, merged_readings, sampled_readings, stage_growth
from slowtrain.trace.pipelines.stage_growth import IteratorReadings

MIN_FAR_RATIO = 10  # times the median, for a gap or a step unlike the rest
MIN_FAR_GAPS = 5  # expected number of such gaps among the known ones, if they are as frequent as long steps


def recorded_pipelines(raw: Recording, found: Steps) -> list[Pipeline]:
    plans = {
        e.data.get("number"): input_pipeline.written_datasets(e.data.get("nodes") or ())
        for e in raw.events
        if e.lane == "pipeline"
    }
    made = {e.data.get("number"): e for e in raw.events if e.lane == "iterator"}
    told: dict[int, list[tuple[float, bytes]]] = {}
    for at, iterator, proto in raw.counters:
        told.setdefault(iterator, []).append((at, proto))
    chosen, times = sampled_readings.choose_readings(
        told, {i: e.data.get("pipeline") for i, e in made.items() if i is not None}
    )
    merged: dict[Any, list[IteratorReadings]] = {}
    by_keras: dict[Any, bool] = {}
    for iterator, rows in sorted(chosen.items()):
        event = made.get(iterator)
        number = event.data.get("pipeline") if event else None
        begun = event.start_ms if event else rows[0][0]
        read = [(at, iterator_counters.read_counters(proto)) for at, proto in rows]
        merged.setdefault(number, []).append(IteratorReadings(begun, read))
        by_keras[number] = bool(event and event.data.get("keras"))
    result = []
    for number, several in merged.items():
        gaps = [_steady_gaps_us(one.read, found) for one in several]
        each = [([c for _, c in one.read], _usual_gap_ms(column)) for one, column in zip(several, gaps, strict=True)]
        whole = sampled_readings.scale_to_all_iterators(
            merged_readings.merge_iterators(plans.get(number, ()), each, by_keras[number]), times[number]
        )
        far = _far_gap_ms(np.concatenate(gaps), found)
        result.append(replace(whole, far_gap_ms=far, course=stage_growth.counter_history(whole, several)))
    result += [Pipeline(plan) for number, plan in plans.items() if number not in merged]
    return result


def _steady_gaps_us(rows: Sequence[tuple[float, iterator_counters.IteratorCounters]], found: Steps) -> Floats:
    """Return times from the delivery of a batch to the next request, from readings during steady steps.

    Each reading holds the last hundred at most.
    """
    gaps: list[int] = []
    for at, reading in rows:
        i = int(np.searchsorted(found.start_ms, at, side="right")) - 1
        if len(reading.gaps_us) >= 3 and (i < 0 or not found.windowed[min(i, len(found) - 1)]):
            gaps.extend(reading.gaps_us)
    return np.array(gaps, dtype=float)


def _usual_gap_ms(gaps: Floats) -> float | None:
    """Return their mean without those far beyond the rest.

    Such gaps (validation, the end of an epoch) are not part of a step.
    """
    return float(gaps[gaps <= MIN_FAR_RATIO * median_value(gaps)].mean()) / 1e3 if len(gaps) >= 3 else None


def _far_gap_ms(gaps: Floats, found: Steps) -> float | None:
    """Return what gaps far beyond the rest add to the mean gap.

    None if so few gaps are known that those of far longer steps could be missing.
    """
    steady = found.steady_ms
    if (
        len(gaps) < 3
        or not len(steady)
        or len(gaps) * float((steady > MIN_FAR_RATIO * median_value(steady)).mean()) < MIN_FAR_GAPS
    ):
        return None
    return float(gaps.mean()) / 1e3 - (_usual_gap_ms(gaps) or 0.0)
