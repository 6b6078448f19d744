"""The progress of a run: its epochs, and the remaining time if the run or its script says how long it will be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slowtrain.columns.arrays import median_value
from slowtrain.recording.live_follower import Follower
from slowtrain.recording.step_history import StepHistory
from slowtrain.script.locations import planned_steps
from slowtrain.shared.live_frame import Progress
from slowtrain.trace import Trace

RECENT_EPOCHS = 5  # whose median duration is expected of the next ones
MIN_PACE_STEPS = 8  # after the first second: with fewer the pace is unknown
MAX_CALL_SHARE = (
    0.9  # of the calls that may be steps; with at least this share, the recorder's count is that of the steps
)


def run_progress(
    follower: Follower, history: StepHistory | None, trace: Trace, steps: int | None, now_ns: int, *, over: bool
) -> Progress:
    """The progress. ``over``: the run has ended, so nothing remains. ``trace``: the last seconds."""
    fit = _current_fit(follower)
    if fit is None:
        found = _loop_progress(follower, history, trace, steps, now_ns) if not over and history is not None else None
        return found or Progress(steps=steps)
    begun_ns, about = fit
    epochs = _whole_number(about.get("epochs"))
    begun, lengths, logs = _epoch_times(follower, begun_ns)
    per_epoch = _whole_number(about.get("steps_per_epoch"))
    epoch_step = _steps_since(history, begun) if history is not None and begun else None
    if per_epoch is not None and epoch_step is not None:
        epoch_step = min(epoch_step, per_epoch)
    number = _epoch_number(follower, begun_ns)
    left = None
    if not over and epochs is not None and number is not None and begun:
        left = _remaining_ms(now_ns, begun, lengths, epochs - number, per_epoch, epoch_step, history)
    return Progress(steps, number, epochs, epoch_step, per_epoch, left, logs)


def _current_fit(follower: Follower) -> tuple[int, Mapping[str, Any]] | None:
    """The current fit, or else the last one."""
    for at, lane, name, data in follower.unfinished_events():
        if lane == "loop" and name == "fit":
            return at, data
    done = [e for e in follower.events.get("loop", ()) if e.name == "fit" and not e.data.get("nested")]
    return (int(done[-1].start_ms), done[-1].data) if done else None


def _epoch_times(follower: Follower, since_ns: int) -> tuple[int, list[float], dict[str, float]]:
    """For a fit: the start of its newest epoch, the durations of those before (ns), and the last one's logs."""
    begun = [e.start_ms for e in follower.events.get("epoch", ()) if e.name == "begin" and e.start_ms >= since_ns]
    logs: dict[str, float] = {}
    for event in reversed(follower.events.get("epoch", ())):
        if event.name == "end" and event.start_ms >= since_ns:
            stored_logs = event.data.get("logs")
            logs = {str(k): float(v) for k, v in stored_logs.items()} if isinstance(stored_logs, dict) else {}
            break
    return int(begun[-1]) if begun else 0, np.diff(begun[-RECENT_EPOCHS - 1 :]).tolist(), logs


def _epoch_number(follower: Follower, since_ns: int) -> int | None:
    """The number of the current epoch in Keras' counting, from 1."""
    for event in reversed(follower.events.get("epoch", ())):
        if event.name == "begin" and event.start_ms >= since_ns and isinstance(event.data.get("epoch"), int):
            return int(event.data["epoch"]) + 1
    return None


def _steps_since(history: StepHistory, begun_ns: int) -> int:
    """Steps since a time, as precise as the history's pieces (less than a second)."""
    return sum(n for at, n in zip(reversed(history.at_ns), reversed(history.turns), strict=True) if at > begun_ns)


def _remaining_ms(
    now_ns: int,
    begun_ns: int,
    lengths: list[float],
    epochs_after: int,
    per_epoch: int | None,
    epoch_step: int | None,
    history: StepHistory | None,
) -> float | None:
    """From whole epochs if one has ended (they include validation and checkpoints), else from steps."""
    if lengths:
        each = float(median_value(lengths))
        return max(each - (now_ns - begun_ns), 0.0) / 1e6 + max(epochs_after, 0) * each / 1e6
    step_ms = history.quantile_ms(0.5) if history is not None else None
    if per_epoch is None or epoch_step is None or step_ms is None:
        return None
    return (max(per_epoch - epoch_step, 0) + max(epochs_after, 0) * per_epoch) * step_ms


def _loop_progress(
    follower: Follower, history: StepHistory, trace: Trace, steps: int | None, now_ns: int
) -> Progress | None:
    """The progress of a hand-written loop, if its text says how often it runs."""
    written_count = planned_steps.written_step_count(trace)
    if written_count is None:
        return None
    found, place = written_count
    if found.head is not None:
        iterators = follower.events.get("iterator", ())
        begun = [e.start_ms for e in planned_steps.dataset_passes(iterators, place.file, found.head)]
        if not 2 <= len(begun) <= found.turns:
            return None
        lengths = np.diff(begun[-RECENT_EPOCHS - 1 :]).tolist()
        left = _remaining_ms(now_ns, int(begun[-1]), lengths, found.turns - len(begun), None, None, history)
        return Progress(steps, len(begun), found.turns, left_ms=left, loop=place.short, at_most=found.at_most)
    taken = _steps_taken(follower, history)
    if taken is None or taken > found.turns:
        return None  # unknown, or the text was not understood
    each = _pace_ms(history, taken)
    left = (found.turns - taken) * each if each is not None and taken < found.turns else None
    return Progress(taken, left_ms=left, planned=found.turns, loop=place.short, at_most=found.at_most)


def _steps_taken(follower: Follower, history: StepHistory) -> int | None:
    """Steps so far, exact except for the last moment; None if these were not counted separately."""
    kinds = follower.histories.kinds
    lane, text = next((key[:2] for key, one in kinds.items() if one is history), ("", ""))
    mine = sum(one.count for key, one in kinds.items() if key[:2] == (lane, text)) if lane == "on_batch" else 0
    mine = max(mine, history.count)  # calls of train_on_batch are steps anywhere
    if follower.whole:
        return mine
    counted = follower.facts.get("steps_so_far")
    alike = sum(one.count for key, one in kinds.items() if key[0] == lane)
    return int(counted) if isinstance(counted, int) and mine >= MAX_CALL_SHARE * alike else None


def _pace_ms(history: StepHistory, taken: int) -> float | None:
    """Mean time between steps over the run, including pauses, without the first second, which is warm-up."""
    turns = taken - 1 - history.turns[0] if history.turns else 0
    return (history.last_ns - history.at_ns[0]) / 1e6 / turns if turns >= MIN_PACE_STEPS else None


def _whole_number(value: Any) -> int | None:
    return int(value) if isinstance(value, int) and value > 0 else None
