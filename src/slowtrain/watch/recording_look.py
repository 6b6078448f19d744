"""What one look at a run measures: step times, their parts, the machine's load, the progress of the run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from slowtrain.columns.arrays import median_value, quantile
from slowtrain.columns.steps import Steps
from slowtrain.errors import InputError
from slowtrain.machine.host import host_facts
from slowtrain.machine.tables.fact_access import number_or_none
from slowtrain.model import Category, Part, Place, Signal
from slowtrain.recording import reader, recording_folder
from slowtrain.recording.live_follower import Follower
from slowtrain.recording.step_history import StepHistory
from slowtrain.shared.live_frame import Curve, Frame, Gpu, Machine, RunState, StepTime
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace, recording_windows
from slowtrain.trace.run_division import attribution, recording_steps
from slowtrain.watch import run_progress

CURVE_POINTS = 60  # of a curve
MIN_WINDOW_STEPS = 8  # the window grows until it contains so many, as far as spans are kept
RECENT_S = 60.0
WINDOW_MARGIN_MS = 1000.0  # of steps before and after the profiler's windows, with which these are compared
QUIET_LANES = ("stack", "gc", "pyfunc", "import")  # lanes that can be active without a step
MAX_START_ERROR_S = 5.0  # by which a process may be older than the recorded start


@dataclass(frozen=True)
class RecordingLook:
    """A frame without its alerts, and further values that the alert rules need."""

    frame: Frame
    trace: Trace
    follower: Follower
    history: StepHistory | None
    now_ns: int
    alive: bool
    quiet_ms: float | None  # since anything that belongs to a step ended; None before the first step
    stopped: int | None = None  # the process id, if the process is stopped: Ctrl-Z, SIGSTOP

    @property
    def has_enough_steps(self) -> bool:
        """Whether there are enough steps for a diagnosis."""
        return bool(self.frame.progress.steps and self.frame.progress.steps >= MIN_WINDOW_STEPS)

    def column(self, key: str, last_s: float) -> tuple[Any, Any]:
        """Times (s relative to now, negative) and values of a figure in the machine samples."""
        since = self.now_ns - last_s * 1e9
        rows = [(at, data[key]) for at, data in self.follower.samples if at >= since and key in data]
        at = np.array([(t - self.now_ns) / 1e9 for t, _ in rows])
        return at, [v for _, v in rows]


class RecordingWatcher:
    """Looks at one recording repeatedly."""

    def __init__(self, follower: Follower, window_s: float) -> None:
        self.follower = follower
        self.window_s = window_s
        self._seen: recording_windows.DeepWindows | None = None
        self._windows = 0  # events of the profiler's windows that were read
        self._trace = Trace()
        self._history: StepHistory | None = None

    def look(self) -> RecordingLook:
        """Takes a look. Raises ``InputError`` at the beginning if there is no recording."""
        follower = self.follower
        follower.look()
        alive = _is_alive(follower)
        now_ns = follower.now_ns(alive)
        if self._history is None and follower.histories.kinds:
            self._window_trace(0, now_ns)  # finds out what a step is here, because the last seconds may hold none
        since_ns = self._window_start_ns(now_ns)
        trace, history = self._window_trace(since_ns, now_ns)
        taken = _count_steps(follower, history, trace)
        state = _run_state(follower, alive, taken)
        window_ms = (now_ns - since_ns) / 1e6
        run_ms = max((now_ns - follower.start_ns) / 1e6, 0.0)
        code = follower.launch.get("exit_code")
        parts, why = _step_parts(trace)
        place, what = _current_line(follower) if alive else (None, "")
        frame = Frame(
            folder=str(follower.folder),
            command=_command_line(follower.launch),
            state=state,
            run_ms=run_ms,
            source=trace.steps.source,
            exit_code=int(code) if isinstance(code, int) else None,
            ended=follower.ended,
            progress=run_progress.run_progress(follower, history, trace, taken, now_ns, over=not alive),
            step=self._times(trace, history, now_ns),
            window_ms=window_ms,
            parts=parts,
            why=why,
            machine=self._machine_state(trace, now_ns, alive),
            doing=place,
            doing_what=what,
            started_at=number_or_none(follower.launch.get("start_time")),
        )
        return RecordingLook(
            frame,
            trace,
            follower,
            history,
            now_ns,
            alive,
            self._quiet_time_ms(now_ns, taken),
            _stopped_process(follower) if alive else None,
        )

    # -- steps

    def _window_start_ns(self, now_ns: int) -> int:
        """The start of the window: so many seconds ago, or earlier if too few steps have ended since."""
        since = now_ns - int(self.window_s * 1e9)
        if self._history is not None and self._history.at_ns:
            turns = np.cumsum(np.array(self._history.turns)[::-1])
            enough = int(np.searchsorted(turns, MIN_WINDOW_STEPS))
            if enough >= len(turns):
                return 0
            at, last = -1 - enough, self._history
            begun = last.at_ns[at] - int(last.turns[at] * last.median_ns[at])
            since = min(since, begun)
        return max(since, self.follower.start_ns)

    def _window_trace(self, since_ns: int, now_ns: int) -> tuple[Trace, StepHistory | None]:
        """The window as a trace, and the history of its kind of step. An inconsistent window gives none."""
        follower = self.follower
        part = follower.recent_recording(since_ns, now_ns)
        try:
            found = recording_steps.find_steps(part)
            self._read_profiler_windows(part, now_ns)
            trace = recording_trace.build_recording_trace(part, self._seen or (None, None, None))
        except (*reader.DAMAGE_ERRORS, InputError):  # one inconsistent piece: the next window may be complete
            return replace(self._trace, steps=Steps()), self._history
        self._trace = trace
        if len(found):
            begun = np.round(found.start_ms * 1e6).astype(np.int64) + follower.start_ns
            near = follower.spans(since_ns)
            rounded = near.copy()
            # Milliseconds in floating point lose the last nanoseconds of a long run.
            rounded[:, 1] = np.round((near[:, 1] - follower.start_ns) / 1e6 * 1e6).astype(np.int64) + follower.start_ns
            self._history = follower.histories.of(begun, rounded, follower.names) or self._history
        return trace, self._history

    def _read_profiler_windows(self, part: reader.Recording, now_ns: int) -> None:
        """Reads new windows of the profiler, which show what runs inside a call."""
        windows = [e for e in part.events if e.lane == "window" and e.name == "profile"]
        if len(windows) == self._windows:
            return
        self._windows = len(windows)
        start = self.follower.start_ns
        first, last = min(e.start_ms for e in windows), max(e.end_ms for e in windows)
        since_ns, until_ns = (start + int(ms * 1e6) for ms in (first - WINDOW_MARGIN_MS, last + WINDOW_MARGIN_MS))
        kept_since_ns = self.follower.kept_since_ns()
        if kept_since_ns <= since_ns:
            whole = self.follower.recent_recording(since_ns, now_ns)
        else:  # the first look comes long after them
            whole = self.follower.recent_recording(since_ns, until_ns, self.follower.read_again(since_ns, until_ns))
        found = recording_steps.find_steps(whole)
        if len(found) and found.windowed.any():
            self._seen = recording_windows.read_deep_windows(
                whole, found, eager=recording_trace.takes_gradients_eagerly(whole, found)
            )

    def _quiet_time_ms(self, now_ns: int, taken: int | None) -> float | None:
        if not taken:
            return None
        follower = self.follower
        silent = {i for i, n in enumerate(follower.names) if n.lane in QUIET_LANES}
        newest = follower.newest_end(silent)
        return (now_ns - newest) / 1e6 if newest else None

    def _times(self, trace: Trace, history: StepHistory | None, now_ns: int) -> StepTime:
        steady = trace.steps.ms[~trace.steps.windowed] if len(trace.steps) else np.zeros(0)
        sizes = trace.steps.size
        # Per second of the window's steps, for loops that report the samples of a step.
        known = bool(len(sizes) and (sizes > 0).all() and trace.steps.ms.sum())
        rate = float(sizes.sum() / trace.steps.ms.sum() * 1e3) if known else None
        if history is None:
            return StepTime(float(median_value(steady)) if len(steady) else None, samples_per_s=rate)
        start = self.follower.start_ns
        first = min(history.at_ns, default=start)
        since = max(now_ns - int(RECENT_S * 1e9), start)
        return StepTime(
            now_ms=float(median_value(steady)) if len(steady) else None,
            run_ms=history.quantile_ms(0.5),
            slow_ms=float(quantile(steady, 0.95)) if len(steady) else None,
            samples_per_s=rate,
            over_run=_figure_curve(history.curve_ms(first, now_ns, CURVE_POINTS), first - start, now_ns - start),
            lately=_figure_curve(history.curve_ms(since, now_ns, CURVE_POINTS), since - start, now_ns - start),
        )

    # -- the machine

    def _machine_state(self, trace: Trace, now_ns: int, alive: bool) -> Machine:
        follower = self.follower
        newest: Mapping[str, Any] = follower.samples[-1][1] if follower.samples else {}
        facts = follower.facts.get("machine") or {}
        memory = facts.get("memory") or {}
        disk = _disk_space(follower)
        return Machine(
            rss_bytes=number_or_none(newest.get("rss_bytes")),
            available_bytes=number_or_none(newest.get("available_bytes")) if alive else None,
            limit_bytes=number_or_none(memory.get("usable_bytes")),
            rss=self._rss_curve(now_ns),
            cores=_working_cores(trace),
            usable_cores=number_or_none(trace.fact("usable_cores")) if facts else None,
            gpus=_gpu_states(newest, (facts.get("gpu") or {}).get("devices") or ()),
            disk_free_bytes=disk[0],
            disk_bytes=disk[1],
            recording_bytes=_recording_bytes(follower.folder),
        )

    def _rss_curve(self, now_ns: int) -> Curve:
        start = self.follower.start_ns
        rows = [(at, d["rss_bytes"]) for at, d in self.follower.samples if "rss_bytes" in d]
        if len(rows) < 2 or now_ns <= start:
            return Curve()
        first = rows[0][0]
        at = np.minimum(
            ((np.array([t for t, _ in rows]) - first) / max(now_ns - first, 1) * CURVE_POINTS), CURVE_POINTS - 1
        )
        column = at.astype(int)
        total = np.bincount(column, [v for _, v in rows], minlength=CURVE_POINTS)
        count = np.bincount(column, minlength=CURVE_POINTS)
        values = tuple(float(t / c) if c else None for t, c in zip(total, count, strict=True))
        return _figure_curve(values, int(first) - start, now_ns - start)


def _figure_curve(values: tuple[float | None, ...], start_ns: int, end_ns: int) -> Curve:
    return Curve(values, max(start_ns / 1e6, 0.0), end_ns / 1e6)


def _step_parts(trace: Trace) -> tuple[tuple[Part, ...], str]:
    """The parts of a step, or why they are unknown."""
    if not len(trace.steps):
        return (), "no step in this time"
    if not trace.steps.steady.any():
        return (), "no steady step in this time"
    whole = attribution.mean_step(trace.categories, trace.steps)
    if Signal.INPUT not in trace.signals:
        rest = {str(Category.UNATTRIBUTED)}
        note = "the wait for input was not measured: it is part of the unattributed time"
        return whole.parts, note if any(p.name in rest for p in whole.parts) else ""
    return whole.parts, ""


def _count_steps(follower: Follower, history: StepHistory | None, trace: Trace) -> int | None:
    counted = follower.facts.get("steps_so_far")
    seen = max(history.count if history is not None else 0, len(trace.steps))
    if isinstance(counted, int):
        return max(counted, seen)
    return seen or None


def _run_state(follower: Follower, alive: bool, steps: int | None) -> RunState:
    if "end_ns" in follower.launch or "end_ns" in follower.facts:
        return RunState.ENDED
    if not alive:
        return RunState.LOST
    if follower.ended or follower.gone:
        return RunState.CUT
    return RunState.RUNNING if steps else RunState.STARTING


def _is_alive(follower: Follower) -> bool:
    """Whether the recorded process still runs: its process id exists, and that process is not younger than the run."""
    if "end_ns" in follower.launch or "end_ns" in follower.facts:
        return False
    child = follower.facts.get("child") or {}
    pid, born = child.get("pid"), child.get("born")
    if not isinstance(pid, int):
        return bool(follower.launch)  # it has only just been started
    import psutil  # a run that is over needs no processes

    try:
        process = psutil.Process(pid)
        begun, state = process.create_time(), process.status()
    except (psutil.Error, OSError, ValueError):
        return False
    if born:
        return bool(born == host_facts.process_birth(pid) and state != psutil.STATUS_ZOMBIE)
    # If the kernel does not count from boot, only the time of day is left, which may be changed.
    noted = number_or_none(follower.launch.get("start_time"))
    # A process that records itself is older than its recording.
    young = noted is None or begun <= noted + MAX_START_ERROR_S
    return bool(young and state != psutil.STATUS_ZOMBIE)


def _stopped_process(follower: Follower) -> int | None:
    """The process id of the recorded process, if it is stopped and can be continued."""
    import psutil

    pid = (follower.facts.get("child") or {}).get("pid")
    try:
        stopped = isinstance(pid, int) and psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except (psutil.Error, OSError, ValueError):
        return None
    return pid if stopped else None


def _current_line(follower: Follower) -> tuple[Place | None, str]:
    """The user's line in which the main thread was last seen, and the function below it."""
    number = follower.newest_of("stack")
    if number is None:
        return None, ""
    name = follower.names[number]
    within = str(name.detail.get("within") or "")
    return name.place, name.text if name.text != within else ""


