"""Builds the :class:`~slowtrain.model.Checkup` that reports render from a trace and its findings.

Everything that a report shows is decided here: reports compute nothing.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from slowtrain import __version__, diagnose
from slowtrain.checkup import chart_data, external_facts, headline, notes, verdicts
from slowtrain.columns.arrays import median_value
from slowtrain.columns.device import Device
from slowtrain.diagnose import Findings
from slowtrain.errors import SlowtrainError
from slowtrain.lint import file_check, lint_settings, recording_match
from slowtrain.lint.documents import UnreadableFileError
from slowtrain.lint.lint_settings import LintSettings
from slowtrain.model import (
    Attribution,
    Checkup,
    DeviceUse,
    Diagnosis,
    Evidence,
    OpTime,
    Overhead,
    Part,
    Place,
    SeenInSource,
    StepSummary,
    Subject,
    WindowCost,
)
from slowtrain.model.inspections import LintFinding
from slowtrain.shared.vocabulary import UNUSED_IGNORE
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace, side_files
from slowtrain.trace.run_division import attribution
from slowtrain.trace.signals.device import tensor_cores

MAX_SOURCE_BYTES = 4 << 20
# Time of the script's thread for one recorded span (docs/overhead.md). A step of two or three spans took 10 to 16 µs
# longer with the wrappers in Python. With the fast path in C before them, a step of two to four takes 6 to 8 µs longer.
PYTHON_SPAN_S, COMPILED_SPAN_S = 6e-6, 2.5e-6


def examine_recording(folder: Path) -> Checkup:
    """The checkup of a recording. Raises ``InputError`` if it cannot be read."""
    trace = recording_trace.load_recording(folder)
    return build_checkup(trace, diagnose.diagnose_trace(trace), folder=folder)


def build_checkup(trace: Trace, findings: Findings, *, folder: Path) -> Checkup:
    """Builds the checkup. ``folder`` is the recording's path as the user gave it."""
    shown = _ShownPaths(trace)
    diagnoses = tuple(_with_shown_places(d, shown) for d in findings.diagnoses)
    step = attribution.mean_step(trace.categories, trace.steps) if len(trace.steps) else Attribution(0.0, ())
    of_run = verdicts.run_verdict(trace, findings)
    found = Checkup(
        version=__version__,
        subject=_run_subject(trace, findings, folder),
        verdict=of_run,
        step_verdict=verdicts.step_verdict(trace, findings),
        headline=verdicts.startup_headline(trace, findings) or headline.headline_for(trace, findings, of_run),
        steps=_step_summary(trace),
        attribution=step,
        run=_complete_attribution(trace.run),
        overhead=_recorder_overhead(trace),
        diagnoses=diagnoses,
        healthy=findings.healthy,
        unchecked=findings.unchecked,
        notes=tuple(notes.checkup_notes(trace, findings)),
        next_steps=tuple(notes.next_steps_for(trace, findings, folder)),
        pictures=chart_data.report_pictures(trace, shown.place),
        device=device_use(trace),
        lost=headline.NONFINITE_LABEL if verdicts.find_nonfinite_loss(findings) is not None else "",
    )
    return replace(found, seen=source_findings(trace, found, shown.place))


def _complete_attribution(run: Attribution) -> Attribution:
    """An attribution whose parts add up; for a run without timing, to zero."""
    return run if run.parts else Attribution(run.total_ms, (Part("end", run.total_ms, 1.0),) if run.total_ms else ())


class _ShownPaths:
    """Converts places to paths as the user gave them (relative inside the run's folder), with their line's text.

    Places in a profile stay as they are: their files are on the computer that made it, and a file of that name here may
    be another one.
    """

    def __init__(self, trace: Trace) -> None:
        self.root, self.here = trace.root, not trace.fact("profile")
        self.cells = trace.fact("cells") or {}
        self._lines: dict[str, list[str]] = {}

    def place(self, place: Place) -> Place:
        """``place`` with its displayed path and its line's text."""
        inside = bool(self.root) and place.file.startswith(self.root.rstrip(os.sep) + os.sep)
        file = os.path.relpath(place.file, self.root) if inside else place.file
        return Place(file, place.line, place.code or self._line_text(place))

    def _line_text(self, place: Place) -> str:
        lines = self._lines.get(place.file)
        if lines is None:
            lines = self._lines[place.file] = self._lines_of(place.file) if self.here else []
        return lines[place.line - 1].strip()[:200] if 0 < place.line <= len(lines) else ""

    def _lines_of(self, file: str) -> list[str]:
        """The lines of a file or of a notebook cell."""
        cell = self.cells.get(file)
        return cell.splitlines() if isinstance(cell, str) else _source_lines(Path(file))


