"""The labelled scripts for TensorFlow on a GPU: recorded and judged, then timed without Slowtrain."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import case_files
import gpu_truth

HERE = Path(__file__).parent
SET = "gpu-tensorflow"
FORKS = HERE / "gpu_bench" / "forks.py"
FITS = HERE / "gpu_bench" / "fits.py"
EXHAUSTED = 7  # the exit code of fits.py
RECORDED_MOST_S = 120.0  # a recorded script takes 16 to 45 s on an H200
UNIFIED = "/dev/nvidia-uvm"  # opened by whatever makes a CUDA context, and not by who only asks the driver for facts
ALARM = 1.05  # a predicted gain above this on a healthy script is a false alarm, as in clinic/run.py
PARTS = ("device", "h2d", "d2h")


@dataclass(frozen=True)
class Labelled:
    """A script with its label (see README.md). ``fixed`` is None for a healthy one."""

    name: str
    slow: Path
    fixed: Path | None
    causes: list[str]
    lines: list[int]
    step_verdict: list[str]
    scope: str = "step"
    allowed: list[str] = field(default_factory=list)


def labelled() -> list[Labelled]:
    """The scripts for TensorFlow on a GPU; the cured forms are written into build/."""
    return [
        Labelled(
            case.name, case.script, case.write_cured_script(case_files.BUILD / SET), case.causes, case.lines,
            case.label["step_verdict"], case.label.get("scope", "step"), case.label.get("allowed", []),
        )
        for case in case_files.list_cases(set_name=SET, platform=case_files.GPU)
    ]  # fmt: skip


class Machine:
    """Where the results go, the environment of all that is started, and a process that forks for unrecorded runs."""

    def __init__(self, folder: Path, small: bool, look: bool = True) -> None:
        """Asks TensorFlow for the card only where there is something to measure: that takes seconds."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.small = folder, small
        self.results = folder / "results.jsonl"
        self.environment = {
            **os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "TF_FORCE_GPU_ALLOW_GROWTH": "true",
            "KERAS_BACKEND": "tensorflow",
            **({"SLOWTRAIN_SMALL": "1", "CUDA_VISIBLE_DEVICES": "-1"} if small else {}),
        }  # fmt: skip
        self.card = None if small or not look else _card(self.environment)
        self._forks: subprocess.Popen[str] | None = None
        self.waiting: list[Labelled] = []  # what is yet to be recorded, in its order
        self._ahead: dict[str, Recording] = {}

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        for recording in self._ahead.values():
            recording.stop()
        if self._forks is not None:
            self._forks.kill()
            self._forks.wait()

    def record(self, script: Labelled) -> Recording:
        """The recording that was started ahead, or one that starts now."""
        self.waiting = [other for other in self.waiting if other.name != script.name]
        return self._ahead.pop(script.name, None) or Recording(self, script)

    def start_ahead(self) -> None:
        """Starts the next recording while the card has other work: it imports TensorFlow, and stops before the card.

        Not one whose start is what its label is about, nor where there is no card to stop before.
        """
        if self.card and self.waiting and self.waiting[0].scope == "step" and not self._ahead:
            self._ahead[self.waiting[0].name] = Recording(self, self.waiting[0])

    def kill_after(self, process: subprocess.Popen[str], seconds: float) -> threading.Timer:
        timer = threading.Timer(seconds, process.kill)
        timer.daemon = True
        timer.start()
        return timer

    def run_alone(self, script: Path, *arguments: str, **environment: str) -> dict[str, Any]:
        """Runs a script without Slowtrain, in a fork of a process that has imported TensorFlow."""
        if self._forks is None or self._forks.poll() is not None:
            self._forks = subprocess.Popen(
                [sys.executable, str(FORKS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True, env=self.environment,
            )  # fmt: skip
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        log = self.folder / "logs" / f"{script.name}.log"
        log.parent.mkdir(exist_ok=True)
        request = {"script": str(script), "arguments": arguments, "log": str(log), "environment": environment}
        self._forks.stdin.write(json.dumps(request) + "\n")
        self._forks.stdin.flush()
        answer = self._forks.stdout.readline()
        if not answer:
            raise RuntimeError(f"{script.name}: the process that forks for it ended")
        found: dict[str, Any] = json.loads(answer)
        return {**found, "log": log}

    def fits(self, model: str, batch: int, limit_mb: int) -> bool:
        """Whether three steps of the model run with so much of the card; in small, of the processor's allocator."""
        limit = {"SLOWTRAIN_CARD_MB": str(limit_mb)}
        if self.small:
            limit = {
                "TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(limit_mb),
                "TF_ENABLE_ONEDNN_OPTS": "0",
            }  # fmt: skip
        done = self.run_alone(FITS, model, str(batch), **limit)
        text = done["log"].read_text(errors="replace")
        if done["exit"] == 0:
            return True
        if self.small and done["exit"] == -signal.SIGSEGV:  # some kernels for a CPU go on with what they did not get
            return False
        if done["exit"] == EXHAUSTED or "OOM when allocating" in text or "ran out of memory" in text:
            return False
        raise RuntimeError(f"{model} at {batch}: exit {done['exit']}: {text.strip()[-160:]}")


def _card(environment: dict[str, str]) -> str | None:
    """The name of the card that TensorFlow sees, and TensorFlow's version; None where it sees none."""
    ask = (
        "import tensorflow as tf; cards = tf.config.list_physical_devices('GPU'); name = cards and "
        "tf.config.experimental.get_device_details(cards[0]).get('device_name', 'unnamed'); "
        "print('CARD', name, 'TensorFlow', tf.__version__) if cards else None"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    found = [line.removeprefix("CARD ") for line in done.stdout.splitlines() if line.startswith("CARD ")]
    return found[0] if found else None


class Recording:
    """``slowtrain run`` on a script, which may be started ahead: it stops before it touches the card."""

    def __init__(self, machine: Machine, script: Labelled) -> None:
        self.script = script
        self.folder = machine.folder / "runs" / script.name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.answer = self.folder / "checkup.json"
        self._may_compute = threading.Event()
        command = [sys.executable, "-m", "slowtrain", "run", "--out", str(self.folder), "--json", str(self.answer)]
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [*command, str(script.slow)], stdout=log, stderr=log, env=machine.environment, start_new_session=True
            )
        self._watcher = threading.Thread(target=self._stop_at_the_card, daemon=True)
        self._watcher.start()

    def _stop_at_the_card(self) -> None:
        while not self._may_compute.is_set() and self.process.poll() is None:
            if any(UNIFIED in held for held in _open_files(self.process.pid)):
                os.killpg(self.process.pid, signal.SIGSTOP)
                self._may_compute.wait()
                os.killpg(self.process.pid, signal.SIGCONT)
                return
            time.sleep(0.01)

    def finish(self, most_s: float) -> None:
        """Lets it compute, and waits for its answer."""
        self._may_compute.set()
        self._watcher.join()
        try:
            self.process.wait(most_s)
        except subprocess.TimeoutExpired:
            self.stop()
            raise

    def stop(self) -> None:
        self._may_compute.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _open_files(group: int) -> list[str]:
    """What the processes of a group hold open. A process that ends meanwhile holds nothing."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getpgid(int(process.name)) == group:
                found += [os.readlink(entry) for entry in (process / "fd").iterdir()]
    return found


def examine(machine: Machine, script: Labelled, left_s: float) -> dict[str, Any]:
    """Records the script, and holds the answer against its label and against the profile in the recording."""
    recording = machine.record(script)
    machine.start_ahead()
    recording.finish(min(left_s, RECORDED_MOST_S))
    if not recording.answer.exists():
        said = (recording.folder / "log").read_text(errors="replace").strip().splitlines()
        raise RuntimeError((said or ["no answer"])[-1])
    document = json.loads(recording.answer.read_text(encoding="utf-8"))
    answer = gpu_truth.read_answer(document)
    row = judge(script, answer)
    row["run_ms"] = document["run"]["total_ms"]
    row["division"] = hold_against_profile(next(recording.folder.glob("*/recording.sqlite")).parent, answer)
    return row


def judge(script: Labelled, answer: gpu_truth.Answer) -> dict[str, Any]:
    low, high = answer.gain_range or (None, None)
    row: dict[str, Any] = {
        "verdict": answer.verdict, "step_verdict": answer.step_verdict,
        "verdict_right": answer.step_verdict in script.step_verdict,
        "first": answer.first, "scope": answer.scope, "foretold": answer.first_gain, "low": low, "high": high,
        "step_ms": answer.step_ms, "parts_ms": answer.parts_ms,
    }  # fmt: skip
    if not script.causes:
        claims = (answer.first_gain or 1.0) > ALARM and answer.first not in script.allowed
        return {**row, "alarm": bool(answer.first) and claims}
    right = answer.first in script.causes
    return {
        **row, "cause": script.causes[0], "labelled_scope": script.scope, "first_right": right,
        "line_right": bool(set(answer.lines) & set(script.lines)) if right else None,
    }  # fmt: skip


def hold_against_profile(recording: Path, answer: gpu_truth.Answer) -> dict[str, Any] | None:
    """Device and copies of the step, as reported and as the recording's own profile has them; None without one."""
    try:
        profiled = gpu_truth.ask("diagnose", recording)
    except RuntimeError:
        return None
    pairs = {part: (answer.parts_ms.get(part, 0.0), profiled.parts_ms.get(part, 0.0)) for part in PARTS}
    return {part: (found, true, gpu_truth.is_near(found, true)) for part, (found, true) in pairs.items()}


def time_pair(machine: Machine, script: Labelled) -> dict[str, Any]:
    """Slow and cured without Slowtrain, one after the other: the seconds of training, and those for a sample."""
    assert script.fixed is not None
    row = {}
    for key, path in (("slow", script.slow), ("fixed", script.fixed)):
        done = machine.run_alone(path)
        if done["exit"] != 0 or not done["train_s"] or not done["work"]:
            said = done["log"].read_text(errors="replace").strip().splitlines() or ["no output"]
            raise RuntimeError(f"{path.name}: exit {done['exit']}: {said[-1][:120]}")
        row[f"{key}_s"], row[f"{key}_sample_s"] = done["train_s"], done["train_s"] / done["work"]
    return row
