"""Summaries of stretches of a long run: made by the recorder's thread, read with the recording.

A **hole** lies between two stretches that were kept completely. It gives for every name the count and durations of
its spans, in histogram buckets 2.2 % wide. For every name that can be a step it also gives the **turns**: the times
from one start to the next. It keeps the longest turns with all spans in them, and the longest spans of each name. Two
neighbouring holes can be joined; their summary is the sum of both.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowtrain.columns import intervals
from slowtrain.columns.arrays import BUCKETS_PER_DOUBLING, Bools, Floats, Ints, distinct_values, median_value

ANCHOR_LANES = frozenset(
    {"step", "on_batch", "function", "gradient", "next"}
)  # lanes whose spans can be the run's steps
MARKED_LANE = "step"  # lane with known epoch ends: a gap within an epoch belongs to the step
MIN_LONG_TURN_RATIO = 3.0  # times the median turn; longer turns are kept
MAX_LONG_SPANS = 8  # longest spans of a name kept in each hole
MAX_LONG_TURNS = 64  # long turns of a name kept in a hole
MAX_KEPT_SPANS = 1024  # spans kept in a hole
MAX_ANCHOR_NAMES = 64  # names with turns in a hole; scripts that keep creating functions have more
MAX_HOLE_NAMES = 256  # names listed one by one in a hole
OTHERS_LANE = "?"
MAX_RARE_SPANS = 8  # names with at most this many spans are only counted in their lane
MIN_BREAK_RATIO, MIN_BREAK_NS = 10.0, 20_000_000  # a gap of this many times the median ends a stretch of steps
MAX_SUMMARY_BYTES = 1 << 26  # of one summary
NAME, START, END, THREAD = range(4)

Counts = dict[int, int]
NO_ROWS: Ints = np.zeros((0, 5), dtype=np.int64)


@dataclass(frozen=True)
class Durations:
    """Count, total, minimum, maximum and histogram (bucket to count) of durations."""

    count: int = 0
    total_ns: int = 0
    least_ns: int = 0
    most_ns: int = 0
    buckets: Counts = field(default_factory=dict)

    def __add__(self, other: Durations) -> Durations:
        if not self.count or not other.count:
            return self if self.count else other
        buckets = dict(self.buckets)
        for bucket, count in other.buckets.items():
            buckets[bucket] = buckets.get(bucket, 0) + count
        least, most = min(self.least_ns, other.least_ns), max(self.most_ns, other.most_ns)
        return Durations(self.count + other.count, self.total_ns + other.total_ns, least, most, buckets)

    @classmethod
    def of(cls, ns: Ints) -> Durations:
        if not len(ns):
            return cls()
        buckets, counts = np.unique(_duration_bucket(ns), return_counts=True)
        spread = dict(zip(buckets.tolist(), counts.tolist(), strict=True))
        return cls(len(ns), int(ns.sum()), int(ns.min()), int(ns.max()), spread)

    def ms(self) -> tuple[Floats, Ints]:
        """Return the middle of each bucket in ms, ascending, and the counts."""
        order = sorted(self.buckets)
        middle = 2.0 ** ((np.array(order, dtype=float) + 0.5) / BUCKETS_PER_DOUBLING)
        middle = np.clip(middle, self.least_ns, max(self.most_ns, self.least_ns)) / 1e6
        return middle, np.array([self.buckets[b] for b in order], dtype=np.int64)


def _duration_bucket(ns: Ints) -> NDArray[np.int64]:
    logarithm = np.log2(np.maximum(ns, 1).astype(np.float64))
    return np.asarray(logarithm * BUCKETS_PER_DOUBLING, dtype=np.int64)


@dataclass(frozen=True)
class TurnSummary:
    """The turns of one name. ``unkept_ns``: the longest turn without kept spans."""

    spread: Durations
    unkept_ns: int
    first_ns: int
    last_ns: int

    def __add__(self, other: TurnSummary) -> TurnSummary:
        return TurnSummary(
            self.spread + other.spread,
            max(self.unkept_ns, other.unkept_ns),
            min(self.first_ns, other.first_ns),
            max(self.last_ns, other.last_ns),
        )


@dataclass(frozen=True)
class ThinnedHole:
    """A thinned stretch. ``long`` has rows of name, start, end, and number of turns of that name before it."""

    start_ns: int
    end_ns: int
    spans: Mapping[int, Durations] = field(default_factory=dict)
    turns: Mapping[int, TurnSummary] = field(default_factory=dict)
    lanes: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # rare names together: count and ns by lane
    events: Mapping[str, int] = field(default_factory=dict)  # dropped, by lane
    long: Ints = field(default_factory=lambda: np.zeros((0, 4), dtype=np.int64))
    kept: Ints = field(default_factory=lambda: NO_ROWS)

    @property
    def ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6

    def count(self, names: Iterable[int]) -> int:
        return sum(self.spans[n].count for n in names if n in self.spans)


def chunk_rows(chunks: Iterable[bytes]) -> Ints:
    """Return the spans of several chunks: name, start, end, thread, value."""
    return np.frombuffer(b"".join(chunks), dtype="<i8").reshape(-1, 5).astype(np.int64)


def sorted_ns(moments: Iterable[int]) -> Ints:
    return np.sort(np.array(list(moments), dtype=np.int64))


def first_starts(spans_of: Ints) -> dict[int, int]:
    """Return when each name first began."""
    order = np.argsort(spans_of[:, START], kind="stable")
    names, first = np.unique(spans_of[order, NAME], return_index=True)
    return dict(zip(names.tolist(), spans_of[order[first], START].tolist(), strict=True))


def summarize_spans(
    spans_of: Ints,
    lane_of: Callable[[int], str],
    breaks_ns: Ints,
    start_ns: int,
    end_ns: int,
    following: Mapping[int, int] | None = None,
) -> ThinnedHole:
    """Return the hole that replaces these spans (name, start, end, thread, value). No turn crosses a break.

    ``following``: when each name began again after the stretch, if known.
    """
    rows = spans_of[np.lexsort((spans_of[:, START], spans_of[:, THREAD], spans_of[:, NAME]))]
    names, first, count = np.unique(rows[:, NAME], return_index=True, return_counts=True)
    spent = rows[:, END] - rows[:, START]
    spans: dict[int, Durations] = {}
    turns: dict[int, TurnSummary] = {}
    lanes: dict[str, tuple[int, int]] = {}
    long = []
    few = np.zeros(len(rows), dtype=bool)
    for i in np.argsort(-count, kind="stable"):
        name, part = int(names[i]), slice(int(first[i]), int(first[i] + count[i]))
        lane = lane_of(name)
        anchor = lane in ANCHOR_LANES and len(turns) < MAX_ANCHOR_NAMES
        if count[i] <= MAX_RARE_SPANS and not anchor:
            few[part] = True
            known = lanes.get(lane, (0, 0))
            lanes[lane] = known[0] + int(count[i]), known[1] + int(spent[part].sum())
            continue
        spans[name] = Durations.of(spent[part])
        if anchor:
            turns[name], mine = _turns_of_name(rows[part], breaks_ns, lane == MARKED_LANE, (following or {}).get(name))
            long.append(mine)
    hole = ThinnedHole(
        start_ns, end_ns, spans, turns, lanes, {}, np.concatenate(long) if long else ThinnedHole(0, 0).long, rows
    )
    return _trim_hole(hole)


def _turns_of_name(rows: Ints, breaks_ns: Ints, marked: bool, after_ns: int | None) -> tuple[TurnSummary, Ints]:
    """Return the turns of one name (rows ordered by thread and start), and those to keep."""
    start, end = rows[:, START], rows[:, END]
    following = np.append(start[1:], end[-1] if after_ns is None else after_ns)
    limit: float = np.inf
    if not marked and len(rows) > 2:
        limit = max(MIN_BREAK_RATIO * float(median_value(following[:-1] - start[:-1])), MIN_BREAK_NS)
    is_last = (following < end) | (following - end > limit)
    is_last[:-1] |= np.diff(rows[:, THREAD]) != 0
    is_last |= np.searchsorted(breaks_ns, following) > np.searchsorted(breaks_ns, end)
    stop = np.where(is_last, end, following)
    ns = stop - start
    # A few turns all count as long: they are kept as far as there is room.
    threshold = MIN_LONG_TURN_RATIO * float(median_value(ns)) if len(ns) > MAX_RARE_SPANS else 0.0
    rare = np.flatnonzero(ns > threshold)
    unkept = int(np.delete(ns, rare).max()) if len(rare) < len(ns) else 0
    number = np.argsort(np.argsort(start, kind="stable"), kind="stable")
    long = np.stack((rows[rare, NAME], start[rare], stop[rare], number[rare]), axis=1)
    return TurnSummary(Durations.of(ns), unkept, int(start.min()), int(end.max())), long


def _trim_hole(hole: ThinnedHole) -> ThinnedHole:
    """Keep the longest turns as far as there is room, the spans in them, and the longest spans of each name."""
    rows = hole.kept
    long, turns = _longest_turns(hole.long, dict(hole.turns), rows)
    spent = rows[:, END] - rows[:, START]
    order = np.lexsort((-spent, rows[:, NAME]))
    names = rows[order, NAME]
    rank = np.arange(len(rows)) - np.searchsorted(names, names)
    is_kept = np.zeros(len(rows), dtype=bool)
    longest = order[rank < MAX_LONG_SPANS]
    is_kept[longest[np.argsort(-spent[longest], kind="stable")][: MAX_KEPT_SPANS // 2]] = True
    is_kept |= _starts_in_turns(rows, long)
    return ThinnedHole(hole.start_ns, hole.end_ns, hole.spans, turns, hole.lanes, hole.events, long, rows[is_kept])


def _longest_turns(long: Ints, turns: dict[int, TurnSummary], rows: Ints) -> tuple[Ints, dict[int, TurnSummary]]:
    """Return the longest turns whose spans fit, and the turn summaries updated for those left out."""
    if not len(long):
        return long, turns
    ns = long[:, 2] - long[:, 1]
    order = np.argsort(-ns, kind="stable")
    starts = np.sort(rows[:, START])
    inside = np.searchsorted(starts, long[:, 2]) - np.searchsorted(starts, long[:, 1])
    seen: dict[int, int] = {}
    chosen, room = np.zeros(len(long), dtype=bool), MAX_KEPT_SPANS // 2
    for i in order:
        name = int(long[i, 0])
        seen[name] = seen.get(name, 0) + 1
        if seen[name] <= MAX_LONG_TURNS and inside[i] <= room:
            chosen[i] = True
            room -= 0 if _is_covered(long[chosen], long[i]) else int(inside[i])
        elif int(ns[i]) > turns[name].unkept_ns:
            known = turns[name]
            turns[name] = TurnSummary(known.spread, int(ns[i]), known.first_ns, known.last_ns)
    return long[chosen], turns


def _is_covered(chosen: Ints, one: Ints) -> bool:
    """Return whether a longer turn of another name already includes the spans in this one."""
    return bool(((chosen[:, 1] <= one[1]) & (chosen[:, 2] >= one[2])).sum() > 1)


def _starts_in_turns(rows: Ints, long: Ints) -> Bools:
    if not len(long):
        return np.zeros(len(rows), dtype=bool)
    start, end = intervals.union(long[:, 1].astype(np.float64), long[:, 2].astype(np.float64))
    return intervals.containing_range(start, end, rows[:, START].astype(np.float64)) >= 0


def join_holes(one: ThinnedHole, two: ThinnedHole) -> ThinnedHole:
    """Join two neighbouring holes; ``two`` comes later."""
    spans, turns, lanes, events = dict(one.spans), dict(one.turns), dict(one.lanes), dict(one.events)
    for name, durations in two.spans.items():
        spans[name] = spans.get(name, Durations()) + durations
    for name, theirs in two.turns.items():
        turns[name] = turns[name] + theirs if name in turns else theirs
    for lane, (count, ns) in two.lanes.items():
        known = lanes.get(lane, (0, 0))
        lanes[lane] = known[0] + count, known[1] + ns
    for lane, count in two.events.items():
        events[lane] = events.get(lane, 0) + count
    later = two.long.copy()
    if len(later):
        before = {int(n): one.spans[int(n)].count if int(n) in one.spans else 0 for n in distinct_values(later[:, 0])}
        later[:, 3] += np.array([before[int(n)] for n in later[:, 0]], dtype=np.int64)
    _merge_rare_names(spans, turns, lanes)
    long = np.concatenate((one.long, later))
    whole = ThinnedHole(
        min(one.start_ns, two.start_ns),
        max(one.end_ns, two.end_ns),
        spans,
        turns,
        lanes,
        events,
        long[np.isin(long[:, 0], list(turns))],
        np.concatenate((one.kept, two.kept)),
    )
    return _trim_hole(whole)


def _merge_rare_names(
    spans: dict[int, Durations], turns: dict[int, TurnSummary], lanes: dict[str, tuple[int, int]]
) -> None:
    """Count the rarest names together if there are too many, because a script may create any number of names."""
    for name in sorted(spans, key=lambda n: -spans[n].count)[MAX_HOLE_NAMES:]:
        gone = spans.pop(name)
        turns.pop(name, None)
        known = lanes.get(OTHERS_LANE, (0, 0))
        lanes[OTHERS_LANE] = known[0] + gone.count, known[1] + gone.total_ns


# -- as bytes


def pack_hole(hole: ThinnedHole) -> bytes:
    """Encode a hole: JSON, then the kept spans in the form of chunks, compressed together."""
    about = {
        "start_ns": hole.start_ns,
        "end_ns": hole.end_ns,
        "spans": {n: _plain_durations(d) for n, d in hole.spans.items()},
        "turns": {n: [_plain_durations(t.spread), t.unkept_ns, t.first_ns, t.last_ns] for n, t in hole.turns.items()},
        "lanes": hole.lanes,
        "events": hole.events,
        "long": hole.long.tolist(),
    }
    text = json.dumps(about, separators=(",", ":")).encode()
    return zlib.compress(len(text).to_bytes(8, "little") + text + hole.kept.astype("<i8").tobytes(), 1)


def _plain_durations(one: Durations) -> list[Any]:
    return [one.count, one.total_ns, one.least_ns, one.most_ns, [x for item in one.buckets.items() for x in item]]


def unpack_hole(data: bytes) -> ThinnedHole:
    """Decode a hole. Raises ``ValueError``, ``KeyError`` or ``TypeError`` for invalid data."""
    inflate = zlib.decompressobj()
    plain = inflate.decompress(data, MAX_SUMMARY_BYTES)
    size = int.from_bytes(plain[:8], "little")
    rest = plain[8 + size :]
    if inflate.unconsumed_tail or size > len(plain) - 8 or len(rest) % 40:
        raise ValueError("a summary of spans has the wrong size")
    about = json.loads(plain[8 : 8 + size])
    long = np.array(about["long"], dtype=np.int64).reshape(-1, 4)
    return ThinnedHole(
        int(about["start_ns"]),
        int(about["end_ns"]),
        {int(n): _parse_durations(d) for n, d in about["spans"].items()},
        {
            int(n): TurnSummary(_parse_durations(d), int(u), int(a), int(b))
            for n, (d, u, a, b) in about["turns"].items()
        },
        {str(lane): (int(count), int(ns)) for lane, (count, ns) in about["lanes"].items()},
        {str(lane): int(count) for lane, count in about["events"].items()},
        long,
        np.frombuffer(rest, dtype="<i8").reshape(-1, 5).astype(np.int64),
    )


def _parse_durations(plain: list[Any]) -> Durations:
    count, total, least, most, flat = plain
    buckets = {int(b): int(c) for b, c in zip(flat[::2], flat[1::2], strict=True)}
    if (
        any(not 0 <= b < 64 * BUCKETS_PER_DOUBLING or c < 0 for b, c in buckets.items())
        or sum(buckets.values()) != count
    ):
        raise ValueError("a summary of spans does not add up")
    return Durations(int(count), int(total), int(least), int(most), buckets)
