"""Copies to the device from pageable memory that no kernel hides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slowtrain.causes import pcie_link
from slowtrain.causes.transfer.small_copies import fix
from slowtrain.columns.device import DirectionCopies
from slowtrain.model import Category, Effect, Evidence, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.whatif import Drop, Remedy

MIN_PAGEABLE_SHARE = 0.5  # of the bytes
MAX_LOCKED_TIME_SHARE = 0.8  # of a pageable copy's time: rates of locked copies differ by a seventh among themselves
MIN_LOCKED_BYTES = 1e6  # a step: smaller copies do not show what the link can do
PREFETCH_TO_DEVICE = (
    'end the data set in .apply(tf.data.experimental.prefetch_to_device("/GPU:0")): it copies while the step runs'
)
DATASET_OF_ARRAYS = (
    'make a tf.data.Dataset of the arrays, and end it in prefetch_to_device("/GPU:0"): it copies while the step runs'
)
PREFETCH_IN_FIT = (
    "end the data set in prefetch_to_device: it copies while the step runs. Such a data set does not know its length: "
    "repeat() it and give fit steps_per_epoch, or Keras counts a step too many in each epoch"
)
MAP_BEFORE_BATCH = (
    "put a map directly in front of .batch(n): TensorFlow makes one operation of both (MapAndBatch), whose batches "
    "are in locked memory; those of batch alone, of cache and of arrays are not"
)


@dataclass(frozen=True)
class PageableCopies:
    """All copies of a step, of whose bytes ``share`` is pageable.

    ``exposed_ms`` is the time of pageable copies that no kernel hides.
    """

    copied: DirectionCopies
    share: float
    exposed_ms: float
    bytes_per_ms: float

    def evidence(self, trace: Trace) -> Evidence:
        copied = self.copied
        return Evidence(
            f"{format_number(copied.count)} copies to the device in each step, {self.share:.0%} of their "
            f"{format_number(copied.bytes / 1e6)} MB from pageable memory, at {format_number(self.bytes_per_ms / 1e6)} "
            f"GB/s; no kernel hides {format_number(self.exposed_ms)} of {format_number(trace.step_ms)} ms",
            {
                "copies_per_step": copied.count,
                "copy_bytes": copied.bytes / copied.count,
                "feed_ms": self.exposed_ms,
                "pageable_share": self.share,
            },
            _evidence_places(trace),
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        # Beside the step a copy takes as long as before, and a step cannot get shorter than that. At best the copy also
        # comes from locked memory, and all of it hides.
        saved = min(self.exposed_ms, trace.step_ms - self.exposed_ms)
        return [Drop({Category.FEED: saved}, 0.0, (0.4, self.exposed_ms / saved))] if saved > 0 else []

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        if trace.on_jax:
            yield Prescription("edit", Effect.EXACT, "jax.device_put the next batch while the step before it runs")
            return
        yield _prefetch_cure(trace)
        if not _maps_into_batches(trace):
            yield Prescription("advice", Effect.EXACT, MAP_BEFORE_BATCH)


def find_pageable_copies(trace: Trace, copied: DirectionCopies) -> PageableCopies | None:
    """None if the profile does not name pageable copies, or if locked memory would not be faster."""
    pageable = copied.pageable
    if pageable is None or pageable.ms <= 0 or pageable.bytes < MIN_PAGEABLE_SHARE * copied.bytes:
        return None
    locked_bytes, locked_took = copied.bytes - pageable.bytes, copied.ms - pageable.ms
    is_measured = locked_bytes >= MIN_LOCKED_BYTES and locked_took > 0
    rate = locked_bytes / locked_took if is_measured else pcie_link.locked_copy_bytes_per_ms(trace)
    exposed_ms = min(pageable.exposed_ms, trace.mean(Category.FEED))
    locked_ms = exposed_ms * pageable.bytes / pageable.ms / rate
    if locked_ms >= MAX_LOCKED_TIME_SHARE * exposed_ms:
        return None
    share = pageable.bytes / copied.bytes
    return PageableCopies(copied, share, exposed_ms, pageable.bytes / pageable.ms)


def _prefetch_cure(trace: Trace) -> Prescription:
    """Copies of the data set while the step runs, with the edit if the script shows that nothing else reads it."""
    fits = [e for e in trace.events_of("loop") if e.name == "fit"]
    if any((e.data.get("data") or {}).get("type") == "numpy.ndarray" for e in fits):
        return Prescription("advice", Effect.EXACT, DATASET_OF_ARRAYS)
    made = recorded_edits.first_applicable(trace, _evidence_places(trace), fix.prefetch_to_device)
    if not made and trace.steps.source == "fit":
        return Prescription("advice", Effect.EXACT, PREFETCH_IN_FIT)
    return Prescription("edit", Effect.EXACT, PREFETCH_TO_DEVICE, edits=made)


def _maps_into_batches(trace: Trace) -> bool:
    """Whether the pipeline makes batches in locked memory, even if a later stage copies them elsewhere."""
    return trace.pipeline is not None and any(node.family == "MapAndBatch" for node in trace.pipeline.nodes)


def _evidence_places(trace: Trace) -> tuple[Place, ...]:
    """Where the data set ends, and where training takes its batches; a profile has neither."""
    if trace.fact("profile"):
        return ()
    written = trace.pipeline.written if trace.pipeline is not None else ()
    ends = [one.place for one in written if one.place is not None]
    return distinct_places((*ends[-1:], trace.steps.place))
