"""Loops at the edges of what is recorded: steps of a tenth of a millisecond, a process that was stopped for a while."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from slowtrain import diagnose
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.run_division import step_disturbances

from . import running

pytestmark = pytest.mark.tensorflow

LOOP = """
import os, sys, time
import tensorflow as tf
w = tf.Variable([1.0, 2.0])

@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(w * x)
    w.assign_sub(1e-6 * tape.gradient(loss, w))
    return loss

x, steps, pause = tf.constant([1.0, 1.0]), int(sys.argv[1]), float(sys.argv[2])
train_step(x)
print(os.getpid(), flush=True)
begun = time.perf_counter()
for i in range(steps - 1):
    train_step(x)
    if pause:
        time.sleep(pause)
print("END", 1e3 * (time.perf_counter() - begun) / steps)
"""


def recorded_quick_steps(folder: Path, steps: int) -> tuple[Trace, float]:
    """The trace of so many steps of a tenth of a millisecond, and the mean that the script itself measured, in ms."""
    done = running.recorded(folder / "run", running.write(folder, LOOP), str(steps), "0")
    assert done.code == 0, done.err
    return recording_trace.load_recording(done.folder), float(done.out.split()[-1])


def test_steps_of_a_tenth_of_a_millisecond_are_all_there(tmp_path: Path) -> None:
    trace, _ = recorded_quick_steps(tmp_path, 20_000)
    assert trace.facts.get("faults", []) == []
    assert len(trace.steps) == 20_000
    diagnose.diagnose_trace(trace)


@pytest.mark.bench
def test_steps_of_a_tenth_of_a_millisecond_have_their_length(tmp_path: Path) -> None:
    trace, each_ms = recorded_quick_steps(tmp_path, 20_000)
    assert np.median(trace.steps.end_ms - trace.steps.start_ms) == pytest.approx(each_ms, rel=0.5)


# Each 150th turn stands still for a second; in C, which keeps the interpreter's lock, or asleep.
STALLS = LOOP.replace(
    "    if pause:",
    """    if i % 150 == 120:
        ctypes.PyDLL(None).usleep(1_000_000)
    if pause:""",
).replace("import os,", "import ctypes, os,")


@pytest.mark.bench  # each stop has the length that it is given
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells how often a thread ran")
def test_a_process_that_was_stopped_and_went_on(tmp_path: Path) -> None:
    """All threads stood still with it, the recorder's too: nothing is lost, and no step counts that this fell into."""
    script = running.write(tmp_path, LOOP)
    process = subprocess.Popen(
        running.recorder(tmp_path / "run", script, "400", "0.01", windows=False),
        stdout=subprocess.PIPE, text=True, env=running.environment(),
    )  # fmt: skip
    assert process.stdout is not None
    child = int(process.stdout.readline())
    for _ in range(3):
        time.sleep(0.8)
        os.kill(child, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(child, signal.SIGCONT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert out.startswith("END")
    trace = recording_trace.load_recording(tmp_path / "run")
    assert trace.facts.get("faults", []) == []
    assert len(trace.steps) == 400
    assert np.sort(np.diff(trace.steps.start_ms))[-3:] == pytest.approx(1500, rel=0.2)
    begun, ended = step_disturbances.stopped_times(trace.events)
    # Each wait of the recorder's thread but a moment in fifty; of each stop all but the wait in which it began.
    assert 2 <= len(begun) <= 3
    assert ended - begun == pytest.approx(1450, abs=150)
    assert trace.run.ms("stopped") == pytest.approx(float((ended - begun).sum()))
    assert float(trace.steps.steady_ms.max()) < 500 or len(begun) < 3
    assert any("the process was stopped" in note for note in trace.facts["notes"])
    assert all(d.cause != "drift/stalls" for d in diagnose.diagnose_trace(trace).diagnoses)


@pytest.mark.bench  # each stall has the length that it is given
def test_what_keeps_the_interpreters_lock_did_not_stop_the_process(tmp_path: Path) -> None:
    """The recorder's thread is as late, and nothing computes: a stall of the script's own."""
    done = running.recorded(tmp_path / "run", running.write(tmp_path, STALLS), "600", "0.001", windows=False)
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    assert np.sort(np.diff(trace.steps.start_ms))[-4:] == pytest.approx(1000, rel=0.2)
    assert len(step_disturbances.stopped_times(trace.events)[0]) == 0
    assert trace.run.ms("stopped") == 0
    assert not any("stopped" in note for note in trace.facts.get("notes", ()))
    assert "drift/stalls" in [d.cause for d in diagnose.diagnose_trace(trace).diagnoses]