def _source_lines(path: Path) -> list[str]:
    """The lines of a file, or of a notebook cell in its own process; empty if it is gone, too large or not a file."""
    try:
        if path.suffix == ".py" and not path.exists():
            # linecache alone has the text of later cells
            return [line.rstrip("\n") for line in linecache.getlines(str(path))]
        if path.suffix != ".py" or not path.is_file() or path.stat().st_size > MAX_SOURCE_BYTES:
            return []
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _with_shown_places(diagnosis: Diagnosis, shown: _ShownPaths) -> Diagnosis:
    evidence = diagnosis.evidence
    numbers = {k: float(v) for k, v in evidence.numbers.items() if np.isfinite(v)}
    where = tuple(shown.place(p) for p in evidence.where)
    return replace(diagnosis, evidence=Evidence(evidence.says, numbers, where))


def _run_subject(trace: Trace, findings: Findings, folder: Path) -> Subject:
    if trace.facts.get("profile"):
        return _profile_subject(trace, findings, folder)
    launch: Mapping[str, Any] = trace.fact("launch", default={}) or {}
    argv = [str(a) for a in launch.get("argv") or ()][1:]  # without the interpreter
    devices = trace.fact("devices", default=()) or ()
    on = side_files.computing_device(trace.facts)
    count = [str(d.get("kind")) for d in devices].count(str(on["kind"]))
    code = launch.get("exit_code")
    return Subject(
        "recording",
        str(folder),
        tuple(argv),
        int(code) if isinstance(code, int) else None,
        {
            "tensorflow": trace.facts.get("version.tensorflow"),
            "keras": trace.facts.get("version.keras"),
            "backend": trace.fact("keras", "backend"),
        },
        {**on, "count": count or None},
    )


def _profile_subject(trace: Trace, findings: Findings, path: Path) -> Subject:
    """The subject of a profile, from what its own planes say."""
    kinds = [str(d.get("kind")) for d in trace.fact("devices", default=())]
    kind = next((k for k in kinds if k != "CPU"), "CPU")
    name = trace.facts.get("device_name")
    return Subject(
        "profile",
        str(path),
        device={"kind": kind, "name": str(name) if name else None, "count": kinds.count(kind)},
        computer=external_facts.describe_machine_verdict(trace, findings),
    )


def _step_summary(trace: Trace) -> StepSummary:
    steady = trace.steps.steady_ms
    warmup = trace.steps.warm
    if not len(steady) or not trace.fact("told_steps", default=True):
        return StepSummary(0, warmup, None, None, None)
    sizes = trace.steps.size[trace.steps.steady]
    rate = float(sizes.sum() / steady.sum() * 1e3) if (sizes > 0).all() and steady.sum() else None
    return StepSummary(trace.steps.count, warmup, trace.steps.quantile_ms(0.5), trace.steps.quantile_ms(0.95), rate)


def _recorder_overhead(trace: Trace) -> Overhead:
    """The recorder's thread and its spans, at the cost of one span, and each window compared with its neighbours."""
    recorder = trace.fact("recorder", default={}) or {}
    wall, cpu = recorder.get("wall_s"), recorder.get("thread_cpu_s")
    spans = sum(len(s) for s in trace.lanes.values())
    each_s = COMPILED_SPAN_S if trace.fact("child", "compiled") else PYTHON_SPAN_S
    share = (float(cpu) + spans * each_s) / float(wall) if wall and cpu is not None else None
    windows = []
    for event in trace.events_of("window"):
        if event.name == "objects":  # counted between two steps, so their time belongs to the phase
            continue
        inside = (trace.steps.end_ms > event.start_ms) & (trace.steps.start_ms < event.end_ms)
        near = _neighbour_median_ms(trace, inside)
        count = int(inside.sum())
        ratio = float(median_value(trace.steps.ms[inside]) / near) if count and near else None
        windows.append(WindowCost(count, ratio))
    return Overhead(share, tuple(windows))


