"""Diagnoses a recording in progress in a separate process, so that neither the view nor the run waits for it.

It runs the same causes as the report, so that the live view cannot contradict the report.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from slowtrain.errors import SlowtrainError
from slowtrain.model import Place
from slowtrain.model.answers.live_frame import Alert, FoundCause

FIRST_DIAGNOSIS_S = 10.0  # after the first look with enough steps
DIAGNOSIS_INTERVAL_S = 60.0
MIN_INTERVAL_FACTOR = 20.0  # the interval to the next diagnosis, in durations of the last one
MAX_DIAGNOSIS_S = 120.0  # then it is ended: such a large recording needs `slowtrain report`
DIAGNOSIS_NICENESS = 10  # the run has priority
ALERTING_FAMILIES = ("drift", "memory", "numerics")  # families whose causes are alerts; other causes are only listed
DIAGNOSIS_COMMAND = f"from {__name__} import write_diagnosis; write_diagnosis()"


@dataclass(frozen=True)
class DiagnosisReport:
    """What the causes found when the recording was ``at_ms`` long."""

    at_ms: float
    alerts: tuple[Alert, ...] = ()
    found: tuple[FoundCause, ...] = ()
    signs: tuple[tuple[str, str], ...] = ()  # a cause, and a rule that is a cheap sign of it


class BackgroundDiagnosis:
    """Starts a diagnosis when one is due, and collects its result. A failed one is skipped, never raised."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: DiagnosisReport | None = None
        self.failed = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._answer: IO[bytes] | None = None
        self._begun_s = 0.0
        self._begun_ms = 0.0
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
        self._begun_s, self._begun_ms = at, run_ms
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", DIAGNOSIS_COMMAND, str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=self._answer,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # this process handles Ctrl-C
                env=_child_environment(),
            )
        except OSError:
            self.failed += 1
            self._next(at)

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
                self.told = _parse_report(json.loads(answer.read()), self._begun_ms)
            except (ValueError, KeyError, TypeError):
                self.failed += 1
        self._next(at)

    def _next(self, at: float) -> None:
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


def _child_environment() -> dict[str, str]:
    """The environment without variables that would record the diagnosis itself."""
    return {k: v for k, v in os.environ.items() if not k.startswith("SLOWTRAIN_")}


def _parse_report(document: dict[str, Any], at_ms: float) -> DiagnosisReport:
    alerts, found = [], []
    for one in document["diagnoses"]:
        if str(one["cause"]).partition("/")[0] in ALERTING_FAMILIES:
            where = tuple(Place(str(p[0]), int(p[1]), str(p[2])) for p in one["where"])
            numbers = {str(k): float(v) for k, v in one["numbers"].items()}
            says = f"{one['title']}: {one['says']}" if one["says"] else str(one["title"])
            alerts.append(Alert(str(one["cause"]), says, at_ms, False, numbers, where))
        else:
            found.append(FoundCause(str(one["cause"]), str(one["title"]), float(one["speedup"]), str(one["scope"])))
    signs = tuple((str(one["cause"]), str(rule)) for one in document["diagnoses"] for rule in one["watch_rules"])
    return DiagnosisReport(at_ms, tuple(alerts), tuple(found), signs)


def diagnose_recording(folder: Path) -> dict[str, Any]:
    """The findings of every cause in the recording so far. Raises ``InputError``."""
    from slowtrain import diagnose
    from slowtrain.causes import class_of
    from slowtrain.checkup import build_checkup
    from slowtrain.trace.loading import recording_trace

    trace = recording_trace.load_recording(folder)
    found = build_checkup(trace, diagnose.diagnose_trace(trace), folder=folder)
    return {
        "diagnoses": [
            {
                "cause": d.cause,
                "title": d.title,
                "says": d.evidence.says,
                "numbers": dict(d.evidence.numbers),
                "where": [[p.file, p.line, p.code] for p in d.evidence.where],
                "speedup": d.saving.speedup,
                "scope": d.saving.scope,
                "watch_rules": sorted(class_of(d.cause).watch_rules),
            }
            for d in found.diagnoses
        ]
    }


def write_diagnosis() -> None:
    """Runs in the separate process: the folder is the only argument, the result goes to standard output."""
    with contextlib.suppress(OSError):
        os.nice(DIAGNOSIS_NICENESS)
    try:
        answer = diagnose_recording(Path(sys.argv[1]))
    except SlowtrainError:
        return
    os.write(1, json.dumps(answer).encode())
