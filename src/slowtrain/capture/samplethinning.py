"""Thins the machine samples of a long run: every other one is dropped if there are too many, except the peaks."""

from __future__ import annotations

import json
from typing import Any

from slowtrain.capture.store import Store

MOST_SAMPLES = 20_000  # several times the points of a chart; about 10 MB
RECENT = 240  # the newest samples are never dropped
GROUP = 16  # neighbours of which every fourth is kept, and the peaks
AT_ONCE = 16 * GROUP
HIGH = ("rss_bytes", "gpu_memory_used_bytes", "gpu_celsius")
LOW = ("available_bytes",)


class SampleThinning:
    """Goes through all samples but the newest in rounds, a few at a time. A round leaves at most half of them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.count = 0
        self._at: int | None = None  # the row at which the round continues

    def wrote(self, count: int) -> None:
        self.count += count

    def work(self) -> None:
        if self._at is None and self.count > MOST_SAMPLES:
            self._at = 0
        if self._at is None:
            return
        rows = self.store.samples_after(self._at, AT_ONCE + RECENT)
        if len(rows) < AT_ONCE + RECENT:
            self._at = None
            return
        rows = rows[:AT_ONCE]
        self._at = rows[-1][0]
        gone = [row for i in range(0, len(rows), GROUP) for row in _dropped(rows[i : i + GROUP])]
        self.store.begin()
        self.store.drop("sample", gone)
        self.store.commit()
        self.count -= len(gone)


def _dropped(rows: list[tuple[int, str]]) -> list[int]:
    data = [json.loads(text) for _, text in rows]
    kept = set(range(0, len(rows), 4))
    for key, sign in [*((k, 1.0) for k in HIGH), *((k, -1.0) for k in LOW)]:
        values = [(sign * value, i) for i, d in enumerate(data) if (value := _number(d.get(key))) is not None]
        if values:
            kept.add(max(values)[1])
    return [row for i, (row, _) in enumerate(rows) if i not in kept]


def _number(value: Any) -> float | None:
    """Returns the highest value of a figure that several GPUs have; None if it is absent."""
    values = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, (int, float))]
    return float(max(values)) if values else None
