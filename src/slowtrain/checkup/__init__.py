"""Builds the :class:`~slowtrain.model.Checkup` that reports render from a trace and its findings.

Everything that a report shows is decided here: reports compute nothing.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slowtrain import __version__
from slowtrain.checkup import begun, device, given, pictures, seen, verdict, words
from slowtrain.diagnose import Findings
from slowtrain.model import (
    Attribution,
    Checkup,
    Diagnosis,
    Evidence,
    Overhead,
    Part,
    Place,
    StepSummary,
    Subject,
    WindowCost,
)
from slowtrain.trace import Trace, attribution, beside
from slowtrain.trace.ordered import halfway

MAX_SOURCE_BYTES = 4 << 20
# Time of the script's thread for one recorded span (docs/overhead.md). A step of two or three spans took 10 to 16 µs
# longer with the wrappers in Python. With the fast path in C before them, a step of two to four takes 6 to 8 µs longer.
SPAN_S, COMPILED_SPAN_S = 6e-6, 2.5e-6


def checkup(trace: Trace, findings: Findings, *, folder: Path) -> Checkup:
    """Builds the checkup. ``folder`` is the recording's path as the user gave it."""
    shown = _Paths(trace)
    diagnoses = tuple(_placed(d, shown) for d in findings.diagnoses)
    step = attribution.mean(trace.categories, trace.steps) if len(trace.steps) else Attribution(0.0, ())
    of_run = verdict.run_verdict(trace, findings)
    found = Checkup(
        version=__version__,
        subject=_subject(trace, findings, folder),
        verdict=of_run,
        step_verdict=verdict.step_verdict(trace, findings),
        headline=begun.headline(trace, findings) or words.headline(trace, findings, of_run),
        steps=_steps(trace),
        attribution=step,
        run=_whole(trace.run),
        overhead=_overhead(trace),
        diagnoses=diagnoses,
        healthy=findings.healthy,
        unchecked=findings.unchecked,
        notes=tuple(words.notes(trace, findings)),
        next_steps=tuple(words.next_steps(trace, findings, folder)),
        pictures=pictures.pictures(trace, shown.place),
        device=device.use(trace),
        lost=words.LOST if verdict.nonfinite(findings) is not None else "",
    )
    return replace(found, seen=seen.seen(trace, found, shown.place))


def _whole(run: Attribution) -> Attribution:
    """An attribution whose parts add up; for a run without timing, to zero."""
    return run if run.parts else Attribution(run.total_ms, (Part("end", run.total_ms, 1.0),) if run.total_ms else ())


class _Paths:
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
        return Place(file, place.line, place.code or self._text(place))

    def _text(self, place: Place) -> str:
        lines = self._lines.get(place.file)
        if lines is None:
            lines = self._lines[place.file] = self._read(place.file) if self.here else []
        return lines[place.line - 1].strip()[:200] if 0 < place.line <= len(lines) else ""

    def _read(self, file: str) -> list[str]:
        """The lines of a file or of a notebook cell."""
        kept = self.cells.get(file)
        return kept.splitlines() if isinstance(kept, str) else _source(Path(file))


def _source(path: Path) -> list[str]:
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


def _placed(diagnosis: Diagnosis, shown: _Paths) -> Diagnosis:
    evidence = diagnosis.evidence
    numbers = {k: float(v) for k, v in evidence.numbers.items() if np.isfinite(v)}
    where = tuple(shown.place(p) for p in evidence.where)
    return replace(diagnosis, evidence=Evidence(evidence.says, numbers, where))


def _subject(trace: Trace, findings: Findings, folder: Path) -> Subject:
    if trace.facts.get("profile"):
        return _profile(trace, findings, folder)
    launch: Mapping[str, Any] = trace.fact("launch", default={}) or {}
    argv = [str(a) for a in launch.get("argv") or ()][1:]  # without the interpreter
    devices = trace.fact("devices", default=()) or ()
    on = beside.computed_on(trace.facts)
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


def _profile(trace: Trace, findings: Findings, path: Path) -> Subject:
    """The subject of a profile, from what its own planes say."""
    kinds = [str(d.get("kind")) for d in trace.fact("devices", default=())]
    kind = next((k for k in kinds if k != "CPU"), "CPU")
    name = trace.facts.get("device_name")
    return Subject(
        "profile",
        str(path),
        device={"kind": kind, "name": str(name) if name else None, "count": kinds.count(kind)},
        computer=given.told(trace, findings),
    )


def _steps(trace: Trace) -> StepSummary:
    steady = trace.steps.steady_ms
    warmup = trace.steps.warm
    if not len(steady) or not trace.fact("told_steps", default=True):
        return StepSummary(0, warmup, None, None, None)
    sizes = trace.steps.size[trace.steps.steady]
    rate = float(sizes.sum() / steady.sum() * 1e3) if (sizes > 0).all() and steady.sum() else None
    return StepSummary(trace.steps.count, warmup, trace.steps.quantile_ms(0.5), trace.steps.quantile_ms(0.95), rate)


def _overhead(trace: Trace) -> Overhead:
    """The recorder's thread and its spans, at the cost of one span, and each window compared with its neighbours."""
    recorder = trace.fact("recorder", default={}) or {}
    wall, cpu = recorder.get("wall_s"), recorder.get("thread_cpu_s")
    spans = sum(len(s) for s in trace.lanes.values())
    each_s = COMPILED_SPAN_S if trace.fact("child", "compiled") else SPAN_S
    share = (float(cpu) + spans * each_s) / float(wall) if wall and cpu is not None else None
    windows = []
    for event in trace.events_of("window"):
        if event.name == "objects":  # counted between two steps, so their time belongs to the phase
            continue
        inside = (trace.steps.end_ms > event.start_ms) & (trace.steps.start_ms < event.end_ms)
        near = _neighbours(trace, inside)
        count = int(inside.sum())
        ratio = float(halfway(trace.steps.ms[inside]) / near) if count and near else None
        windows.append(WindowCost(count, ratio))
    return Overhead(share, tuple(windows))


def _neighbours(trace: Trace, inside: Any) -> float | None:
    """Median of the steady steps nearest to a window: as many as the window has, at least ten."""
    if not inside.any() or not trace.steps.steady.any():
        return None
    middle = float(np.flatnonzero(inside).mean())
    steady = np.flatnonzero(trace.steps.steady)
    nearest = steady[np.argsort(np.abs(steady - middle))[: max(int(inside.sum()), 10)]]
    return float(halfway(trace.steps.ms[nearest]))
