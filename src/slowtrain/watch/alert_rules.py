"""When an alert begins and ends: all rules, each with its reason.

Rules look at one :class:`RecordingLook` and are cheap. What needs the whole recording (drift, leaks) comes from the
causes, which ``BackgroundDiagnosis`` runs at intervals; those alerts are kept here as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from slowtrain.columns.arrays import median_value, quantile
from slowtrain.model import Category, Signal
from slowtrain.report import wording
from slowtrain.shared.live_frame import Alert, DiagnosisReport, RunState
from slowtrain.shared.vocabulary import is_loss
from slowtrain.watch.recording_look import RecordingLook

MAX_ALERTS = 40  # that are kept; the oldest ended ones are dropped first
ALERT_HOLD_MS = (
    15_000.0  # an alert ends after this time without its condition, because figures oscillate around a threshold
)

# A stall is longer than people wait without asking, than any steps of the run took, and than any earlier pause in it.
MIN_STALL_MS, MIN_STALL_STEPS, MIN_STALL_PAUSES = 10_000.0, 20.0, 3.0
# Steps take a quarter longer than in the first stretch of the run, and nearly all are longer than nearly all of that
# stretch, so that noise of any kind does not trigger it.
MIN_STEP_SLOWDOWN, SLOWER_RECENT_S, SLOWER_FIRST_S, MIN_SLOWER_RUN_S = 1.25, 60.0, 60.0, 180.0
SETTLING_TIME_S = 30.0  # at the beginning of the first stretch: warm-up, the profiler's windows
MIN_BINS = 10
# Overlapping input with computing could save a third of the step; a smaller gain is left to the report.
MIN_INPUT_WAIT_SHARE, GPU_SHARE = 0.33, 0.5
MIN_READINGS = 10
# At about one per cent of free memory the system's killer acts; at five there is time to react.
MIN_FREE_SHARE, MEMORY_SPAN_S, MEMORY_BINS, MIN_MEMORY_GROWTH_SHARE, MIN_MEMORY_GROWTH_BYTES = (
    0.05,
    1_800.0,
    8,
    0.03,
    64e6,
)
MIN_MEMORY_HISTORY_S = 300.0
DEFAULT_HORIZON_MS = 6 * 3_600_000.0  # if the length of the run is unknown, later exhaustion is left to the report
MIN_DISK_BYTES = float(1 << 30)  # room for a checkpoint or two

CONFIRMING_LOOKS = 3  # in a row, before an oscillating condition is reported


@dataclass(frozen=True)
class AlertRule:
    """``looks``: how many consecutive looks have to agree."""

    id: str
    judge: Callable[[RecordingLook], Alert | None]
    looks: int = 1
    lasting: bool = False  # it never ends, because what happened cannot be undone


def _make_alert(sight: RecordingLook, name: str, says: str, *, urgent: bool = False, **numbers: float) -> Alert:
    return Alert(name, says, sight.frame.run_ms, urgent, numbers)


def stall_alert(sight: RecordingLook) -> Alert | None:
    frame, quiet, history = sight.frame, sight.quiet_ms, sight.history
    if frame.state is not RunState.RUNNING or quiet is None or history is None:
        return None
    usual = frame.step.run_ms or 0.0
    pause = history.longest_gap_ns / 1e6
    if not pause:
        return None  # the second step has not ended yet: it may take minutes, or be compiled again
    if quiet < max(MIN_STALL_MS, MIN_STALL_STEPS * usual, MIN_STALL_PAUSES * pause):
        return None
    says = (
        f"no step has ended for {wording.duration_text(quiet)}; a step usually takes {wording.duration_text(usual)}, "
        f"and the longest pause before was {wording.duration_text(pause)}"
    )
    if sight.stopped is not None:
        says += f"; its process is stopped (Ctrl-Z, SIGSTOP): `kill -CONT {sight.stopped}` resumes it"
    found = _make_alert(sight, "stall", says, urgent=True, quiet_ms=quiet, usual_ms=usual, longest_pause_ms=pause)
    if frame.doing is None:
        return found
    inside = f", in {frame.doing_what}" if frame.doing_what else ""
    return replace(found, says=f"{says}; the script is at {frame.doing}{inside}", where=(frame.doing,))


def slower_steps_alert(sight: RecordingLook) -> Alert | None:
    """The cheap test; ``drift/growing-step`` explains the growth after the recording has been diagnosed."""
    history, frame = sight.history, sight.frame
    if history is None or frame.state is not RunState.RUNNING:
        return None
    at, turns, median = history.columns()
    if not len(at) or (at[-1] - at[0]) / 1e9 < MIN_SLOWER_RUN_S:
        return None
    since = (at - at[0]) / 1e9
    first = (since >= SETTLING_TIME_S) & (since < SETTLING_TIME_S + SLOWER_FIRST_S)
    last = (sight.now_ns - at) / 1e9 <= SLOWER_RECENT_S
    if first.sum() < MIN_BINS or last.sum() < MIN_BINS or (first & last).any():
        return None
    before, after = _weighted_median(median[first], turns[first]), _weighted_median(median[last], turns[last])
    is_distinct = float(quantile(median[last], 0.1)) > float(quantile(median[first], 0.9))
    if before <= 0 or after < MIN_STEP_SLOWDOWN * before or not is_distinct:
        return None
    says = (
        f"a step takes {wording.duration_text(after)} in the last minute, {after / before:.2f} times the "
        f"{wording.duration_text(before)} of the run's first minutes"
    )
    return _make_alert(sight, "slower-steps", says, now_ms=after, first_ms=before, ratio=after / before)


def _weighted_median(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], weights: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> float:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][int(np.searchsorted(total, total[-1] / 2))])


def nonfinite_alert(sight: RecordingLook) -> Alert | None:
    event = next((e for e in sight.follower.events.get("nonfinite", ()) if is_loss(e.name)), None)
    if event is None:
        return None
    value = str(event.data.get("value") or "not finite")
    step = event.data.get("step")
    at_ms = (event.start_ms - sight.follower.start_ns) / 1e6
    seen = f", seen at step {step:,}" if isinstance(step, int) else ""
    says = f"{event.name} is {value}{seen}; the steps after it train nothing"
    numbers = {"step": float(step)} if isinstance(step, int) else {}
    return Alert("nonfinite-loss", says, at_ms, True, numbers)


def memory_full_alert(sight: RecordingLook) -> Alert | None:
    """Memory is nearly full, or grows so that it will be full within the run."""
    machine, frame = sight.frame.machine, sight.frame
    if machine.rss_bytes is None or machine.limit_bytes is None or machine.available_bytes is None or not sight.alive:
        return None
    room = min(machine.available_bytes, machine.limit_bytes - machine.rss_bytes)
    if room < MIN_FREE_SHARE * machine.limit_bytes:
        says = (
            f"memory is nearly full: {wording.bytes_text(max(room, 0.0))} of "
            f"{wording.bytes_text(machine.limit_bytes)} are left, "
            f"the run uses {wording.bytes_text(machine.rss_bytes)}"
        )
        return _make_alert(sight, "memory-full", says, urgent=True, room_bytes=room, rss_bytes=machine.rss_bytes)
    rate = _growth_bytes_s(sight)
    if not rate:
        return None
    full_ms = room / rate * 1e3
    within = frame.progress.left_ms if frame.progress.left_ms is not None else DEFAULT_HORIZON_MS
    if full_ms > within:
        return None
    says = (
        f"memory will be full in about {wording.duration_text(full_ms)} at this rate: the run's memory grows by "
        f"{wording.bytes_text(rate * 60)} a minute, {wording.bytes_text(room)} are left"
    )
    return _make_alert(
        sight, "memory-full", says, full_in_ms=full_ms, growth_bytes_per_minute=rate * 60, room_bytes=room
    )


def _growth_bytes_s(sight: RecordingLook) -> float | None:
    """The growth of the process in bytes per second, if it grows all the time and does not slow down at the end."""
    at, values = sight.column("rss_bytes", MEMORY_SPAN_S)
    if len(at) < MEMORY_BINS * 4 or at[-1] - at[0] < MIN_MEMORY_HISTORY_S:
        return None
    parts = [np.array(part) for part in np.array_split(np.array(values, dtype=float), MEMORY_BINS)]
    times = [float(median_value(part)) for part in np.array_split(at, MEMORY_BINS)]
    level = [float(median_value(part)) for part in parts]
    grown = level[-1] - level[0]
    half = MEMORY_BINS // 2
    if grown < max(MIN_MEMORY_GROWTH_BYTES, MIN_MEMORY_GROWTH_SHARE * level[0]) or any(
        b < a for a, b in itertools.pairwise(level)
    ):
        return None
    if level[-1] - level[half] < 0.5 * (level[half - 1] - level[0]):
        return None  # it fills up to a limit, it does not leak
    slopes = [(level[j] - level[i]) / (times[j] - times[i]) for i in range(MEMORY_BINS) for j in range(i)]
    return float(median_value(slopes))


def input_bound_alert(sight: RecordingLook) -> Alert | None:
    trace = sight.trace
    if Signal.INPUT not in trace.signals or not trace.has_enough_steps or sight.frame.state is not RunState.RUNNING:
        return None
    waits, step = trace.mean(Category.INPUT), trace.step_ms
    if waits < MIN_INPUT_WAIT_SHARE * step:
        return None
    says = (
        f"steps wait for input {waits / step:.0%} of their time: {wording.duration_like(waits, step)} of "
        f"{wording.duration_like(step, step)} in the last {wording.duration_text(sight.frame.window_ms)}"
    )
    return _make_alert(sight, "input-bound", says, input_ms=waits, step_ms=step)


def gpu_idle_alert(sight: RecordingLook) -> Alert | None:
    if sight.frame.state is not RunState.RUNNING or not sight.trace.has_enough_steps:
        return None
    _, rows = sight.column("gpu_util_share", sight.frame.window_ms / 1e3)
    if len(rows) < MIN_READINGS:
        return None
    busy = {}
    for i, about in enumerate(sight.frame.machine.gpus):
        read = [row[i] for row in rows if isinstance(row, list) and len(row) > i and row[i] is not None]
        if len(read) >= MIN_READINGS:
            busy[i, about.name] = float(np.mean(read))
    used = {key: mean for key, mean in busy.items() if mean > 0}  # the run does not use a card that it never touches
    if not used:
        return None
    (number, name), share = max(used.items(), key=lambda item: item[1])
    if share >= GPU_SHARE:
        return None
    says = f"GPU {number} ({name}) was busy for {share:.0%} of the last {wording.duration_text(sight.frame.window_ms)}"
    return _make_alert(sight, "gpu-idle", says, busy_share=share)


def disk_full_alert(sight: RecordingLook) -> Alert | None:
    free = sight.frame.machine.disk_free_bytes
    if free is None or free >= MIN_DISK_BYTES or not sight.alive:
        return None
    return _make_alert(
        sight, "disk-full", f"the disk has {wording.bytes_text(free)} left", urgent=True, free_bytes=free
    )


def recording_ended_alert(sight: RecordingLook) -> Alert | None:
    if sight.follower.gone:
        return _make_alert(
            sight, "recording-ended", "the recording's folder was removed; the script continues without a recording"
        )
    if not sight.follower.ended or sight.frame.state is RunState.ENDED:
        return None
    says = f"the recording ended before the script: {sight.follower.ended}"
    return _make_alert(sight, "recording-ended", says, urgent=True)


def process_lost_alert(sight: RecordingLook) -> Alert | None:
    if sight.frame.state is not RunState.LOST:
        return None
    says = (
        "the run's process disappeared without recording its end: it was killed by a user or the system, "
        "or because memory ran out"
    )
    return _make_alert(sight, "process-lost", says, urgent=True)


ALERT_RULES = (
    AlertRule("stall", stall_alert),
    AlertRule("nonfinite-loss", nonfinite_alert, lasting=True),
    AlertRule("process-lost", process_lost_alert, looks=2),
    AlertRule("recording-ended", recording_ended_alert),
    AlertRule("memory-full", memory_full_alert, looks=2),
    AlertRule("disk-full", disk_full_alert),
    AlertRule("slower-steps", slower_steps_alert, CONFIRMING_LOOKS),
    AlertRule("input-bound", input_bound_alert, CONFIRMING_LOOKS),
    AlertRule("gpu-idle", gpu_idle_alert, CONFIRMING_LOOKS),
)


class AlertBook:
    """The alerts of a run, current and ended."""

    def __init__(self) -> None:
        self._standing: dict[str, Alert] = {}
        self._over: list[Alert] = []
        self._agreed: dict[str, int] = {}
        self._seen_ms: dict[str, float] = {}
        self._signs: set[tuple[str, str]] = set()

    def look(self, sight: RecordingLook, report: DiagnosisReport | None) -> tuple[Alert, ...]:
        """The alerts after this look: urgent ones first, then the newest; ended ones last."""
        at_ms = sight.frame.run_ms
        alert_by_id = {a.id: a for a in report.alerts} if report is not None else {}
        for rule in ALERT_RULES:
            found = rule.judge(sight)
            self._agreed[rule.id] = self._agreed.get(rule.id, 0) + 1 if found is not None else 0
            if found is not None and (rule.id in self._standing or self._agreed[rule.id] >= rule.looks):
                self._update_standing(found, at_ms)
            elif rule.lasting and rule.id in self._standing:
                self._seen_ms[rule.id] = at_ms
        for alert in alert_by_id.values():
            self._update_standing(alert, at_ms)
        for name in [n for n, seen in self._seen_ms.items() if n in self._standing and at_ms - seen > ALERT_HOLD_MS]:
            self._over.append(replace(self._standing.pop(name), over_ms=self._seen_ms[name]))
        del self._over[:-MAX_ALERTS]
        self._signs.update(report.signs if report is not None else ())
        # If a cause is reported in full, its cheap sign is not reported too.
        hidden = {rule for cause, rule in self._signs if cause in self._standing}
        shown = [a for a in self._standing.values() if a.id not in hidden]
        return (*sorted(shown, key=lambda a: (not a.urgent, -a.at_ms)), *reversed(self._over))

    def _update_standing(self, alert: Alert, at_ms: float) -> None:
        """A current alert keeps its beginning and gets the newest evidence."""
        known = self._standing.get(alert.id)
        self._standing[alert.id] = alert if known is None else replace(alert, at_ms=known.at_ms)
        self._seen_ms[alert.id] = at_ms
