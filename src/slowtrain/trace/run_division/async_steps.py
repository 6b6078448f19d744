"""Steps of a recording whose device is behind its host.

A framework that only starts its steps (JAX) lets the host run ahead. Its own iterations show how fast it starts
steps, and the wait for all of them comes at the end of an epoch. The recorder notes when everything started was
finished (lane ``sync``), as does a user's loop that requests a value. If the host had to wait there, the steps before
it are given the device's time: equal lengths such that the last step ends with the wait, none begins before it was
started, and none before the previous one ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns.arrays import Floats, Ints, median_value
from slowtrain.columns.device import Kernels
from slowtrain.columns.steps import Steps
from slowtrain.model import Category
from slowtrain.recording.reader import Recording
from slowtrain.trace.run_division.recording_steps import touches_windows

MIN_STEPS = 3
MIN_QUEUED_STEPS = 1.8  # device steps unfinished when the last was started; with fewer the host limits the speed
# Times the host's own iteration; a device that is not slower is behind only if its queue is full.
MIN_SLOWER_RATIO = 1.1
MIN_FULL_QUEUE_STEPS = 8.0  # steps in a full queue (JAX's holds 32); fewer may be a delay at an epoch's end
MIN_DEVICE_STEP_SHARE = 0.5  # of the steady steps; with more a note explains what a step is
ASYNC_NOTE = (
    "the host runs ahead of the device: a step's length is the device's time for it, whatever the host does meanwhile"
)


class AsyncSteps(Struct, frozen=True):
    """The steps, and ``device_ms`` of each step in which the device was behind, 0 for all others."""

    steps: Steps
    device_ms: Floats

    @property
    def has_device_time(self) -> bool:
        """Whether most steady steps have the device's time."""
        steady = self.steps.steady
        return bool((self.device_ms[steady] > 0).sum() > MIN_DEVICE_STEP_SHARE * steady.sum())

    def limit_host_time(self, columns: Mapping[Category, Floats], busy_ms: float | None) -> dict[Category, Floats]:
        """Limit the host's time to the time in which the device had nothing to do.

        In steps with the device's time the device worked all the time, in the others for ``busy_ms``, if known.
        """
        mine = self.device_ms > 0
        if not mine.any() and busy_ms is None:
            return dict(columns)
        length = self.steps.ms
        at_work = np.minimum(np.where(mine, self.device_ms, busy_ms or 0.0), length)
        is_limited = mine | (busy_ms is not None)
        of_host = dict(columns)
        computing = of_host.pop(Category.DEVICE, np.zeros(len(length)))
        host = sum(of_host.values(), np.zeros(len(length)))
        left = np.divide(length - at_work, host, out=np.zeros_like(host), where=host > 0)
        found = {k: np.where(is_limited, c * np.minimum(left, 1.0), c) for k, c in of_host.items()}
        rest = length - sum(found.values(), np.zeros(len(length)))
        found[Category.DEVICE] = np.where(is_limited, np.maximum(rest, 0.0), computing)
        return found


def find_async_steps(recording: Recording, steps: Steps) -> AsyncSteps:
    """Return ``steps`` unchanged if the host never waited, or a part of the recording was thinned."""
    start, end, device = steps.start_ms.copy(), steps.end_ms.copy(), np.zeros(len(steps))
    for rows, started, done_ms in _steps_before_waits(recording, steps):
        each, queued_ms = device_step_ms(started, done_ms), done_ms - float(started[-1])
        slower = each >= MIN_SLOWER_RATIO * float(median_value(np.diff(steps.start_ms[rows])))
        if queued_ms < (MIN_QUEUED_STEPS if slower else MIN_FULL_QUEUE_STEPS) * each:
            continue
        at = float(start[rows[0]])
        for row, begun in zip(rows, started, strict=True):
            start[row], at = at, max(at, float(begun)) + each
            end[row], device[row] = at, each
        end[rows[-1]] = done_ms
    if not device.any():
        return AsyncSteps(steps, device)
    moved = device > 0
    windowed = np.where(moved, touches_windows(recording, start, end), steps.windowed)
    counted = np.arange(len(steps)) >= int(np.argmax(steps.steady | steps.windowed))
    steady = counted & ~windowed & (steps.steady | steps.windowed)
    steady = steady if steady.sum() >= MIN_STEPS else counted
    return AsyncSteps(replace(steps, start_ms=start, end_ms=end, windowed=windowed, steady=steady), device)


def window_busy_ms(recording: Recording, steps: Steps, ran: Kernels | None) -> float | None:
    """Return what a processor computed per step in the window, if calls only start it; None if calls wait for it.

    Only for loops of the user's own, in which waits inside NumPy are not recorded.
    """
    if not _is_on_jax(recording):
        return None
    if ran is None or not ran.step_ms or not _is_user_loop(steps):
        return None
    return ran.busy_ms * min(steps.mean_ms / ran.step_ms, 1.0)


def _is_user_loop(steps: Steps) -> bool:
    return steps.source.startswith("function ")


def _is_on_jax(recording: Recording) -> bool:
    return bool(recording.facts.get("jax")) or (recording.facts.get("keras") or {}).get("backend") == "jax"


def device_step_ms(started: Floats, done_ms: float) -> float:
    """Return the device's time per step. The steps started at these moments; the last one ended at ``done_ms``."""
    return float(((done_ms - started) / np.arange(len(started), 0, -1)).min())


def _steps_before_waits(recording: Recording, steps: Steps) -> Iterator[tuple[Ints, Floats, float]]:
    """Yield steps of one epoch before a wait for the device: rows, when each was started, when all were done."""
    by_hand = _is_user_loop(steps)
    calls = recording.lanes.get("function" if by_hand else "step")
    if calls is None or recording.holes or len(steps) < MIN_STEPS:
        return
    start, end = _device_wait_times(recording, steps, by_hand)
    at = np.minimum(np.searchsorted(calls.start_ms, steps.start_ms), len(calls) - 1)
    started = calls.end_ms[at]
    first = 0
    for start_ms, end_ms in zip(start, end, strict=True):
        last = int(np.searchsorted(started, start_ms, side="right"))
        rows = np.arange(first, last)
        first = last
        rows = rows[steps.block[rows] == steps.block[rows[-1]]] if len(rows) else rows
        if len(rows) < MIN_STEPS:
            continue
        # After a short wait the device may have finished long before.
        if end_ms - start_ms >= float(median_value(np.diff(steps.start_ms[rows]))):
            yield rows, started[rows], float(end_ms)


def _device_wait_times(recording: Recording, steps: Steps, by_hand: bool) -> tuple[Floats, Floats]:
    """Return when the host waited for everything started; in a user's loop also when it read a value not yet ready.

    Reads in every step say nothing about a queue.
    """
    lanes, found = recording.lanes, []
    if "sync" in lanes:
        found.append(lanes["sync"])
    if by_hand and _is_on_jax(recording) and "readback" in lanes:
        read = lanes["readback"]
        found.append(read.where(read.ms >= float(median_value(np.diff(steps.start_ms)))))
    start, end = (np.concatenate([np.zeros(0), *(getattr(s, at) for s in found)]) for at in ("start_ms", "end_ms"))
    order = np.argsort(start)
    return start[order], end[order]
