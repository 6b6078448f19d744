"""``slowtrain.Monitor`` and ``slowtrain.record``: the same recording from inside, and all as it was at the end."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import slowtrain
from slowtrain.errors import InputError

from . import running

Printed = dict[str, list[dict[str, Any]]]  # the documents, by part

DATA = """
import json, sys, time
import numpy as np
import tensorflow as tf
import slowtrain
keras = tf.keras

def batches():
    for _ in range(60):
        time.sleep(0.008)
        yield np.ones((8, 4), "float32"), np.ones((8, 1), "float32")

data = tf.data.Dataset.from_generator(batches, output_signature=(tf.TensorSpec((8, 4)), tf.TensorSpec((8, 1))))
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")

def told(run, **more):
    found = run.checkup()
    print(json.dumps({
        "source": run.frame().source, "counted": found.steps.counted, "step_ms": found.attribution.total_ms,
        "input": sum(p.share for p in found.attribution.parts if p.name == "input"),
        "python": sum(p.share for p in found.attribution.parts if p.name == "python"),
        "folder": str(run.folder), **more}))
"""
FIT = """
model.fit(data, epochs=2, verbose=0, callbacks=[monitor := slowtrain.Monitor("runs")])
told(monitor.run)
monitor = slowtrain.Monitor("runs")
model.fit(data, epochs=2, verbose=0, callbacks=[monitor])
told(monitor.run)
model.fit(data, epochs=2, verbose=0, callbacks=[monitor])
told(monitor.run)
"""
LOOP = """
@tf.function
def train(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    for variable, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
        variable.assign_sub(0.1 * gradient)
    return loss

@tf.function
def other(x):
    return x + 1

train(*next(iter(data)))
Function = type(train)
before = Function.__call__, keras.Model.fit, tf.GradientTape.gradient, sys.excepthook, list(sys.meta_path)
for _ in range(2):
    with slowtrain.record("runs", name="loop") as run:
        for x, y in data:
            other(x)
            train(x, y)
    told(run, same=before[:4] == (Function.__call__, keras.Model.fit, tf.GradientTape.gradient, sys.excepthook))
print(json.dumps({"ours": [str(f) for f in sys.meta_path if "slowtrain" in type(f).__module__]}))
"""
FAILED = """
class Stops(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 20:
            raise KeyboardInterrupt

try:
    model.fit(data, epochs=2, verbose=0, callbacks=[Stops(), slowtrain.Monitor("runs")])
except KeyboardInterrupt:
    pass
model.fit(data, epochs=2, verbose=0, callbacks=[monitor := slowtrain.Monitor("runs")])
told(monitor.run, runs=[json.loads(f.read_text()).get("exit_code") for f in sorted(Path("runs").glob("*/launch.json"))])
"""
BAD = """
def loss_of(t, p):
    return tf.reduce_mean(tf.math.log(tf.abs(p)))

x, y = np.ones((400, 4), "float32"), np.ones((400, 1), "float32")
x[240:] = 0
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, use_bias=False)])
model.compile("sgd", loss_of)
bad = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
monitor = slowtrain.Monitor("runs", windows=False, on_nonfinite="report", max_disk="20MB")
model.fit(bad, epochs=1, verbose=0, callbacks=[monitor])

# The function that was traced meanwhile goes on being used.
model.set_weights([np.ones((4, 1), "float32")])
again = model.fit(bad.take(20), epochs=1, verbose=0).history["loss"]

w = tf.Variable([1.0, 2.0])
@tf.function
def step(a):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.math.log(w * a))
    w.assign_add(1e-3 * tape.gradient(loss, w))
    return loss
step(tf.constant([1.0, 1.0]))
with slowtrain.record("runs", name="loop", windows=False, on_nonfinite="report") as run:
    for i in range(60):
        step(tf.constant([1.0, 0.0 if i == 40 else 1.0]))

