"""The steps of a thinned run: the kept ones, the long ones of the rest, and the totals of all."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from msgspec.structs import replace

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Floats, Ints
from slowtrain.columns.steps import RunTotals, Steps, ThinnedStretch
from slowtrain.model import Phase
from slowtrain.recording.thinned_summary import Durations, ThinnedHole


def thinned_run_steps(
    recorded: Steps, piece: Ints, names: Collection[int], holes: Sequence[ThinnedHole], start_ns: int
) -> Steps:
    """Return ``recorded`` with the long steps and totals of the holes. ``piece``: holes before each kept step."""
    counts = [h.count(names) for h in holes]
    before = np.concatenate(([0], np.cumsum(counts)))
    number = np.arange(len(recorded)) + before[np.clip(piece, 0, len(holes))]
    first = np.searchsorted(piece, np.arange(len(holes)), side="right") + before[:-1]  # of each hole's first step
    # Steps next to a hole lack their end, or what was recorded before their own span.
    across = np.diff(piece) != 0
    edge = np.append(across, False) | np.append(False, across)
    settled = recorded.start_ms[recorded.steady][0] if recorded.steady.any() else np.inf
    reported = [i for i, h in enumerate(holes) if counts[i] and (h.start_ns - start_ns) / 1e6 >= settled]
    start, end, long = _long_steps(holes, first, reported, names, start_ns)
    order = np.argsort(np.concatenate((recorded.start_ms, start)), kind="stable")
    at = np.maximum(np.searchsorted(recorded.start_ms, start, side="right") - 1, 0)

    def both(mine: Bools, value: bool) -> Bools:
        return np.asarray(np.concatenate((mine, np.full(len(start), value)))[order])

    found = replace(
        recorded,
        start_ms=np.concatenate((recorded.start_ms, start))[order],
        end_ms=np.concatenate((recorded.end_ms, end))[order],
        steady=both(recorded.steady & ~edge, False),
        windowed=both(recorded.windowed, False),
        rare=both(np.zeros(len(recorded), dtype=bool), True),
        edge=both(edge, False),
        block=np.concatenate((recorded.block, recorded.block[at]))[order],
        size=np.concatenate((recorded.size, recorded.size[at]))[order],
        numbers=np.concatenate((number, long))[order].astype(np.int64),
    )
    stretches = [_thinned_stretch(holes[i], int(first[i]), counts[i], names, start_ns) for i in reported]
    turns = (holes[i].turns[n] for i in reported for n in names if n in holes[i].turns)
    return replace(found, whole=_run_totals(found, stretches, max((t.unkept_ns / 1e6 for t in turns), default=0.0)))


def claim_hole_time(
    left: intervals.Intervals,
    spent: dict[Phase, float],
    claims: Sequence[tuple[Phase, intervals.Intervals]],
    found: Steps,
) -> intervals.Intervals:
    """Add the time of the holes to ``spent``, and return ``left`` without the holes.

    The total time of a hole's steps is known. The rest of its time is assigned to phases in the same proportion as
    the time between steps where everything was kept.
    """
    if found.whole is None:
        return left
    stretches = found.whole.stretches
    holes = intervals.union(np.array([s.start_ms for s in stretches]), np.array([s.end_ms for s in stretches]))
    mine = intervals.intersect(left, holes)
    time = intervals.total_length(mine)
    stepping = min(sum(s.total_ms for s in stretches), time)
    spent[Phase.STEPS] += stepping
    left = intervals.subtract(left, holes)
    between, other_ms = left, dict.fromkeys(spent, 0.0)
    if len(holes[0]):
        between = intervals.intersect(left, (holes[0][:1], holes[1][-1:]))
    for phase, those in claims:
        inside = intervals.intersect(between, those)
        other_ms[phase] += intervals.total_length(inside) if phase is not Phase.STEPS else 0.0
        between = intervals.subtract(between, those)
    total = sum(other_ms.values())
    for phase, ms in other_ms.items():
        spent[phase] += (time - stepping) * (ms / total if total else float(phase is Phase.EPOCH))
    return left


def _long_steps(
    holes: Sequence[ThinnedHole], first: Ints, reported: Sequence[int], names: Collection[int], start_ns: int
) -> tuple[Floats, Floats, Ints]:
    """Return start, end and number of the holes' long steps."""
    rows = [np.zeros((0, 3))]
    for i in reported:
        hole = holes[i]
        mine = hole.long[np.isin(hole.long[:, 0], list(names))]
        inside = mine[:, 3].astype(np.float64)
        if len(names) > 1:  # counts are by name; if several names share the steps, uses the clock
            inside = np.floor(hole.count(names) * (mine[:, 1] - hole.start_ns) / max(hole.end_ns - hole.start_ns, 1))
        rows.append(np.stack(((mine[:, 1] - start_ns) / 1e6, (mine[:, 2] - start_ns) / 1e6, first[i] + inside), axis=1))
    start, end, number = np.concatenate(rows).T
    return start, end, number.astype(np.int64)


def _thinned_stretch(
    hole: ThinnedHole, number: int, count: int, names: Collection[int], start_ns: int
) -> ThinnedStretch:
    spread = sum((hole.turns[n].spread for n in names if n in hole.turns), Durations())
    # Names that a summary does not list have no turns: extrapolates from the others.
    total = spread.total_ns / 1e6 * (count / spread.count if spread.count else 0.0)
    middle, buckets = spread.ms()
    return ThinnedStretch(
        number, count, (hole.start_ns - start_ns) / 1e6, (hole.end_ns - start_ns) / 1e6, total, middle, buckets
    )


def _run_totals(found: Steps, stretches: list[ThinnedStretch], long_ms: float) -> RunTotals:
    ms, early = found.ms, ~found.steady_or_rare & ~found.windowed
    mine = found.steady if found.edge is None else found.steady | (found.edge & early)
    count = int(mine.sum()) + sum(s.count for s in stretches)
    total = float(ms[mine].sum()) + sum(s.total_ms for s in stretches)
    known = Durations.of((ms[mine] * 1e6).astype(np.int64)).ms()
    weight = _step_weights(found, count, long_ms)
    weighted_ms = float(weight @ ms) * count
    weight *= total / weighted_ms if weighted_ms else 0.0
    return RunTotals(count, total, *_join_buckets([known, *((s.bucket_ms, s.buckets) for s in stretches)]), weight,
                 tuple(stretches), long_ms)  # fmt: skip


def _step_weights(found: Steps, count: int, long_ms: float) -> Floats:
    """Return the steps' weights: a long step stands for itself, the other kept ones for all remaining steps."""
    long = (found.ms > long_ms) & found.steady_or_rare
    usual = found.steady & ~long
    weight = long.astype(np.float64)
    if usual.any():
        weight[usual] = max(count - int(long.sum()), 0) / int(usual.sum())
    return weight


def _join_buckets(several: Sequence[tuple[Floats, Ints]]) -> tuple[Floats, Ints]:
    """Merge several histograms, in order; buckets with the same middle become one."""
    middle = np.concatenate([m for m, _ in several])
    counts = np.concatenate([c for _, c in several])
    known, at = np.unique(np.round(middle, 9), return_inverse=True)
    return known, np.bincount(at, counts, minlength=len(known)).astype(np.int64)
