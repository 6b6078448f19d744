"""How far a run is: its epochs, and the time that is left where the run, or its script, says how long it will be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slowtrain.model.frame import Progress
from slowtrain.source.reading import planning
from slowtrain.trace import Trace
from slowtrain.trace.history import History
from slowtrain.trace.live import Follower
from slowtrain.trace.ordered import halfway

RECENT_EPOCHS = 5  # whose median length the coming ones are taken to have
LEAST_STEPS = 8  # behind the first second: fewer tell no pace
MINE = 0.9  # of the calls that a step may be: then the recorder's count is of these


def progress(
    follower: Follower, history: History | None, trace: Trace, steps: int | None, now_ns: int, *, over: bool
) -> Progress:
    """``over``: nothing is left of a run that has ended. ``trace``: the last seconds."""
    fit = _fit(follower)
    if fit is None:
        found = _looped(follower, history, trace, steps, now_ns) if not over and history is not None else None
        return found or Progress(steps=steps)
    begun_ns, about = fit
    epochs = _count(about.get("epochs"))
    begun, lengths, logs = _epochs(follower, begun_ns)
    per_epoch = _count(about.get("steps_per_epoch"))
    epoch_step = _steps_since(history, begun) if history is not None and begun else None
    if per_epoch is not None and epoch_step is not None:
        epoch_step = min(epoch_step, per_epoch)
    number = _number(follower, begun_ns)
    left = None
    if not over and epochs is not None and number is not None and begun:
        left = _left_ms(now_ns, begun, lengths, epochs - number, per_epoch, epoch_step, history)
    return Progress(steps, number, epochs, epoch_step, per_epoch, left, logs)


def _fit(follower: Follower) -> tuple[int, Mapping[str, Any]] | None:
    """The fit in progress, else the last one."""
    for at, lane, name, data in follower.unfinished():
        if lane == "loop" and name == "fit":
            return at, data
    done = [e for e in follower.events.get("loop", ()) if e.name == "fit" and not e.data.get("nested")]
    return (int(done[-1].start_ms), done[-1].data) if done else None


def _epochs(follower: Follower, since_ns: int) -> tuple[int, list[float], dict[str, float]]:
    """Of a fit: when its newest epoch began, the lengths of those before (ns), what the last one logged."""
    begun = [e.start_ms for e in follower.events.get("epoch", ()) if e.name == "begin" and e.start_ms >= since_ns]
    logs: dict[str, float] = {}
    for event in reversed(follower.events.get("epoch", ())):
        if event.name == "end" and event.start_ms >= since_ns:
            told = event.data.get("logs")
            logs = {str(k): float(v) for k, v in told.items()} if isinstance(told, dict) else {}
            break
    return int(begun[-1]) if begun else 0, np.diff(begun[-RECENT_EPOCHS - 1 :]).tolist(), logs


def _number(follower: Follower, since_ns: int) -> int | None:
    """The number of the epoch in progress as Keras counts them, from 1."""
    for event in reversed(follower.events.get("epoch", ())):
        if event.name == "begin" and event.start_ms >= since_ns and isinstance(event.data.get("epoch"), int):
            return int(event.data["epoch"]) + 1
    return None


def _steps_since(history: History, begun_ns: int) -> int:
    """Steps since a moment, as exactly as the history's pieces are (less than a second)."""
    return sum(n for at, n in zip(reversed(history.at_ns), reversed(history.turns), strict=True) if at > begun_ns)


def _left_ms(
    now_ns: int,
    begun_ns: int,
    lengths: list[float],
    epochs_after: int,
    per_epoch: int | None,
    epoch_step: int | None,
    history: History | None,
) -> float | None:
    """From whole epochs where one has ended (validation and checkpoints are in them), else from steps."""
    if lengths:
        each = float(halfway(lengths))
        return max(each - (now_ns - begun_ns), 0.0) / 1e6 + max(epochs_after, 0) * each / 1e6
    step_ms = history.quantile_ms(0.5) if history is not None else None
    if per_epoch is None or epoch_step is None or step_ms is None:
        return None
    return (max(per_epoch - epoch_step, 0) + max(epochs_after, 0) * per_epoch) * step_ms


def _looped(follower: Follower, history: History, trace: Trace, steps: int | None, now_ns: int) -> Progress | None:
    """Of a loop written by hand, where its text says how often it turns."""
    said = planning.in_text(trace)
    if said is None:
        return None
    found, place = said
    if found.head is not None:
        made = follower.events.get("iterator", ())
        begun = [e.start_ms for e in planning.passes(made, place.file, found.head)]
        if not 2 <= len(begun) <= found.turns:
            return None
        lengths = np.diff(begun[-RECENT_EPOCHS - 1 :]).tolist()
        left = _left_ms(now_ns, int(begun[-1]), lengths, found.turns - len(begun), None, None, history)
        return Progress(steps, len(begun), found.turns, left_ms=left, loop=place.short, at_most=found.at_most)
    taken = _taken(follower, history)
    if taken is None or taken > found.turns:
        return None  # it is not known, or the text was not understood
    each = _pace_ms(history, taken)
    left = (found.turns - taken) * each if each is not None and taken < found.turns else None
    return Progress(taken, left_ms=left, planned=found.turns, loop=place.short, at_most=found.at_most)


def _taken(follower: Follower, history: History) -> int | None:
    """The steps so far, exactly but for those of the last moment; None where nobody counted these alone."""
    kinds = follower.histories.kinds
    lane, text = next((key[:2] for key, one in kinds.items() if one is history), ("", ""))
    mine = sum(one.count for key, one in kinds.items() if key[:2] == (lane, text)) if lane == "on_batch" else 0
    mine = max(mine, history.count)  # calls of train_on_batch are steps wherever they stand
    if follower.whole:
        return mine
    told = follower.facts.get("steps_so_far")
    alike = sum(one.count for key, one in kinds.items() if key[0] == lane)
    return int(told) if isinstance(told, int) and mine >= MINE * alike else None


def _pace_ms(history: History, taken: int) -> float | None:
    """From step to step over the run, with whatever lay between them; without the first second, which warms up."""
    turns = taken - 1 - history.turns[0] if history.turns else 0
    return (history.last_ns - history.at_ns[0]) / 1e6 / turns if turns >= LEAST_STEPS else None


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int) and value > 0 else None
