"""The time between the starts of repeated calls over a whole run, in bounded memory.

Each piece of a recording (less than a second) becomes one bin per kind of call: number of turns, their median, the
longest. If there are too many bins, neighbours are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slowtrain.columns.arrays import Floats, Ints, distinct_values, median_value
from slowtrain.columns.spans import Name

STEP_START_LANES = ("step", "on_batch", "function", "gradient")  # lanes whose spans a step can begin with
MAX_BINS = 4_096
MAX_CALL_KINDS = 64
MAX_BREAKS = 50_000

CallKey = tuple[str, str, str]


@dataclass
class StepHistory:
    """Turns of one kind of call: the times from one start to the next."""

    at_ns: list[int] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    median_ns: list[float] = field(default_factory=list)
    longest_ns: list[float] = field(default_factory=list)
    last_ns: int = 0  # start of the newest turn, which has not ended
    longest_gap_ns: float = 0.0  # between any two starts, also across breaks
    count: int = 0

    def add(self, starts: Ints, ends: Ints, breaks: Ints, after_gap: bool) -> None:
        """Add calls. ``after_gap``: the calls before these were not read."""
        if self.last_ns and not after_gap:
            starts = np.concatenate(([self.last_ns], starts))
            ends = np.concatenate(([self.last_ns], ends))
        self.count += len(starts) - (1 if self.last_ns and not after_gap else 0)
        self.last_ns = int(starts[-1])
        if len(starts) < 2:
            return
        turns = np.diff(starts).astype(float)
        self.longest_gap_ns = max(self.longest_gap_ns, float(turns.max()))
        before = np.searchsorted(breaks, starts, side="right")
        whole = before[1:] == before[:-1]
        if whole.any():
            turns = turns[whole]
            self.at_ns.append(int(starts[-1]))
            self.turns.append(len(turns))
            self.median_ns.append(float(median_value(turns)))
            self.longest_ns.append(float(turns.max()))
        if len(self.at_ns) > MAX_BINS:
            self._halve()

    def _halve(self) -> None:
        """Merge neighbouring bins in pairs."""
        n = np.array(self.turns, dtype=float)
        even, odd = slice(0, len(n) // 2 * 2, 2), slice(1, None, 2)
        rest = len(n) // 2 * 2
        median, longest = np.array(self.median_ns), np.array(self.longest_ns)
        whole = n[even] + n[odd]
        joined = (n[even] * median[even] + n[odd] * median[odd]) / whole
        self.at_ns = [*self.at_ns[odd], *self.at_ns[rest:]]
        self.turns = [*whole.astype(int).tolist(), *self.turns[rest:]]
        self.median_ns = [*joined.tolist(), *self.median_ns[rest:]]
        self.longest_ns = [*np.maximum(longest[even], longest[odd]).tolist(), *self.longest_ns[rest:]]

    def quantile_ms(self, share: float) -> float | None:
        """Return a quantile of all turns, from the bins' medians; None without turns."""
        if not self.turns:
            return None
        order = np.argsort(self.median_ns)
        total = np.cumsum(np.array(self.turns)[order])
        chosen = int(np.searchsorted(total, share * total[-1]))
        return float(np.array(self.median_ns)[order][min(chosen, len(order) - 1)]) / 1e6

    def curve_ms(self, start_ns: int, end_ns: int, points: int) -> tuple[float | None, ...]:
        """Return the mean of the bins' medians in each of ``points`` equal stretches."""
        if not self.turns or end_ns <= start_ns:
            return (None,) * points
        at = (np.array(self.at_ns, dtype=float) - start_ns) / (end_ns - start_ns) * points
        inside = (at >= 0) & (at <= points)
        column = np.minimum(at[inside].astype(int), points - 1)
        n = np.array(self.turns, dtype=float)[inside]
        weight = np.bincount(column, n, minlength=points)
        total = np.bincount(column, n * np.array(self.median_ns)[inside], minlength=points)
        return tuple(float(t / w) / 1e6 if w else None for t, w in zip(total, weight, strict=True))

    def columns(self) -> tuple[Floats, Floats, Floats]:
        """Return the bins' times in ns, numbers of turns, and medians in ms."""
        return (
            np.array(self.at_ns, dtype=float),
            np.array(self.turns, dtype=float),
            np.array(self.median_ns) / 1e6,
        )


class StepHistories:
    """A history for each kind of call with which a step may begin."""

    def __init__(self) -> None:
        self.kinds: dict[CallKey, StepHistory] = {}
        self._of: dict[int, CallKey | None] = {}
        self._breaks: list[int] = []
        self._sorted: Ints = np.zeros(0, dtype=np.int64)

    def add_breaks(self, moments: Iterable[int]) -> None:
        """Add edges of epochs and loops, which no turn crosses."""
        self._breaks += moments
        del self._breaks[:-MAX_BREAKS]

    def add(self, rows: Ints, names: Sequence[Name], after_gap: bool = False) -> None:
        """Add spans in the recording's form; ``after_gap`` if the spans before them were left out."""
        if len(self._sorted) != len(self._breaks):
            self._sorted = np.sort(np.array(self._breaks, dtype=np.int64))
        kinds: dict[CallKey, list[int]] = {}
        for number in distinct_values(rows[:, 0]) if len(rows) else ():
            key = self._key(int(number), names)
            if key is not None:
                kinds.setdefault(key, []).append(int(number))
        for key, numbers in kinds.items():
            if key not in self.kinds and len(self.kinds) >= MAX_CALL_KINDS:
                continue
            mine = rows[np.isin(rows[:, 0], numbers)]
            mine = mine[np.argsort(mine[:, 1], kind="stable")]
            self.kinds.setdefault(key, StepHistory()).add(mine[:, 1], mine[:, 2], self._sorted, after_gap)

    def _key(self, number: int, names: Sequence[Name]) -> CallKey | None:
        if number not in self._of:
            name = names[number] if 0 <= number < len(names) else None
            if name is None or not name.lane:
                return None  # a name may be written later than its first span
            self._of[number] = _call_key(name) if name.lane in STEP_START_LANES else None
        return self._of[number]

    def of(self, begun_ns: Ints, spans: Ints, names: Sequence[Name]) -> StepHistory | None:
        """Return the history of the calls with which the steps that began at these moments begin."""
        votes: dict[CallKey, int] = {}
        known = np.sort(begun_ns)  # np.isin would import numpy.ma
        at = spans[np.searchsorted(known, spans[:, 1], "right") > np.searchsorted(known, spans[:, 1])]
        for number, count in zip(*np.unique(at[:, 0], return_counts=True), strict=True):
            key = self._key(int(number), names)
            if key is not None:
                votes[key] = votes.get(key, 0) + int(count)
        best = max(votes, key=lambda k: votes[k], default=None)
        return self.kinds.get(best) if best is not None else None


def _call_key(name: Name) -> CallKey:
    detail: Mapping[str, object] = name.detail
    where = f"{detail.get('file')}:{detail.get('line')}" if detail.get("file") else str(detail.get("site"))
    return name.lane, name.text, where
