"""Thins the machine samples of a long run: every other one is dropped if there are too many, except the peaks."""

from __future__ import annotations

import json
from typing import Any

from slowtrain.recording.store import Store

MAX_SAMPLES = 20_000  # several times the points of a chart; about 10 MB
RECENT_SAMPLES = 240  # the newest samples are never dropped
GROUP_SAMPLES = 16  # neighbours of which every fourth is kept, and the peaks
BATCH_SAMPLES = 16 * GROUP_SAMPLES
KEPT_MAXIMA = ("rss_bytes", "gpu_memory_used_bytes", "gpu_celsius")
KEPT_MINIMA = ("available_bytes",)


class SampleThinning:
    """Goes through all samples but the newest in rounds, a few at a time. A round leaves at most half of them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.count = 0
        self._at: int | None = None  # the row at which the round continues

    def wrote(self, count: int) -> None:
        self.count += count

    def work(self) -> None:
        if self._at is None and self.count > MAX_SAMPLES:
            self._at = 0
        if self._at is None:
            return
        rows = self.store.samples_after(self._at, BATCH_SAMPLES + RECENT_SAMPLES)
        if len(rows) < BATCH_SAMPLES + RECENT_SAMPLES:
            self._at = None
            return
        rows = rows[:BATCH_SAMPLES]
        self._at = rows[-1][0]
        gone = [row for i in range(0, len(rows), GROUP_SAMPLES) for row in _dropped_rows(rows[i : i + GROUP_SAMPLES])]
        self.store.begin()
        self.store.drop("sample", gone)
        self.store.commit()
        self.count -= len(gone)


def _dropped_rows(rows: list[tuple[int, str]]) -> list[int]:
    data = [json.loads(text) for _, text in rows]
    kept = set(range(0, len(rows), 4))
    for key, sign in [*((k, 1.0) for k in KEPT_MAXIMA), *((k, -1.0) for k in KEPT_MINIMA)]:
        values = [(sign * value, i) for i, d in enumerate(data) if (value := _highest_number(d.get(key))) is not None]
        if values:
            kept.add(max(values)[1])
    return [row for i, (row, _) in enumerate(rows) if i not in kept]


def _highest_number(value: Any) -> float | None:
    """Returns the highest value of a figure that several GPUs have; None if it is absent."""
    values = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, (int, float))]
    return float(max(values)) if values else None