from slowtrain.trace.loading import recording_trace
for one in (monitor.run, run):
    trace = recording_trace.load_recording(one.folder)
    print(json.dumps({"faults": trace.facts.get("faults"), "again": again,
                      "found": [dict(e.data) for e in trace.events_of("checked")]}))
"""
PARTS = {"fits": FIT, "loop": LOOP, "failed": FAILED, "bad": BAD}


def lines(folder: Path, script: str, *arguments: str) -> list[dict[str, Any]]:
    running.write(folder, script, "train.py")
    done = subprocess.run(
        [sys.executable, *arguments, "train.py"], cwd=folder, capture_output=True, text=True, timeout=170,
        check=False, env=running.environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Printed:
    """What each part printed. One process runs all, each in a folder of its own."""
    begun = "\nos.makedirs('../{0}')\nos.chdir('../{0}')\nprint(json.dumps({{'part': '{0}'}}))\n"
    script = "".join(begun.format(name) + text for name, text in PARTS.items())
    found: Printed = {}
    for line in lines(tmp_path_factory.mktemp("parts"), f"import os\nfrom pathlib import Path\n{DATA}{script}"):
        if "part" in line:
            found[str(line["part"])] = []
        else:
            found[list(found)[-1]].append(line)
    return found


@pytest.mark.tensorflow
def test_a_monitor_records_each_fit(printed: Printed) -> None:
    assert len({str(one["folder"]) for one in printed["fits"]}) == 3
    for one in printed["fits"]:
        assert one["source"] == "fit"
        assert 80 <= int(str(one["counted"])) <= 120


@pytest.mark.bench
@pytest.mark.tensorflow
def test_a_monitor_tells_what_its_steps_wait_for(printed: Printed) -> None:
    for one in printed["fits"]:
        assert float(str(one["input"])) > 0.2  # each batch takes 8 ms to make
        assert float(str(one["python"])) < 0.1  # what Keras does between steps is not the user's


@pytest.mark.tensorflow
def test_a_loop_of_functions_traced_before_is_recorded_again_and_again(printed: Printed) -> None:
    *found, last = printed["loop"]
    assert last == {"ours": []}
    for one in found:
        # Of the two functions the one that trains, though its trace was never seen.
        assert one["source"] == "function train"
        assert one["same"] is True
        assert int(str(one["counted"])) >= 20  # how many of the steps a window takes depends on how quick they are


@pytest.mark.tensorflow
def test_inside_slowtrain_run_nothing_is_recorded_twice(tmp_path: Path) -> None:
    script = (
        DATA
        + """
with slowtrain.record("runs") as run:
    model.fit(data, epochs=1, verbose=0, callbacks=[monitor := slowtrain.Monitor("runs")])
assert run.folder == monitor.run.folder
"""
    )
    running.write(tmp_path, script, "train.py")
    done = running.recorded(tmp_path / "out", "train.py", cwd=tmp_path)
    assert done.code == 0, done.err
    assert not (tmp_path / "runs").exists()
    assert done.err.count("adds no second recording") == 2


@pytest.mark.tensorflow
def test_the_first_bad_op_of_a_fit_and_of_a_loop_that_were_recorded_from_inside(printed: Printed) -> None:
    for one, step in zip(printed["bad"], (31, 41), strict=True):
        assert one["faults"] is None
        assert one["again"] == [pytest.approx(1.36, abs=0.05)]
        (found,) = one["found"]
        assert found["step"] == step
        assert found["origin"]["type"] == "Log"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [({"max_disk": "tiny"}, "is not a size"), ({"max_disk": 5}, "too small"), ({"on_nonfinite": "go"}, "is not")],
)
def test_what_run_would_not_take_is_refused(wanted: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said), slowtrain.record(tmp_path / "runs", **wanted):
        pass
    assert not (tmp_path / "runs").exists()


SMALL = """
import json, os, sys, time
import slowtrain
alerts = []
with slowtrain.record("runs", on_alert=alerts.append) as run:
    where = run.folder
    print(json.dumps({"active": os.path.exists(where / "recording.sqlite")}))
    try:
        with slowtrain.record("runs"):
            raise AssertionError
    except slowtrain.errors.InputError as error:
        print(json.dumps({"twice": str(error)}))
    time.sleep(1.0)
