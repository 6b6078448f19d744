"""The cost of copying a step's data to the device."""

from __future__ import annotations

from slowtrain.model import Category
from slowtrain.trace import Trace


def handover_ms_by_category(trace: Trace) -> dict[Category, float]:
    """Return ms per step that go with each copy: making its tensor, the call that starts it, and the copy itself."""
    starting = trace.device.idle.get("h2d", 0.0) if trace.device is not None else 0.0
    return {
        Category.CONVERT: trace.mean(Category.CONVERT),
        Category.FEED: trace.mean(Category.FEED),
        Category.DISPATCH: min(starting, trace.mean(Category.DISPATCH)),
    }
