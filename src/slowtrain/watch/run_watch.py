"""A watch on a run in progress: its frames, and diagnoses of the recording so far in a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import msgspec

from slowtrain.errors import SlowtrainError
from slowtrain.model import Diagnosis
from slowtrain.recording.live_follower import Follower
from slowtrain.shared.live_frame import Alert, DiagnosisReport, FoundCause, Frame, RunState
from slowtrain.watch import child_environment
from slowtrain.watch.alert_rules import AlertBook
from slowtrain.watch.recording_look import RecordingWatcher

ENDED_STATES = (RunState.ENDED, RunState.LOST)
FIRST_DIAGNOSIS_S = 10.0  # after the first look with enough steps
DIAGNOSIS_INTERVAL_S = 60.0
MIN_INTERVAL_FACTOR = 20.0  # the interval to the next diagnosis, in durations of the last one
MAX_DIAGNOSIS_S = 120.0  # then it is ended: such a large recording needs `slowtrain report`
DIAGNOSIS_NICENESS = 10  # the run has priority
ALERTING_FAMILIES = ("drift", "memory", "numerics")  # families whose causes are alerts; other causes are only listed
DIAGNOSIS_COMMAND = f"from {__name__} import write_diagnosis; write_diagnosis()"


class Watch:
    """``window_s``: the length of "now". ``examine``: whether the recording is diagnosed at intervals.

    The first look raises ``InputError`` if there is no recording.
    """

    def __init__(self, folder: Path, *, window_s: float = 30.0, examine: bool = True) -> None:
        self.folder = folder
        self.looking = RecordingWatcher(Follower(folder), window_s)
        self.book = AlertBook()
        self.examining = BackgroundDiagnosis(folder) if examine else None

    def look(self) -> Frame:
        """Takes one look; returns its frame with the current alerts."""
        sight = self.looking.look()
        report = None
        if self.examining is not None:
            over = sight.frame.state in ENDED_STATES
            self.examining.turn(sight.frame.run_ms, wanted=not over and sight.has_enough_steps)
            report = self.examining.report
        alerts = self.book.look(sight, report)
        found, at_ms = (report.found, report.at_ms) if report is not None else ((), None)
        return replace(sight.frame, alerts=alerts, found=found, examined_ms=at_ms)

    def close(self) -> None:
        if self.examining is not None:
            self.examining.close()


class BackgroundDiagnosis:
    """Starts a diagnosis when one is due, and collects its result. A failed one is skipped, never raised."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.report: DiagnosisReport | None = None
        self.failed = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._answer: IO[bytes] | None = None
        self._begun_s = 0.0
        self._due_s = 0.0

    def turn(self, run_ms: float, *, wanted: bool) -> None:
        """Called at each look: starts or collects a diagnosis."""
        at = time.monotonic()
        if self._process is not None:
            self._collect(at)
        elif wanted:
            self._due_s = self._due_s or at + FIRST_DIAGNOSIS_S
            if at >= self._due_s:
                self._begin(at, run_ms)

    def _begin(self, at: float, run_ms: float) -> None:
        self._answer = tempfile.TemporaryFile()  # noqa: SIM115  closed when it has been read
        self._begun_s = at
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", DIAGNOSIS_COMMAND, str(self.folder), str(run_ms)],
                stdin=subprocess.DEVNULL,
                stdout=self._answer,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # this process handles Ctrl-C
                env=child_environment(),
            )
        except OSError:
            self.failed += 1
            self._schedule_next(at)

    def _collect(self, at: float) -> None:
        process, answer = self._process, self._answer
        if process is None or answer is None:
            return
        if process.poll() is None:
            if at - self._begun_s > MAX_DIAGNOSIS_S:
                process.kill()
            return
        self._process = self._answer = None
        with answer:
            answer.seek(0)
            try:
                self.report = msgspec.json.decode(answer.read(), type=DiagnosisReport)
            except msgspec.DecodeError:
                self.failed += 1
        self._schedule_next(at)

    def _schedule_next(self, at: float) -> None:
        self._process = None
        self._due_s = at + max(DIAGNOSIS_INTERVAL_S, MIN_INTERVAL_FACTOR * (at - self._begun_s))

    def close(self) -> None:
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.kill()
            self._process.wait()
            self._process = None
        if self._answer is not None:
            self._answer.close()


def diagnosis_report(diagnoses: Sequence[Diagnosis], at_ms: float) -> DiagnosisReport:
    """What the view shows of the diagnoses. ``at_ms``: length of the recording when the diagnosis began."""
    from slowtrain.causes import class_of

    alerts, found = [], []
    for one in diagnoses:
        evidence = one.evidence
        if one.cause.partition("/")[0] in ALERTING_FAMILIES:
            says = f"{one.title}: {evidence.says}" if evidence.says else one.title
            alerts.append(Alert(one.cause, says, at_ms, False, dict(evidence.numbers), evidence.where))
        else:
            found.append(FoundCause(one.cause, one.title, float(one.saving.speedup), one.saving.scope))
    signs = tuple((one.cause, rule) for one in diagnoses for rule in sorted(class_of(one.cause).watch_rules))
    return DiagnosisReport(at_ms, tuple(alerts), tuple(found), signs)


def write_diagnosis() -> None:
    """Runs in the separate process, with the arguments FOLDER MS. The report goes to standard output."""
    from slowtrain.checkup import examine_recording

    with contextlib.suppress(OSError):
        os.nice(DIAGNOSIS_NICENESS)
    folder, at_ms = Path(sys.argv[1]), float(sys.argv[2])
    try:
        found = examine_recording(folder)
    except SlowtrainError:
        return
    os.write(1, msgspec.json.encode(diagnosis_report(found.diagnoses, at_ms)))