def _neighbour_median_ms(trace: Trace, inside: Any) -> float | None:
    """Median of the steady steps nearest to a window: as many as the window has, at least ten."""
    if not inside.any() or not trace.steps.steady.any():
        return None
    middle = float(np.flatnonzero(inside).mean())
    steady = np.flatnonzero(trace.steps.steady)
    nearest = steady[np.argsort(np.abs(steady - middle))[: max(int(inside.sum()), 10)]]
    return float(median_value(trace.steps.ms[nearest]))


MAX_LISTED_OPS = 15


def device_use(trace: Trace) -> DeviceUse | None:
    """The section; None if no device timeline was read."""
    device = trace.device
    if device is None:
        return None
    idle = device.idle_ms
    parts = sorted(device.idle.items(), key=lambda i: -i[1])
    return DeviceUse(
        device.name.removeprefix("/device:"),
        device.kind,
        min(device.busy_ms / device.step_ms, 1.0) if device.step_ms else 0.0,
        device.kernels,
        device.median_kernel_us,
        device.launch_delay_us,
        device.queued_share,
        Attribution(idle, tuple(Part(reason, ms, ms / idle if idle else 0.0) for reason, ms in parts)),
        device.gaps,
        _op_times(device),
        tuple(
            OpTime(k, c.ms, c.count, c.exposed_ms / (c.ms or 1.0), c.bytes or None) for k, c in device.copies.items()
        ),
        tuple(tensor_cores.device_rates(trace)),
    )


def _op_times(device: Device) -> tuple[OpTime, ...]:
    """By the framework's ops if these cover most of the time, else by kernels."""
    named = sum(ms for ms, _ in device.by_op.values())
    table = device.by_op if device.kernel_ms and named >= 0.5 * device.kernel_ms else device.by_kernel
    # The table of ops contains copies as well.
    total = max(sum(ms for ms, _ in table.values()), device.kernel_ms)
    rows = list(table.items())[:MAX_LISTED_OPS]
    return tuple(OpTime(name.split("#")[0], ms, count, ms / total if total else 0.0) for name, (ms, count) in rows)


def source_findings(trace: Trace, checkup: Checkup, place: Callable[[Place], Place]) -> tuple[SeenInSource, ...]:
    """The findings in the script and in its own modules, the most expensive first; empty for a profile."""
    files = recording_match.recorded_texts(trace)
    if not files:
        return ()
    chosen = _lint_settings(list(files))
    findings: list[LintFinding] = []
    for file, text in files.items():
        try:
            findings += file_check.check_content(file, text.encode("utf-8", "surrogateescape"), chosen).findings
        except (UnreadableFileError, UnicodeError):
            continue  # it ran, so it is Python; a truncated or odd file is not worth a line of the report
    with_costs = recording_match.add_runtime_costs([f for f in findings if f.cause != UNUSED_IGNORE], checkup, trace)
    return tuple(_as_seen_in_source(f, place) for f in with_costs)


def _lint_settings(files: list[str]) -> LintSettings:
    """The project's settings; ``slowtrain lint`` reports mistakes in them."""
    try:
        return lint_settings.load_settings(files)
    except SlowtrainError:
        return LintSettings(frozenset(lint_settings.known_ids()))


def _as_seen_in_source(finding: LintFinding, place: Callable[[Place], Place]) -> SeenInSource:
    code = finding.code[0].strip() if finding.code else ""
    where = place(Place(finding.file, finding.line, code))
    runtime = finding.runtime
    if runtime is None:
        return SeenInSource(finding.cause, where, finding.says)
    return SeenInSource(finding.cause, where, finding.says, runtime.state, runtime.ms_per_step, runtime.run_ms)