found = run.checkup()
shown = found._repr_html_()
print(json.dumps({
    "modules": [m for m in ("tensorflow", "keras") if m in sys.modules], "verdict": str(found.verdict),
    "launch": json.loads((where / "launch.json").read_text()), "html": shown, "text": run.report(),
    "alerts": [a.id for a in alerts]}))
"""


def test_a_block_without_tensorflow_and_its_report_in_a_frame_of_its_own(tmp_path: Path) -> None:
    first, twice, last = lines(tmp_path, "import slowtrain.errors\n" + SMALL)
    assert first == {"active": True}
    assert "already being recorded" in str(twice["twice"])
    assert last["modules"] == []
    launch = last["launch"]
    assert isinstance(launch, dict)
    assert launch["exit_code"] == 0
    assert launch["end_ns"] > launch["start_ns"]
    assert last["alerts"] == []
    assert "INSUFFICIENT" in str(last["text"])
    html = str(last["html"])
    assert html.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts"' in html
    inside = html[html.index('srcdoc="') + 8 : html.index('" sandbox')]
    # Nothing of the page can end the attribute, and nothing in it is loaded from elsewhere.
    assert '"' not in inside
    assert "<" not in inside
    for outside in ("src=&quot;http", "href=&quot;http", "@import"):
        assert outside not in inside


def test_an_error_in_the_block_is_the_users(tmp_path: Path) -> None:
    running.write(
        tmp_path, "import slowtrain\nwith slowtrain.record('runs'):\n    raise KeyError('mine')\n", "train.py"
    )
    done = running.plain("train.py", cwd=tmp_path)
    assert done.code == 1
    assert done.err.rstrip().endswith("KeyError: 'mine'")
    (folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((folder / "launch.json").read_text())["exit_code"] == 1


FORKED = """
import json, os, signal, sys, time
import slowtrain
with slowtrain.record("runs", on_alert=print{port}) as run:
    pid = os.fork()
    if not pid:
        signal.alarm(10)
        with slowtrain.record("others"):
            pass
        sys.exit(3)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(json.dumps({{"code": code, "about": json.loads((run.folder / "launch.json").read_text())}}))
print(json.dumps({{"about": json.loads((run.folder / "launch.json").read_text())}}))
"""


def test_the_end_of_a_forked_child_is_not_that_of_the_recording(tmp_path: Path) -> None:
    """It leaves the block, and the interpreter, as its parent will; and what it records itself is its own."""
    port = ", prometheus_port=0" if importlib.util.find_spec("prometheus_client") is not None else ""
    meanwhile, after = lines(tmp_path, FORKED.format(port=port))
    assert meanwhile["code"] == 3
    assert "end_ns" not in meanwhile["about"]
    assert after["about"]["exit_code"] == 0
    assert len(list((tmp_path / "runs").iterdir())) == len(list((tmp_path / "others").iterdir())) == 1


def test_a_disk_that_takes_no_recording_is_said_in_a_line(tmp_path: Path) -> None:
    script = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
    running.write(tmp_path, script + "import slowtrain\nwith slowtrain.record('runs'):\n    pass\n", "train.py")
    done = running.plain("train.py", cwd=tmp_path)
    assert done.err.splitlines()[-1].startswith("slowtrain.errors.InputError: cannot write a recording to runs (")
    assert done.err.rstrip().endswith("; give slowtrain.record or slowtrain.Monitor another folder")
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.tensorflow
def test_a_fit_that_was_interrupted_does_not_keep_the_next_monitor_from_recording(printed: Printed) -> None:
    """In a notebook the cell is run again: the first callback is nobody's any more."""
    (one,) = printed["failed"]
    assert one["runs"] == [1, 0]
    assert 80 <= int(str(one["counted"])) <= 120


