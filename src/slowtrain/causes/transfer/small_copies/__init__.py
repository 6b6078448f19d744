"""Copies to the device in each step that are very small, or come from pageable memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.causes.transfer.small_copies.pageable_copies import PageableCopies, find_pageable_copies
from slowtrain.causes.transfer.small_copies.tiny_copies import TinyCopies, are_tiny, find_tiny_copies
from slowtrain.columns.device import DirectionCopies
from slowtrain.model import Category, Evidence, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy


class SmallCopies(Cause[TinyCopies | PageableCopies]):
    """Each step copies dozens of small tensors to the device, one by one, or large ones from pageable memory."""

    title = "Many small copies to the device, or copies from pageable memory"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})
    words = ("from_tensor_slices", "fit")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        copied = trace.device.copies.get("h2d") if trace.device is not None else None
        unknown = copied is not None and _may_be_slow(trace, copied)
        return super().wants(trace) | ({Signal.FEEDS} if unknown else set())

    def find(self, trace: Trace) -> TinyCopies | PageableCopies | None:
        copied = trace.device.copies.get("h2d") if trace.device is not None else None
        if copied is None or copied.bytes <= 0:  # AMD's copies have no bytes in a profile
            return None
        return find_tiny_copies(trace, copied) if are_tiny(copied) else find_pageable_copies(trace, copied)

    def evidence(self, trace: Trace, finding: TinyCopies | PageableCopies) -> Evidence:
        return finding.evidence(trace)

    def remedies(self, trace: Trace, finding: TinyCopies | PageableCopies) -> Sequence[Remedy]:
        return finding.remedies(trace)

    def cures(self, trace: Trace, finding: TinyCopies | PageableCopies) -> Iterable[Prescription]:
        return finding.cures(trace)


def _may_be_slow(trace: Trace, copied: DirectionCopies) -> bool:
    """Whether the step may wait for pageable copies, or for small ones if their bytes are unknown."""
    if not copied.bytes:
        return trace.share(Category.FEED) >= MIN_SYMPTOM_SHARE
    return copied.pageable is None and not are_tiny(copied) and copied.exposed_ms >= MIN_SYMPTOM_SHARE * trace.step_ms
