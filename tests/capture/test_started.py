"""What the recorder tells of a start: who asked for XLA, whose lines made the graph, and a run killed on its way."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from slowtrain.cli import main
from slowtrain.recording import reader
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.signals.host.start_parts import start_sentence

from . import running

pytestmark = pytest.mark.tensorflow

LIBRARY = """
    import tensorflow as tf

    def many(x):
        for _ in range(30):
            x = tf.tanh(x)
        return x
"""
CALLER = """
    import tensorflow as tf
    import mylib

    w = tf.Variable(tf.ones((4, 4)))

    @tf.function(jit_compile=True)
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(mylib.many(x @ w))
        w.assign_sub(0.1 * tape.gradient(loss, w))

    for _ in range(3):
        step(tf.ones((2, 4)))
"""


def test_ops_that_a_package_on_the_path_makes_are_of_the_line_that_calls_it(tmp_path: Path) -> None:
    site = tmp_path / "site"
    running.write(site, LIBRARY, "mylib/__init__.py")
    (site / "mylib-1.0.dist-info").mkdir()
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    script = running.write(tmp_path / "mine", CALLER)
    done = running.recorded(tmp_path / "run", script, windows=False, env={"PYTHONPATH": path})
    assert done.code == 0, done.err
    (traced,) = [e for e in reader.read_recording(done.folder).events if e.lane == "trace"]
    called = 1 + next(i for i, line in enumerate(textwrap.dedent(CALLER).splitlines()) if "mylib.many" in line)
    assert traced.data["graph"]["lines"][0][:2] == [str(script), called]
    assert {row[0] for row in traced.data["graph"]["lines"]} == {str(script)}
    assert traced.data["jit_compile"] is True


# The first call waits in an op for long after it was traced, as it would for XLA; then the process is killed.
KILLED = """
    import os, signal, sys, threading, time
    import numpy as np
    import keras
    import tensorflow as tf

    def wait(x):
        time.sleep(100)
        return x

    class Waiting(keras.layers.Layer):
        def call(self, x):
            return tf.ensure_shape(tf.py_function(wait, [x], tf.float32), x.shape)

        def compute_output_shape(self, shape):
            return shape

    def kill():
        main, seen = threading.main_thread().ident, 0
        while seen < 80:  # four seconds in TensorFlow's call, in which the recorder writes
            time.sleep(0.05)
            seen = seen + 1 if sys._current_frames()[main].f_code.co_name == "quick_execute" else 0
        os.kill(os.getpid(), signal.SIGKILL)

    model = keras.Sequential([keras.Input((4,)), Waiting(), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    threading.Thread(target=kill, daemon=True).start()
    model.fit(np.ones((64, 4), "float32"), np.ones((64, 2), "float32"), verbose=0)
"""


def test_a_run_killed_in_its_first_call_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = running.recorded(tmp_path / "run", running.write(tmp_path, KILLED), windows=False)
    assert done.code == 137, done.err
    assert main(["report", str(done.folder)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "fit had started and its function was traced; it ran for the first time for" in told
    assert "no training was found" not in told
    assert "let it run for longer: the first step had not finished" in told
    run = recording_trace.load_recording(done.folder).run
    assert run.ms("compile") > 1000  # it was killed four seconds after that call began, or later
    assert run.ms("epoch") < 0.5 * run.ms("compile")


FEW_STEPS = """
    import keras
    import numpy as np

    layers = [keras.layers.Dense(8, activation="gelu") for _ in range(20)]
    model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(np.ones((64, 8), "float32"), np.ones((64, 1), "float32"), batch_size=16, verbose=0)
"""


def test_a_run_of_a_few_steps_says_what_its_start_is_made_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = running.recorded(tmp_path / "run", running.write(tmp_path, FEW_STEPS), windows=False)
    assert done.code == 0, done.err
    assert main(["report", str(done.folder)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "STARTUP-BOUND: start-up is " in told
    parts = start_sentence(recording_trace.load_recording(done.folder))
    assert "imports" in parts
    assert "tracing" in parts
    assert parts[:40] in told
