"""A larger batch for ``fix``: times steps at other sizes first, if there is time, and proposes the knee."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from slowtrain.errors import InputError
from slowtrain.model import Diagnosis, Effect, Prescription
from slowtrain.model.sizing import BatchCurve, Device
from slowtrain.trace import batching
from slowtrain.values import dataclass
from slowtrain.verify import curve
from slowtrain.verify.pairs import Bench
from slowtrain.verify.seen import Seen, least_s
from slowtrain.verify.sizing import batch_of

CAUSE = "compute/small-batch"
PART = 0.7  # of the time that is not reserved may go into these probes
OF_MEMORY = 2  # probes, if there is a device that the batch has to fit
NO_TIME = "there is no time to measure it; a longer --budget gives more"
NO_EDIT = "no edit can write what was measured"
NO_GAIN = "; a larger batch than the script's own gains too little"


@dataclass(frozen=True)
class Sizes:
    """Step times at other batch sizes, as facts for a trace;

    ``known`` is None if nothing was decided. ``note`` says it.
    """

    known: Mapping[str, Any] | None
    note: str


def asks(diagnosis: Diagnosis, prescription: Prescription) -> bool:
    """Whether an edit enlarges the batch, so that its size has to be decided."""
    larger = diagnosis.cause == CAUSE and prescription.effect is Effect.CHANGES_TRAINING
    return larger and bool(prescription.edits)


def measured(bench: Bench, seen: Seen, diagnosis: Diagnosis, texts: Mapping[str, str], device: Device | None) -> Sizes:
    """Times the script, with ``texts`` in place of its files, from its own batch on until the knee is known.

    The result decides if the knee was found, or the limit of ``device``, or the last batch that the data fills, or if
    steps at least as large as those that ``diagnosis`` proposes still gained.
    """
    own, goal = batch_of(seen.trace), int(diagnosis.evidence.numbers["goal"])
    most = batching.of_data(seen.trace, own)
    doublings = math.log2(max(goal / own, 1)) if own else 0.0
    probes = 1 + math.ceil(doublings) + (OF_MEMORY if device is not None else 0)
    each_s = least_s(seen, curve.RULE, "step", 1) / 2
    bench = replace(bench, deadline=bench.deadline - (1 - PART) * max(bench.left_s, 0.0))
    if not own or bench.left_s < (probes - 1) * each_s + 2 * curve.LEAST_S:
        return undecided(diagnosis, NO_TIME if own else "its steps do not tell how many samples they take")
    try:
        bench = replace(bench, folder=bench.folder / "batch")
        found = curve.curve(bench, device, own=own, most=most, texts=texts)
    except InputError as error:
        return undecided(diagnosis, str(error))
    last = found.points[-1].batch
    limited = found.limit_batch is not None and found.limit_batch < max(2 * last, goal)
    whole = most is not None and most < 2 * last
    if found.knee is None and not (limited or whole) and last < goal:
        return undecided(diagnosis, f"no knee up to {last:,}: {found.ended}")
    if whole and not found.ended:
        found = replace(found, ended=f"of twice as many its data gives no {batching.LEAST_STEPS} steps")
    return Sizes(asdict(found), f"{CAUSE}: {_says(found)}")


def undecided(diagnosis: Diagnosis, why: str) -> Sizes:
    """Only the size that ``diagnosis`` itself names."""
    goal = diagnosis.evidence.numbers["goal"]
    return Sizes(None, f"{CAUSE}: where the knee is was not measured, a common size is tried ({goal:,.0f}): {why}")


def _says(found: BatchCurve) -> str:
    first, last = found.points[0].batch, found.points[-1].batch
    timed = f"batches of {first:,} to {last:,} were timed" if last > first else f"a batch of {first:,} was timed"
    if found.knee is not None:
        ends = [f"{b:,}" if b is not None else "beyond" for b in (found.knee_low, found.knee_high)]
        timed += f", the knee is at {found.knee:,} ({ends[0]} to {ends[1]})"
    elif found.still_gains:
        timed += ", the last still gained"
    timed += f" ({found.ended})" if found.ended and found.knee is None else ""
    if found.limit_batch is None or found.device is None:
        return timed
    return f"{timed}; by forecast {found.limit_batch:,} fit {found.device.name}"
