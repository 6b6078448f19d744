"""What a recording keeps of exhausted memory: the first finding, as plain JSON."""

from __future__ import annotations

from typing import Any

from slowtrain.model.exhaustion import Exhaustion
from slowtrain.oom.text.size_words import format_size

MAX_LISTED_HOLDERS = 6


def recorded_summary(found: Exhaustion) -> dict[str, Any] | None:
    """None if the log says nothing about memory."""
    sure = [one for one in found.findings if one.dump.sure]
    if not sure and not found.retries:
        return None
    said: dict[str, Any] = {"dumps": found.dumps, "retries": dict(found.retries)}
    if not sure:
        return said
    one = sure[0]
    dump, asked = one.dump, one.dump.request
    figures = ("limit_bytes", "in_use_bytes", "free_bytes", "largest_free_bytes", "growth_bytes")
    held = [
        (h.name or f"{h.count} pieces of {format_size(h.each_bytes)}", h.bytes)
        for h in (dump.by_op or dump.by_size)[:MAX_LISTED_HOLDERS]
    ]
    return said | {
        "outcome": str(one.outcome),
        "says": one.says,
        "pool": str(dump.pool),
        "allocator": dump.allocator,
        "asked_bytes": asked.needed,
        "op": asked.op,
        "shape": list(asked.shape) if asked.shape is not None else None,
        "dtype": asked.dtype,
        "site": [asked.place.file, asked.place.line] if asked.place is not None else None,
        "held": held,
        "advice": [(a.says, a.gain_bytes) for a in one.advice[:MAX_LISTED_HOLDERS]],
        **{name: getattr(dump, name) for name in figures},
    }
