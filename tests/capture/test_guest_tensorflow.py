"""A training script runs as it would without us: the same numbers, warnings, errors and files."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from slowtrain.recording import reader
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace

from . import running
from .loops import DATASET, GENERATOR, HEADER, STEP

pytestmark = pytest.mark.tensorflow


HABITS = (
    HEADER
    + GENERATOR
    + """
import copy, functools, gc, inspect, json, multiprocessing, os, pickle, sys, threading, weakref

class Mine(keras.callbacks.Callback):
    seen = []
    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(repr(float(logs["loss"])))
        if epoch == 2:
            pid = os.fork()
            if pid == 0:
                os._exit(4 if gc.collect() >= 0 else 5)
            print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    on_train_batch_end = staticmethod(lambda batch, logs=None: None)
    on_epoch_begin = functools.partial(lambda *args, **kwargs: None)

model = keras.Sequential([keras.layers.Dense(64, input_shape=(32,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
ends = []
told = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ends.append(epoch))
tracer = lambda frame, event, arg: None
sys.settrace(tracer)
history = model.fit(x, y, epochs=4, verbose=2, callbacks=[Mine(), told], validation_split=0.1)
print(sys.gettrace() is tracer)
sys.settrace(None)
print(Mine.seen, ends, [repr(float(v)) for v in history.history["val_loss"]])
for _ in range(3):
    print(repr(float(model.train_on_batch(x[:32], y[:32]))))
print(repr(float(model.evaluate(x, y, verbose=0))), model.predict(x, verbose=0).sum())
print(hasattr(model.train_function, "get_concrete_function"), inspect.signature(keras.Model.fit))
print(inspect.getfullargspec(keras.layers.Dense.__init__).args)
clone = copy.deepcopy(model)
print(type(pickle.loads(pickle.dumps(model))).__name__, clone.predict(x[:2], verbose=0).shape)
print(inspect.signature(tf.constant), tf.constant.__name__, tf.data.Dataset.from_generator.__doc__[:20])
spec = (tf.TensorSpec((32, 32)), tf.TensorSpec((32, 1)))
ds = tf.data.Dataset.from_generator(lambda: batches(3), output_signature=spec)
print(sum(float(tf.reduce_sum(a)) for a, b in ds))

@functools.partial(tf.function, reduce_retracing=True)
def f(a): return a * 2
print(f(tf.constant(2)).numpy(), f(3).numpy(), f.experimental_get_tracing_count(), f.__name__)
big = tf.zeros([1000])
gone = weakref.ref(big)
f(big)
del big
result = tf.function(lambda: tf.ones([100]))()
kept = weakref.ref(result)
del result
gc.collect()
print("freed", gone() is None, kept() is None)
print(threading.enumerate() == [threading.main_thread()], threading.active_count())
"""
)

# Errors that the interpreter prints: of a function, of a graph that cannot be made, and last of a fit.
FAILS = (
    STEP
    + """
def outer(a):
    return inner(a)
def inner(a):
    return train_step(a, tf.zeros([7, 9]))
@tf.function
def unfinished(a):
    return a + missing
class Stops(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise ValueError("the user's own")
def train():
    build().fit(x, y, verbose=0, callbacks=[Stops()])
for fails in (lambda: outer(tf.zeros([3, 32])), lambda: unfinished.get_concrete_function(1.0)):
    try:
        fails()
    except Exception:
        sys.excepthook(*sys.exc_info())
train()
"""
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[running.Done, running.Done]:
    """A script alone, and recorded."""
    folder = tmp_path_factory.mktemp("both")
    script = running.write(folder, HABITS + FAILS)
    return running.plain(script), running.recorded(folder / "run", script)


def test_the_same_numbers_warnings_and_habits(both: tuple[running.Done, running.Done]) -> None:
    alone, guest = both
    assert "\nfreed " in alone.out, alone.err
    assert _timeless(guest.out).splitlines() == _timeless(alone.out).splitlines()
    assert _warnings(guest.err) == _warnings(alone.err)
    assert reader.read_recording(guest.folder).facts.get("faults", []) == []


def test_the_same_tracebacks(both: tuple[running.Done, running.Done]) -> None:
    alone, guest = both
    assert (guest.code, alone.code) == (1, 1)
    assert _frames(guest.err) == _frames(alone.err)
    assert sum("script.py" in frame for frame in _frames(guest.err)) >= 6
    assert "slowtrain" not in guest.err.replace(str(guest.folder.parent), "")
    assert _errors(guest.err) == _errors(alone.err)
    for said in ("in outer", "NameError: ", "ValueError: the user's own"):
        assert said in guest.err


PROFILES = (
    HEADER
    + STEP
    + DATASET
    + """
import sys, time
begun, worked, turn = time.perf_counter(), time.process_time(), 0
data = iter(ds.repeat())
while min(time.perf_counter() - begun, time.process_time() - worked) < 2:  # beside another load, too
    with tf.profiler.experimental.Profile(f"{sys.argv[1]}/{turn}"):
        for _ in range(5): train_step(*next(data))
    until = time.perf_counter() + 0.02
    while time.perf_counter() < until: train_step(*next(data))
    turn += 1
print(turn)
"""
)


def test_the_users_own_profiler_goes_first(tmp_path: Path) -> None:
    script = running.write(tmp_path, PROFILES)
    done = running.recorded(tmp_path / "run", script, str(tmp_path / "profiles"))
    assert done.code == 0, done.err
    profiles = {
        path.relative_to(tmp_path / "profiles").parts[0] for path in (tmp_path / "profiles").rglob("*.xplane.pb")
    }
    assert len(profiles) == int(done.out)
    raw = reader.read_recording(done.folder)
    assert raw.facts.get("faults", []) == []
    assert [e for e in raw.events if e.lane == "window"]
    recording_trace.load_recording(done.folder)


KILLED = (
    HEADER
    + """
import os, signal, time
class Dies(keras.callbacks.Callback):
    count = 0
    begun = 0
    def on_train_batch_end(self, batch, logs=None):
        self.begun = self.begun or time.perf_counter()
        self.count += 1
        if time.perf_counter() - self.begun > 2:
            print(self.count, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
build().fit(x, y, epochs=10_000, verbose=0, callbacks=[Dies()])
"""
)


def killed(folder: Path) -> tuple[Trace, int]:
    """The recording of a script that was killed in its ``fit``, and how many steps it took."""
    done = running.recorded(folder / "run", running.write(folder, KILLED))
    assert done.code == 137
    return recording_trace.load_recording(done.folder), int(done.out)


def test_steps_before_a_kill(tmp_path: Path) -> None:
    trace, taken = killed(tmp_path)
    assert 0 < len(trace.steps) <= taken
    assert sum(p.ms for p in trace.run.parts) == pytest.approx(trace.run_ms, rel=1e-3)


@pytest.mark.bench
def test_steps_up_to_the_last_second_before_a_kill(tmp_path: Path) -> None:
    trace, taken = killed(tmp_path)
    assert len(trace.steps) >= taken / 2
    assert trace.run_ms - trace.steps.end_ms[-1] < 1000


BROKEN = """
from slowtrain.capture.inspection import call_signatures, user_code
from slowtrain.capture.tensorflow import function_patches
from slowtrain.recording import store
function_patches.FUNCTION_MODULE = "tensorflow.python.eager.wrap_function"  # has no Function: a version we do not know
def fails(*args): raise RuntimeError("the recorder's own")
call_signatures.batch_size = call_signatures.host_bytes = user_code.describe_function = fails
"""


def test_faults_of_ours_are_noted_and_the_script_runs_on(tmp_path: Path) -> None:
    running.write(tmp_path, BROKEN, "site/sitecustomize.py")
    script = running.write(
        tmp_path,
        HEADER + STEP + GENERATOR + "for a, b in batches(50):\n    train_step(tf.constant(a), b)\n"
        "told = keras.callbacks.LambdaCallback(on_epoch_end=lambda e, l: print(e))\n"
        "model.fit(x, y, verbose=0, epochs=2, callbacks=[told])\n"
        "print(model.train_on_batch(x, y) > 0)",
    )
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    done = running.recorded(tmp_path / "run", script, env={"PYTHONPATH": path})
    assert (done.code, done.out) == (0, "0\n1\nTrue\n"), done.err
    assert "Traceback" not in done.err
    raw = reader.read_recording(done.folder)
    faults = raw.facts["faults"]
    assert any("patching tensorflow.python.eager.wrap_function: " in f and "AttributeError" in f for f in faults)
    assert any("the recorder's own" in f for f in faults)
    assert len(json.dumps(faults)) < 100_000
    assert len(raw.lanes["step"]) >= 40  # what still works is recorded
    assert recording_trace.load_recording(done.folder).steps.source == "fit"


def _timeless(text: str) -> str:
    return re.sub(r"\d+(\.\d+)?(s|ms|us|µs)\b(/(step|epoch))?", "…", re.sub(r"0x[0-9a-f]+", "…", text))


def _frames(text: str) -> list[str]:
    return re.findall(r"^ +File .*", re.sub("__autograph_generated_file[^.]*", "…", text), re.MULTILINE)


def _warnings(text: str) -> list[str]:
    return [line for line in text.splitlines() if "Warning" in line]


def _errors(text: str) -> list[str]:
    return [line for line in text.splitlines() if "Error: " in line]
