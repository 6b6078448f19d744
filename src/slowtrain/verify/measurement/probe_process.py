"""One probe: a script, or a candidate for it, in its own recorded process that ends when enough steps are known."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any

import numpy as np
import psutil

from slowtrain.capture.process import launch
from slowtrain.capture.sandbox import probe, temporary_files
from slowtrain.errors import InputError
from slowtrain.model import Place
from slowtrain.recording.recording_folder import SCRATCH_FOLDER
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.run_division.recording_steps import batches_per_execution

OUTPUT_TAIL_BYTES = 4000  # of the script's last output, kept if it failed
MAX_OUTPUT_BYTES = 64 << 20  # that are kept on the disk
PROBE_ID_VARIABLE = "SLOWTRAIN_PROBE_ID"  # set in the environment of every process of a probe, and of no other
POLL_S = 0.1
_ERROR_LINE = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Exit): ")
_KERAS_CALL = re.compile(r"Exception encountered when calling .*\.\Z")
_ANSI_STYLE = re.compile(r"\x1b\[\d*m")
MIN_LONG_STEP_FACTOR = 3.0  # times the median: a longer step contains something that the others do not
MIN_UNEVEN_SHARE = 0.05  # of the time spent in such steps beyond the median; less may be caused by the machine
MIN_LONG_STEPS = 6
TRAINING, CALLS = "training", "calls"
MAX_TRAINING_S = 30.0  # of training, which is enough for a pair of probes


@dataclass(frozen=True)
class Script:
    """What is run: ``target`` is a file, or a module's name with ``module``. ``stdin`` is given to every process."""

    target: str
    arguments: tuple[str, ...] = ()
    module: bool = False
    stdin: bytes | None = None


@dataclass(frozen=True)
class Rule:
    """When a probe ends: after ``seconds`` from the first step and at least ``steps`` steps; with 0 seconds, by itself.

    ``later``: steps of the first epoch do not count, because a cache is only filled in it.
    """

    seconds: float = 0.0
    steps: int = 30
    windows: bool = False
    later: bool = False


@dataclass(frozen=True)
class Treatment:
    """What the recorder changes or records in addition, and variables in the environment of this probe only.

    ``cures`` are names of ``capture/treatments``. ``rebatch``: batches of the first number of samples get the second
    number. ``requests``: records the allocator during so many training steps, after which the probe ends. ``model``:
    changes of ``capture/sandbox/model_changes``; if it is not None, the model's layers are recorded. ``inference``:
    measures the model in forms for inference, after which the probe ends. ``results``: of so many first steps the loss
    is kept. ``other_seeds``: is added to the seeds that the script itself sets. ``packing``: what is packed or sampled
    where the candidate's text says so, as values of JSON.
    """

    cures: tuple[str, ...] = ()
    rebatch: tuple[int, int] | None = None
    requests: int | None = None
    model: tuple[str, ...] | None = None
    inference: bool | None = None
    results: int | None = None
    other_seeds: int | None = None
    packing: Mapping[str, Any] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """Texts that replace files on the disk, by absolute path, and a treatment without an edit.

    The baseline has neither.
    """

    name: str
    texts: Mapping[str, str] = field(default_factory=dict)
    treatment: Treatment = field(default_factory=Treatment)


@dataclass(frozen=True)
class Origin:
    """The origin of a step in a hand-written loop: a function's ``name`` and the place in it that takes a gradient.

    ``at`` numbers that place; it is 0 if the function is called as a whole. ``counts`` is False for a gradient that is
    not a step of its own.
    """

    name: str
    at: int = 0
    counts: bool = True


@dataclass(frozen=True)
class Probe:
    """The result of one process: the time of a steady step and, if known, of one of its samples.

    ``wall_s`` covers the whole process, ``first_step_s`` the time until its first step ended, which contains most of
    compiling. ``losses`` are the scalars of the first steps by name, ``origins`` their places if known. ``weights``
    replace them if a script reports none: steps taken, a digest, and the distance from the weights after the first
    step. ``losses_over``: the number of steps over which each loss is a mean, 0 if nobody knows. ``failed`` is the last
    line of the error. ``steps_wanted``: see :func:`required_steps`. ``fits`` are the calls of Keras' ``fit`` that were
    reached, with absolute paths. ``work`` is what its steps do, if known: ``TRAINING``, or ``CALLS`` of Keras'
    ``predict`` or ``evaluate``.
    """

    folder: Path
    step_ms: float | None
    sample_ms: float | None
    wall_s: float
    stopped: bool
    first_step_s: float | None
    losses: tuple[Mapping[str, float], ...] = ()
    weights: tuple[tuple[int, str, float], ...] = ()
    redirected: tuple[str, ...] = ()
    failed: str | None = None
    steps_wanted: int = 0
    fits: tuple[Place, ...] = ()
    work: str = ""
    origins: tuple[Origin, ...] = ()
    losses_over: tuple[int, ...] = ()


