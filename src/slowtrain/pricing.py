"""What remedies would save, with a calibrated range."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from slowtrain.model import Phase, Saving
from slowtrain.trace import Trace
from slowtrain.whatif import MAX_SAVED_SHARE, Drop, Remedy, Skip, replay_remedies

# The range reaches at least to the prediction plus the second share of what the prediction leaves, for a step or run
# that belongs to the cause completely. A step's range begins at most at the first share of the prediction. Both were
# chosen from the scoreboard's cures; docs/scoreboard.md counts how many lie inside.
CALIBRATED_RANGE = (0.6, 0.7)


def recorder_ms(trace: Trace) -> float:
    """The part of the run that the recording took, which no cure shortens: its start, and the cost of windows."""
    known = trace.facts.get("own_ms")
    own = known if isinstance(known, (int, float)) and 0 < known < trace.run_ms else 0.0
    windows = sum(p.ms for p in trace.run.parts if p.name == str(Phase.WINDOW))
    return own + max(windows - int(trace.steps.windowed.sum()) * trace.step_ms, 0.0)


def _saved_ms_at_end(
    trace: Trace, remedies: Sequence[Remedy], scope: str, before_ms: float, saved_ms: float, end: int
) -> float:
    """What ``remedies`` save at the low (0) or high (1) end of their ranges.

    Each remedy is taken at its own end, because a wide range of one says nothing about the others.
    """
    if not all(isinstance(r, (Drop, Skip)) for r in remedies):
        return saved_ms * (min, max)[end]((r.spread[end] for r in remedies), default=1.0)
    moved = [_scale_remedy(r, r.spread[end]) for r in remedies if isinstance(r, (Drop, Skip))]
    after = replay_remedies(trace, moved)
    after_ms = after.step_ms if scope == "step" else max(after.run_ms - recorder_ms(trace), 0.0)
    return max(before_ms - after_ms, 0.0)


def _scale_remedy(remedy: Drop | Skip, factor: float) -> Remedy:
    if isinstance(remedy, Skip):
        return replace(remedy, ms=remedy.ms * factor)
    return replace(remedy, ms={category: ms * factor for category, ms in remedy.ms.items()})


def price_remedies(trace: Trace, remedies: Iterable[Remedy], scope: str, *, each_at_its_end: bool = False) -> Saving:
    """What ``remedies`` together would save, of a ``step`` or of the ``run``, with its range.

    ``each_at_its_end``: the range is that of several causes, each with its own range. The range is at least as wide as
    the scoreboard's cures require (``CALIBRATED_RANGE``).
    """
    remedies = list(remedies)
    after = replay_remedies(trace, remedies)
    spent = recorder_ms(trace)
    before, later = (
        (trace.step_ms, after.step_ms) if scope == "step" else (trace.run_ms - spent, max(after.run_ms - spent, 0.0))
    )
    saved = max(before - later, 0.0)
    least, most = (
        (_saved_ms_at_end(trace, remedies, scope, before, saved, end) for end in (0, 1))
        if each_at_its_end
        else (
            saved * min((r.spread[0] for r in remedies), default=1.0),
            saved * max((r.spread[1] for r in remedies), default=1.0),
        )
    )
    if scope == "step":
        least = min(least, CALIBRATED_RANGE[0] * saved)
    if before and remedies:
        most = max(most, saved + CALIBRATED_RANGE[1] * (before - saved) * saved / before)

    def speedup(ms: float) -> float:
        return before / max(before - ms, (1 - MAX_SAVED_SHARE) * before) if before else 1.0

    return Saving(scope, before, before - saved, speedup(least), speedup(min(most, MAX_SAVED_SHARE * before)))