def _command_line(launch: Mapping[str, Any]) -> str:
    argv = [str(a) for a in launch.get("argv") or ()]
    return " ".join(argv[1:]) or " ".join(argv)


def _working_cores(trace: Trace) -> float | None:
    """Processors that the process used over the window."""
    used, at = trace.samples.get("process_cpu_seconds"), trace.samples.get("time_ms")
    if used is None or at is None or len(at) < 2 or at[-1] <= at[0]:
        return None
    return float(max(used[-1] - used[0], 0.0) / (at[-1] - at[0]) * 1e3)


def _gpu_states(newest: Mapping[str, Any], devices: Any) -> tuple[Gpu, ...]:
    found = []
    for i, about in enumerate(devices):
        each = {
            key: number_or_none(values[i])
            for key, values in newest.items()
            if key.startswith("gpu_") and isinstance(values, list) and i < len(values)
        }
        found.append(
            Gpu(
                str(about.get("name") or f"GPU {i}"),
                each.get("gpu_util_share"),
                each.get("gpu_memory_used_bytes"),
                number_or_none(about.get("memory_total_bytes")),
                each.get("gpu_celsius"),
                each.get("gpu_power_watts"),
            )
        )
    return tuple(found)


def _disk_space(follower: Follower) -> tuple[float | None, float | None]:
    """Free and total bytes of the disk that the run uses; of two disks the fuller one."""
    found = []
    for folder in {str(follower.folder), str(follower.launch.get("cwd") or follower.folder)}:
        try:
            use = shutil.disk_usage(folder)
        except OSError:
            continue
        found.append((float(use.free), float(use.total)))
    return min(found, default=(None, None))


def _recording_bytes(folder: Path) -> float | None:
    try:
        return float(
            sum(e.stat().st_size for e in os.scandir(folder) if e.name.startswith(recording_folder.RECORDING_FILE))
        )
    except OSError:
        return None