def run_probe(
    script: Script,
    candidate: Candidate,
    rule: Rule,
    folder: Path,
    *,
    limit_s: float,
    seed: int = 0,
    tick: Callable[[float], None] | None = None,
) -> Probe:
    """Runs one probe into ``folder`` for at most ``limit_s``. Files that it writes go to a scratch folder."""
    folder.mkdir(parents=True)
    scratch = folder / SCRATCH_FOLDER
    scratch.mkdir()
    treatment, before = candidate.treatment, temporary_files.list_temporary_files()
    plan = {
        "overlay": dict(candidate.texts), "seconds": rule.seconds, "steps": rule.steps, "seed": seed,
        "module": script.module, "temporary": before, "cures": treatment.cures,
    }  # fmt: skip
    optional = {f.name: getattr(treatment, f.name) for f in fields(treatment) if f.name not in plan}
    plan |= {name: value for name, value in optional.items() if value is not None and name != "environment"}
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    argv = [sys.executable, "-c", probe.COMMAND, script.target, *script.arguments]
    environment = {**launch.recording_environment(folder, windows=rule.windows), **treatment.environment}
    environment[probe.PLAN_VARIABLE] = str((folder / "plan.json").resolve())
    environment.setdefault("PYTHONHASHSEED", str(seed))
    environment[PROBE_ID_VARIABLE] = mark = uuid.uuid4().hex
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # else the interpreter would write bytecode beside the user's files
    start_ns = time.perf_counter_ns()
    about = launch.note_start(folder, launch.command_line(script.target, script.arguments, script.module), start_ns)
    with tempfile.TemporaryFile() as printed, _input_file(script.stdin) as input_file:
        with _signals_end_probe():
            child = subprocess.Popen(
                argv,
                env=environment,
                stdin=input_file,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                overdue = _wait_for_end(child, limit_s, tick, printed)
            finally:
                _end_process_tree(child, mark)
        end_ns = time.perf_counter_ns()
        printed.seek(max(printed.seek(0, os.SEEK_END) - OUTPUT_TAIL_BYTES, 0))
        tail = printed.read().decode("utf-8", "replace")
    code = child.returncode
    launch.note_end(folder, about, code, end_ns)
    failed = None if overdue or code == 0 else _failure_reason(tail, code)
    shutil.rmtree(scratch, ignore_errors=True)  # mostly weights
    temporary_files.remove_noted_files(folder, before)
    return read_probe(folder, (end_ns - start_ns) / 1e9, overdue, failed, rule.later)


def read_probe(folder: Path, wall_s: float, overdue: bool, failed: str | None, later: bool = False) -> Probe:
    """The result of a probe, from its recording."""
    try:
        trace = recording_trace.load_recording(folder)
    except InputError as error:
        why = "its time ended before it started" if overdue else str(error)
        return Probe(folder, None, None, wall_s, overdue, None, failed=failed or why)
    step_ms, sample_ms = steady_pace(trace, later)
    losses = trace.fact("losses")
    return Probe(
        folder,
        step_ms,
        sample_ms,
        wall_s,
        overdue or trace.fact("stopped_ns") is not None,
        float(trace.steps.end_ms[0]) / 1e3 if len(trace.steps) else None,
        _losses_by_step(losses, trace) if isinstance(losses, list) else (),
        tuple((int(n), str(digest), float(moved)) for n, digest, moved in trace.fact("weights") or ()),
        tuple(trace.fact("redirected") or ()),
        failed,
        required_steps(trace),
        tuple(dict.fromkeys(_fit_places(trace))),
        _step_work(trace),
        tuple(Origin(str(name), int(at), bool(counts)) for name, at, counts in trace.fact("losses_from") or ()),
        tuple(int(n) for n in trace.fact("losses_over") or ()),
    )


def _step_work(trace: Trace) -> str:
    called = CALLS if trace.steps.source.endswith("()") else ""
    return TRAINING if trace.steps.training and len(trace.steps) else called


def _fit_places(trace: Trace) -> Iterator[Place]:
    for loop in trace.events_of("loop"):
        if loop.name == "fit" and loop.place is not None:
            yield Place(os.path.realpath(os.path.join(trace.root, loop.place.file)), loop.place.line)


def _losses_by_step(losses: list[Mapping[str, float]], trace: Trace) -> tuple[Mapping[str, float], ...]:
    """The losses by step; an execution of several batches reports its last one.

    Of these only whole executions of the first epoch, because the last of an epoch may hold fewer batches.
    """
    fits = trace.events_of("loop")
    several = max((batches_per_execution(fit) for fit in fits if fit.name == "fit"), default=1)
    if several == 1 or not len(trace.steps):
        return tuple(losses)
    first = trace.steps.block == trace.steps.block[0]
    whole = int(first.sum()) - (0 if first.all() else 1)
    nothing: Mapping[str, float] = {}
    return tuple(row for one in losses[:whole] for row in (*[nothing] * (several - 1), one))


def steady_pace(trace: Trace, later: bool = False) -> tuple[float | None, float | None]:
    """Mean ms of a steady step and of one of its samples; None if unknown.

    ``later``: without the first epoch's steps, or without the first half if epochs cannot be told apart.
    """
    steps = trace.steps
    counted = steps.steady
    if later and counted.any():
        after = steps.block > steps.block[0]
        counted = counted & (after if after.any() else np.arange(len(steps)) >= len(steps) // 2)
    if not counted.any():
        return None, None
    samples = float(steps.size[counted].sum()) if len(steps.size) == len(steps) else 0.0
    spent = float(steps.ms[counted].sum())
    return spent / int(counted.sum()), spent / samples if samples > 0 else None


def required_steps(trace: Trace) -> int:
    """The number of steps that contains ``MIN_LONG_STEPS`` long ones; 0 if the steps are even.

    A probe of thirty steps hardly contains a function that is traced again in every twentieth step.
    """
    steps = trace.steps
    if not steps.steady.any():
        return 0
    counted = ~steps.windowed & (np.arange(len(steps)) >= int(np.argmax(steps.steady)))
    ms = steps.ms[counted]
    usual = float(np.median(ms)) if len(ms) else 0.0
    long = ms > MIN_LONG_STEP_FACTOR * usual
    beyond = float((ms[long] - usual).sum())
    if beyond <= MIN_UNEVEN_SHARE * float(ms.sum()):
        return 0
    return min(math.ceil(MIN_LONG_STEPS * len(ms) / int(long.sum())), int(1e3 * MAX_TRAINING_S / float(ms.mean())))


def _wait_for_end(
    child: subprocess.Popen[bytes], limit_s: float, tick: Callable[[float], None] | None, printed: IO[bytes]
) -> bool:
    """Waits for the process, at most ``limit_s``; returns whether that was too short."""
    begun = time.monotonic()
    while True:
        try:
            child.wait(timeout=POLL_S)
            return False
        except subprocess.TimeoutExpired:
            spent = time.monotonic() - begun
            if tick is not None:
                tick(spent)
            if spent > limit_s:
                return True
            if os.fstat(printed.fileno()).st_blocks * 512 > MAX_OUTPUT_BYTES:
                os.ftruncate(printed.fileno(), 0)  # later output is written behind a hole, which takes no room


def _end_process_tree(child: subprocess.Popen[bytes], mark: str) -> None:
    """Ends the process and all processes that it started, including those that left its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if one.environ().get(PROBE_ID_VARIABLE) == mark:
                one.kill()


@contextlib.contextmanager
def _signals_end_probe() -> Iterator[None]:
    """Ends the probe first if this process gets a SIGTERM or SIGHUP, which would leave the probe running."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: object) -> None:
        raise _ReceivedSignal(number)

    previous = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except _ReceivedSignal as received:
        signal.signal(received.number, previous[signal.Signals(received.number)])
        os.kill(os.getpid(), received.number)  # the probe has ended by now
        raise
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class _ReceivedSignal(BaseException):
    """The signal that ended us; not an exception that other code could catch."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def _input_file(content: bytes | None) -> Iterator[Any]:
    # Also for empty input: in some containers /dev/null is a plain file with text.
    with tempfile.TemporaryFile() as file:
        file.write(content or b"")
        file.seek(0)
        yield file


def _failure_reason(tail: str, code: int) -> str:
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    last_line = lines[-1][:300] if lines else "nothing was printed"
    errors = [at for at, line in enumerate(lines) if _ERROR_LINE.match(line)]
    if errors:
        last_line = lines[errors[-1]][:300]
        if _KERAS_CALL.search(last_line):  # the reason is in the next line, and the call's arguments behind it
            last_line = " ".join(_ANSI_STYLE.sub("", line) for line in lines[errors[-1] : errors[-1] + 2])[:300]
    if last_line.startswith("EOFError"):
        last_line += "; give its input with --stdin FILE"
    return f"exit code {code}: {last_line}" if code > 0 else f"ended by signal {-code}: {last_line}"
