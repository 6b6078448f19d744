"""Feeding by hand in a profile: the thread that launches the device's work converts and copies first."""

from __future__ import annotations

from slowtrain.causes import MIN_SYMPTOM_SHARE
from slowtrain.causes.transfer.per_step_feed.hand_feed import HandFeed
from slowtrain.model import Category
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import handover_ms_by_category

MIN_HOST_SHARE = 0.5  # of the wait for data on its way to a device: the rest may be the link


def find_profiled_feed(trace: Trace) -> HandFeed | None:
    """None if the host asks an iterator for its batches, or the device hardly waits for the host."""
    device = trace.device
    copies = device.copies.get("h2d") if device is not None else None
    waited = sum(handover_ms_by_category(trace).values())
    if device is None or waited < MIN_SYMPTOM_SHARE * trace.step_ms:
        return None
    if device.idle.get("h2d", 0.0) + device.idle.get("convert", 0.0) < MIN_HOST_SHARE * waited:
        return None
    if trace.fact("fed_by_keras"):
        return None  # not by hand
    if trace.share(Category.INPUT) >= MIN_SYMPTOM_SHARE or trace.pipelines:
        return None
    return HandFeed(waited, 0.0, 0.0, copies.count if copies is not None else 0.0)