TOLD = """
import psutil, socket, threading, urllib.request

def listening():
    me = psutil.Process()  # what it is asked for has another name since psutil 6
    found = getattr(me, "net_connections", None) or me.connections
    return [c.laddr.ip for c in found("tcp") if c.status == psutil.CONN_LISTEN]

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
alerts, answers, seen = [], [], []

class Spoils(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if answers and alerts and os.path.exists("told"):
            self.model.stop_training = True
        if epoch == 1:
            kernel = self.model.layers[-1].kernel
            kernel.assign(kernel * float("nan"))

def ask():
    while not answers:
        time.sleep(0.3)
        try:
            text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
        except OSError:
            continue
        if "slowtrain_step_seconds " in text:
            seen.extend(listening())
            answers.append(text)

quiet = slowtrain.Monitor("runs")
print(json.dumps({"children": len(psutil.Process().children()), "listening": listening()}))
quiet.close()
threading.Thread(target=ask, daemon=True).start()
program = "open('told', 'a').write(__import__('os').environ['SLOWTRAIN_ALERT_ID'])"
model.fit(data, epochs=40, verbose=0, callbacks=[Spoils(), slowtrain.Monitor(
    "runs", on_alert=lambda alert: alerts.append((alert.id, threading.current_thread() is threading.main_thread())),
    alert_command=f'{sys.executable} -c "{program}"', prometheus_port=port, tensorboard="logs")])
scalars = [
    value.tag for file in os.listdir("logs") for event in tf.compat.v1.train.summary_iterator(f"logs/{file}")
    for value in event.summary.value]
print(json.dumps({"alerts": alerts, "answers": len(answers), "seen": seen, "listening": listening(),
                  "told": open("told").read(), "scalars": sorted(set(scalars)),
                  "children": len(psutil.Process().children())}))
"""


@pytest.mark.tensorflow
def test_what_is_told_while_a_fit_is_recorded_and_nothing_where_it_was_not_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client", reason="slowtrain[prometheus] is not installed here")
    quiet, told = lines(tmp_path, "import os\n" + DATA + TOLD)
    assert quiet == {"children": 0, "listening": []}
    assert ["nonfinite-loss", False] in told["alerts"] or ["numerics/nonfinite-loss", False] in told["alerts"]
    assert "nonfinite-loss" in str(told["told"])
    assert told["answers"] == 1
    assert told["seen"] == ["127.0.0.1"]
    assert {"slowtrain/step_ms", "slowtrain/memory_mb"} <= set(told["scalars"])
    assert (told["listening"], told["children"]) == ([], 0)


REFUSED = """
import socket
import urllib.request
from slowtrain.capture.process import session
from slowtrain.errors import SlowtrainError
from slowtrain.monitor import Monitoring

def refused(**wanted):
    try:
        Monitoring("runs", **wanted)
    except SlowtrainError as error:
        print(type(error).__name__, session.current_session())

with socket.socket() as taken:
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    refused(prometheus_port=taken.getsockname()[1])
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
refused(prometheus_port=port, tensorboard="logs")  # there is no TensorFlow: metrics are not left listening either
again = Monitoring("runs", prometheus_port=port)
print(session.current_session() is not None)
again.close()
print(session.current_session())
"""


def test_what_cannot_be_told_of_leaves_no_recording_behind(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client", reason="slowtrain[prometheus] is not installed here")
    running.write(tmp_path, "raise ImportError('none here')", "tensorflow/__init__.py")
    running.write(tmp_path, REFUSED, "train.py")
    done = running.plain("train.py", cwd=tmp_path)
    assert done.out == "InputError None\nEnvironmentMissing None\nTrue\nNone\n", done.err


def test_importing_slowtrain_is_light(tmp_path: Path) -> None:
    heavy = "('numpy', 'tensorflow', 'keras')"
    code = f"import sys, slowtrain; slowtrain.record; print([m for m in sys.modules if m in {heavy}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"
    code = "import slowtrain; slowtrain.nothing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "AttributeError" in done.stderr
