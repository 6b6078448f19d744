"""Processes of their own that read a recording in progress: one diagnoses it, one makes frames of it.

The diagnosis runs the same causes as the report, so that the live view cannot contradict the report. Neither the view
nor the run waits for it.

Frames are made on behalf of a process that records itself, which saves its processor time. The arguments are FOLDER
SECONDS PARENT. Each frame is a line of JSON. The process ends with the recording or with its parent.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from slowtrain.errors import SlowtrainError
from slowtrain.model import Diagnosis, Part, Place
from slowtrain.model.live_frame import Alert, Curve, FoundCause, Frame, Gpu, Machine, Progress, RunState, StepTime

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
                env=_child_environment(),
            )
        except OSError:
            self.failed += 1
            self._next(at)

    def _collect(self, at: float) -> None:
        import msgspec  # not at the top, because this module is imported into the user's process

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
                self.told = msgspec.json.decode(answer.read(), type=DiagnosisReport)
            except msgspec.DecodeError:
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
    """The environment without variables that would record the process itself."""
    return {k: v for k, v in os.environ.items() if not k.startswith("SLOWTRAIN_")}


def diagnosis_report(diagnoses: Sequence[Diagnosis], at_ms: float) -> DiagnosisReport:
    """What the view tells of the diagnoses. ``at_ms``: length of the recording when the diagnosis began."""
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
    import msgspec

    from slowtrain.checkup import examine_recording

    with contextlib.suppress(OSError):
        os.nice(DIAGNOSIS_NICENESS)
    folder, at_ms = Path(sys.argv[1]), float(sys.argv[2])
    try:
        found = examine_recording(folder)
    except SlowtrainError:
        return
    os.write(1, msgspec.json.encode(diagnosis_report(found.diagnoses, at_ms)))


STREAM_NICENESS = 5
STREAM_COMMAND = f"from {__name__} import write_frames; write_frames()"
LAST_LOOK_S = 15.0  # for the last look, after the recording has ended
MAX_STDERR_CHARACTERS = 300  # characters of the process's last output

log = logging.getLogger("slowtrain")


class FrameStream:
    """Calls ``seen`` with each frame, in its own thread. Exceptions in ``seen`` are stored, not raised.

    A failure of the process is reported immediately, because no alerts follow.
    """

    def __init__(self, folder: Path, every_s: float, seen: Callable[[Frame], None]) -> None:
        self.seen = seen
        self.faults: list[str] = []
        self.frame: Frame | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-c", STREAM_COMMAND, str(folder), str(every_s), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=_child_environment(),
        )
        self._thread = threading.Thread(target=self._read, name="slowtrain alerts", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        for line in self._process.stdout:
            try:
                self.frame = parse_frame(json.loads(line))
                self.seen(self.frame)
            except Exception as error:  # noqa: BLE001  somebody's function, a line cut off
                if len(self.faults) < 10:
                    self.faults.append(f"{type(error).__name__}: {error}")
        if (code := self._process.wait()) > 0:
            last = (
                self._process.stderr.read()
                .decode(errors="replace")
                .strip()
                .rpartition("\n")[2][-MAX_STDERR_CHARACTERS:]
            )
            log.warning("no alerts and no figures from now on: reading the recording failed (%s)", last or code)

    def close(self) -> None:
        """Waits for the last look after the recording has ended."""
        try:
            self._process.wait(LAST_LOOK_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(LAST_LOOK_S)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def parse_frame(told: Mapping[str, Any]) -> Frame:
    """Builds a frame from its JSON, without its curves."""
    machine = dict(told["machine"])
    machine |= {"rss": Curve(), "gpus": tuple(Gpu(**gpu) for gpu in machine["gpus"])}
    step = {**told["step"], "over_run": Curve(), "lately": Curve()}
    rest = {k: v for k, v in told.items() if k != "schema"}
    return Frame(
        **{
            **rest,
            "state": RunState(told["state"]),
            "progress": Progress(**told["progress"]),
            "step": StepTime(**step),
            "machine": Machine(**machine),
            "parts": tuple(Part(**part) for part in told["parts"]),
            "doing": Place(**told["doing"]) if told["doing"] else None,
            "alerts": tuple(_parse_alert(a) for a in told["alerts"]),
            "found": tuple(FoundCause(**f) for f in told["found"]),
        }
    )


def _parse_alert(told: Mapping[str, Any]) -> Alert:
    # JSON encodes numbers that are not finite as words
    numbers = {key: float(value) for key, value in told["numbers"].items()}
    return Alert(**{**told, "numbers": numbers, "where": tuple(Place(**p) for p in told["where"])})


def write_frames() -> None:
    """Runs in the separate process."""
    from slowtrain.report import frames
    from slowtrain.watch import ENDED_STATES, Watch

    folder, every_s, parent = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    with contextlib.suppress(OSError):
        os.nice(STREAM_NICENESS)
    watch = Watch(folder)
    try:
        while True:
            seen = watch.look()
            os.write(1, frames.frame_json(seen, indent=None).encode() + b"\n")
            if seen.state in ENDED_STATES or os.getppid() != parent:
                return
            time.sleep(every_s)
    except (SlowtrainError, OSError):
        return  # the recording or the reader has gone
    finally:
        watch.close()
