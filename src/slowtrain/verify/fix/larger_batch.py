"""A larger batch for ``fix``: times steps at other sizes first, if there is time, and proposes the knee."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from slowtrain.causes import class_of
from slowtrain.errors import InputError
from slowtrain.model import Diagnosis, Effect, Prescription
from slowtrain.model.measurements import BatchCurve, Device
from slowtrain.trace.signals.device import batch_curve
from slowtrain.verify.batch_sizes import throughput_curve
from slowtrain.verify.batch_sizes.batch_probe import step_batch
from slowtrain.verify.candidates.diagnosed_probe import DiagnosedProbe, minimum_trial_s
from slowtrain.verify.measurement.paired_trial import Bench

MAX_SEARCH_SHARE = 0.7  # of the time that is not reserved may go into these probes
MEMORY_PROBES = 2  # probes, if there is a device that the batch has to fit
NO_TIME_REASON = "there is no time to measure it; give a longer --budget"
NO_EDIT_REASON = "no edit can set the measured size"
NO_GAIN_REASON = "; a larger batch than the script's own gains too little"


@dataclass(frozen=True)
class MeasuredSizes:
    """Step times at other batch sizes, as facts for a trace;

    ``known`` is None if nothing was decided. ``note`` says it.
    """

    known: Mapping[str, Any] | None
    note: str


def needs_batch_size(diagnosis: Diagnosis, prescription: Prescription) -> bool:
    """Whether an edit enlarges the batch, so that its size has to be decided."""
    larger = class_of(diagnosis.cause).batch_probes and prescription.effect is Effect.CHANGES_TRAINING
    return larger and bool(prescription.edits)


def measure_sizes(
    bench: Bench, seen: DiagnosedProbe, diagnosis: Diagnosis, texts: Mapping[str, str], device: Device | None
) -> MeasuredSizes:
    """Times the script, with ``texts`` in place of its files, from its own batch on until the knee is known.

    The result decides if the knee was found, or the limit of ``device``, or the last batch that the data fills, or if
    steps at least as large as those that ``diagnosis`` proposes still gained.
    """
    own, goal = step_batch(seen.trace), int(diagnosis.evidence.numbers["goal"])
    most = batch_curve.largest_data_batch(seen.trace, own)
    doublings = math.log2(max(goal / own, 1)) if own else 0.0
    probes = 1 + math.ceil(doublings) + (MEMORY_PROBES if device is not None else 0)
    each_s = minimum_trial_s(seen, throughput_curve.CURVE_RULE, "step", 1) / 2
    bench = replace(bench, deadline=bench.deadline - (1 - MAX_SEARCH_SHARE) * max(bench.left_s, 0.0))
    if not own or bench.left_s < (probes - 1) * each_s + 2 * throughput_curve.MIN_CURVE_PROBE_S:
        return undecided_sizes(diagnosis, NO_TIME_REASON if own else "the number of samples in a step is unknown")
    try:
        bench = replace(bench, folder=bench.folder / "batch")
        found = throughput_curve.measure_curve(bench, device, own=own, most=most, texts=texts)
    except InputError as error:
        return undecided_sizes(diagnosis, str(error))
    last = found.points[-1].batch
    limited = found.limit_batch is not None and found.limit_batch < max(2 * last, goal)
    whole = most is not None and most < 2 * last
    if found.knee is None and not (limited or whole) and last < goal:
        return undecided_sizes(diagnosis, f"no knee up to batch {last:,}: {found.ended}")
    if whole and not found.ended:
        few = f"its data has fewer than {batch_curve.MIN_STEPS_PER_EPOCH} steps of twice the size"
        found = replace(found, ended=few)
    return MeasuredSizes(asdict(found), f"{diagnosis.cause}: {_describe_curve(found)}")


def undecided_sizes(diagnosis: Diagnosis, why: str) -> MeasuredSizes:
    """Only the size that ``diagnosis`` itself names."""
    goal = diagnosis.evidence.numbers["goal"]
    return MeasuredSizes(
        None, f"{diagnosis.cause}: the knee was not measured, so a common size is tried ({goal:,.0f}): {why}"
    )


def _describe_curve(found: BatchCurve) -> str:
    first, last = found.points[0].batch, found.points[-1].batch
    timed = f"batches of {first:,} to {last:,} were timed" if last > first else f"a batch of {first:,} was timed"
    if found.knee is not None:
        ends = [f"{b:,}" if b is not None else "beyond" for b in (found.knee_low, found.knee_high)]
        timed += f", the knee is at {found.knee:,} ({ends[0]} to {ends[1]})"
    elif found.still_gains:
        timed += ", and the last one still gained"
    timed += f" ({found.ended})" if found.ended and found.knee is None else ""
    if found.limit_batch is None or found.device is None:
        return timed
    return f"{timed}; the memory forecast for {found.device.name} allows {found.limit_batch:,}"
