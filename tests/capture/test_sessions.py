"""Sessions of TensorFlow 1: their runs are steps, and the line that adds ops to their graph is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowtrain.causes.drift.growing_step import GrowingStep
from slowtrain.model import Category, Evidence
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.signals.host import host_work

from . import running

pytestmark = pytest.mark.tensorflow

SCRIPT = """
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
x = np.random.default_rng(0).normal(size=(1000, 16)).astype("float32")

with tf.Graph().as_default(), v1.Session() as session:
    rows = v1.placeholder(tf.float32, (None, 16))
    weights = v1.get_variable("weights", (16, 1))
    rate = v1.get_variable("rate", (), trainable=False)
    loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights) - rows[:, :1]))
    train = v1.train.GradientDescentOptimizer(rate).minimize(loss)
    session.run(v1.global_variables_initializer())
    ADD
    for step in range(STEPS):
        RATE
        batch = x[np.random.randint(0, 1000, 32)]
        session.run([train, loss], {rows: batch})
"""


def growth_evidence(trace: Trace) -> Evidence | None:
    finding = GrowingStep().find(trace)
    return None if finding is None else GrowingStep().evidence(trace, finding)


def _script(steps: int, add: str, rate: str) -> str:
    return SCRIPT.replace("STEPS", str(steps)).replace("ADD", add).replace("RATE", rate)


GROWING = _script(900, "pass", "session.run(v1.assign(rate, 0.1 / (1 + step)))")
HEALTHY = _script(
    1200,
    "given = v1.placeholder(tf.float32, ()); lower = v1.assign(rate, given)",
    "session.run(lower, {given: 0.1 / (1 + step)})",
)


def _line(script: str, text: str) -> int:
    return next(i for i, line in enumerate(script.splitlines(), 1) if text in line)


# Steps must be seen to take longer, and walks that find the graph grown are allowed a share of time.
@pytest.mark.bench
def test_ops_that_each_turn_adds_are_named_with_their_line(tmp_path: Path) -> None:
    done = running.recorded(tmp_path / "run", running.write(tmp_path, GROWING))
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    assert trace.steps.source == "function run"
    assert trace.steps.training
    assert trace.steps.place is not None
    assert trace.steps.place.line == _line(GROWING, "session.run([train, loss]")
    found = growth_evidence(trace)
    assert found is not None
    assert found.where[0].line == _line(GROWING, "v1.assign(rate")
    assert "; the graph grew from " in found.says


def test_a_graph_that_is_made_once(tmp_path: Path) -> None:
    done = running.recorded(tmp_path / "run", running.write(tmp_path, HEALTHY))
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    assert trace.steps.training
    assert len(trace.steps) == pytest.approx(1200, abs=2)
    assert growth_evidence(trace) is None


FED = """
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
x = np.random.default_rng(0).normal(size=(2000, 16)).astype("float32")
listed = x.tolist()
rows = v1.placeholder(tf.float32, (None, 16))
weights = v1.get_variable("weights", (16, 1))
loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights) - rows[:, :1]))
count = v1.train.get_or_create_global_step()
train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=count)
with v1.train.MonitoredTrainingSession() as session:
    for step in range(400):
        session.run([train, loss], {rows: GIVEN})
"""


def _fed_ms(tmp_path: Path, given: str) -> tuple[float, list[int]]:
    """Ms a step spends on turning what the session is fed into arrays, and the lines that have it fed."""
    done = running.recorded(tmp_path / given, running.write(tmp_path, FED.replace("GIVEN", given)))
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    assert trace.steps.training
    assert len(trace.steps) == pytest.approx(400, abs=2)
    return trace.mean(Category.CONVERT), [place.line for place in host_work.ms_by_line(trace, "feed")]


@pytest.mark.bench
def test_lists_that_a_monitored_session_is_fed_are_told_apart_from_its_work(tmp_path: Path) -> None:
    as_list, lines = _fed_ms(tmp_path, "listed")
    as_array, _ = _fed_ms(tmp_path, "x")
    assert as_list > 5 * as_array
    assert as_list > 0.5  # 32,000 numbers
    assert lines[0] == _line(FED, "session.run([train, loss]")
