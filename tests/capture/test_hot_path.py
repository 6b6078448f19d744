"""What the wrappers do in each step, counted: on a fake of its classes, so that no call is TensorFlow's own."""

from __future__ import annotations

import ast
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from slowtrain.capture.core import span_rows
from slowtrain.capture.core.line_tracer import LineClock
from slowtrain.capture.core.patching import FILE_MARK, restore_originals
from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.core.span_rows import Row
from slowtrain.capture.core.thread_state import CALLS_A_LOOK, FIRST_CALLS, Progress, ThreadState, new_thread_state
from slowtrain.capture.keras import callback_patches
from slowtrain.capture.keras.loop_patches import KerasPatches
from slowtrain.capture.tensorflow.dataset_patches import DatasetPatches
from slowtrain.capture.tensorflow.function_patches import TensorFlowPatches

from . import running
from .kept import spans


class Recorded:
    """A loop over a fake iterator and a fake ``tf.function``, wrapped as TensorFlow's are."""

    def __init__(self, folder: Path) -> None:
        class Function:
            def __init__(self, python_function: Any) -> None:
                self.python_function = python_function

            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                return self.python_function(*args, **kwargs)

        class OwnedIterator:
            _slowtrain = 7

            def __next__(self) -> int:
                return 1

        self.recorder = Recorder(folder)
        self.state: ThreadState = new_thread_state()
        self.progress = Progress()
        module = SimpleNamespace(Function=Function, OwnedIterator=OwnedIterator)
        TensorFlowPatches(self.recorder, self.state, self.progress)._patch_function(module)
        DatasetPatches(self.recorder, self.state, LineClock(self.recorder))._patch_iterator(module)
        self.function: Callable[..., Any] = Function(lambda _: threading.get_ident())
        self.iterator = OwnedIterator()
        self.recorder.rows.take()  # that it was made

    @property
    def spans(self) -> list[Row]:
        return spans(self.recorder)


@pytest.fixture(params=["compiled", "plain"])
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the fronts of ``hot.c`` stand before the wrappers; each test holds for both."""
    if request.param == "plain":
        monkeypatch.setattr(span_rows, "hot", None)
    elif span_rows.hot is None:
        pytest.skip("hot.c was not compiled here")
    return bool(request.param == "compiled")


@pytest.fixture
def recorded(tmp_path: Path, quick: bool) -> Iterator[Recorded]:
    yield Recorded(tmp_path)
    restore_originals()


def step(recorded: Recorded) -> None:
    recorded.function(next(recorded.iterator))


def calls_of_wrappers(work: Callable[[], None]) -> Counter[str]:
    """What the wrappers' own frames call in C, and how often they are entered."""
    found: Counter[str] = Counter()

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        if frame.f_code.co_filename.startswith(FILE_MARK) and event in ("call", "c_call"):
            found[argument.__name__ if event == "c_call" else "entered"] += 1

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def test_a_steady_step_makes_no_call_but_these(recorded: Recorded, quick: bool) -> None:
    for _ in range(2 * FIRST_CALLS):
        step(recorded)
    few = min((calls_of_wrappers(lambda: step(recorded)) for _ in range(3)), key=Counter.total)
    in_python = {"entered": 2, "perf_counter_ns": 4, "get_ident": 2, "_getframe": 2, "append": 2}
    assert few == ({} if quick else in_python)


def test_each_line_that_calls_has_its_own_name(recorded: Recorded) -> None:
    for _ in range(3):
        recorded.function(1)
        recorded.function(2)
    names = [name for name, *_ in recorded.spans]
    assert len(set(names)) == 2
    assert names == names[:2] * 3


def test_a_function_is_another_where_keras_calls_it_and_inside_its_steps(recorded: Recorded) -> None:
    me = recorded.state.me
    for loops, steps in ((0, 0), (1, 0), (2, 1)) * 2:
        me.loops, me.steps = loops, steps
        recorded.function(1)
    names = [name for name, *_ in recorded.spans]
    assert len(set(names)) == 3
    assert names == names[:3] * 2


def test_another_thread_has_its_own_number_and_does_not_disturb_the_main_one(recorded: Recorded) -> None:
    beside = threading.Thread(target=step, args=(recorded,))
    recorded.state.main.busy = 1  # in a call of its own
    beside.start()
    beside.join()
    recorded.state.main.busy = 0
    step(recorded)
    threads = [thread for *_, thread, _ in recorded.spans]
    assert threads == [beside.ident] * 2 + [threading.get_ident()] * 2


def test_flags_are_the_main_threads_wherever_recording_began() -> None:
    made: list[ThreadState] = []
    maker = threading.Thread(target=lambda: made.append(new_thread_state()))
    maker.start()
    maker.join()
    assert made[0].me is made[0].main
    assert made[0].main.ident == threading.main_thread().ident
    assert made[0].main.main


def test_wrappers_stand_aside_soon_after_recording_has_ended(recorded: Recorded) -> None:
    for _ in range(2 * FIRST_CALLS):
        step(recorded)
    recorded.recorder.active = False
    for _ in range(CALLS_A_LOOK):
        step(recorded)
    before = len(recorded.spans)
    step(recorded)
    assert len(recorded.spans) == before


def test_an_iterator_from_before_is_asked_for_its_number_once(recorded: Recorded) -> None:
    del type(recorded.iterator)._slowtrain
    step(recorded)
    assert recorded.iterator.__dict__ == {"_slowtrain": 0}
    assert recorded.spans[0][-1] == 0


@pytest.mark.parametrize(
    ("hook", "usual"),
    [
        (lambda self, batch, logs=None: (batch, logs), True),
        (lambda self, step, logs=None: (step, logs), False),  # may be given by its name
        (lambda self, batch, logs: (batch, logs), False),
        (lambda self, batch, logs=(): (batch, logs), False),
        (lambda self, batch, *logs: (batch, logs), False),
        (lambda self, batch, logs=None, **more: (batch, logs, more), False),
        (lambda self, batch, logs=None, *, more=1: (batch, logs, more), False),
    ],
)
def test_a_hook_gets_what_it_would_get(hook: Any, usual: bool, recorded: Recorded) -> None:
    assert callback_patches._is_batch_hook(hook) is usual
    kind = type("Own", (), {"on_train_batch_end": hook})
    datasets = DatasetPatches(recorded.recorder, recorded.state, LineClock(recorded.recorder))
    callback_patches.CallbackPatches(recorded.recorder, datasets, recorded.progress)._patch_class(kind)
    own = kind()
    assert own.on_train_batch_end(3, None) == hook(own, 3, None)
    assert own.on_train_batch_end(3, {"loss": 1.0}) == hook(own, 3, {"loss": 1.0})
    assert len(recorded.spans) == 2


class Traced:
    """Called as a function, with more to it than that: as a ``tf.function`` is."""

    def __call__(self, batch: int) -> int:
        return batch + 1

    def traces(self) -> int:
        return 3


def plain(batch: int) -> int:
    return batch + 1


def step_of(recorded: Recorded, model: Any) -> Any:
    """The step function that Keras would make, as recorded."""
    patches = KerasPatches(recorded.recorder, recorded.state, recorded.progress)
    patches._step_function("train", False, lambda self: None)(model)
    return model.train_function


@pytest.mark.parametrize("made", [plain, Traced()])
def test_a_step_function_is_timed_and_stays_what_it_is(made: Any, recorded: Recorded, tmp_path: Path) -> None:
    model = SimpleNamespace(train_function=made)
    step_function = step_of(recorded, model)
    assert step_function(1) == step_function(batch=1) == 2
    assert len(recorded.spans) == recorded.progress.steps == 2
    assert step_function.__wrapped__ is made
    assert step_function.traces() == 3 if made is not plain else step_function.__name__ == "plain"
    assert step_of(recorded, model).__wrapped__ is made  # once, however often it is made
    again = Recorded(tmp_path)
    assert step_of(again, model)(1) == 2  # a later recording in this process
    assert (len(again.spans), len(recorded.spans)) == (1, 2)


def test_a_step_inside_a_step_is_none(recorded: Recorded) -> None:
    inside = step_of(recorded, SimpleNamespace(train_function=plain))
    outside = step_of(recorded, SimpleNamespace(train_function=lambda batch: inside(batch) + 1))
    assert outside(1) == 3
    assert len(recorded.spans) == recorded.progress.steps == 1


COUNTED = """
import collections, sys
import numpy as np, tensorflow as tf, keras
calls, steps = collections.Counter(), [0]
def counted(frame, event, arg):
    if event == "call" and frame.f_code.co_filename.startswith({mark!r}): calls[frame.f_code.co_name] += 1
def on_step():
    steps[0] += 1
    if steps[0] == 200: sys.setprofile(counted)  # before, all that is new is looked at
    if steps[0] == 500: sys.setprofile(None)
x, y = np.random.rand(800, 8).astype("float32"), np.random.rand(800, 1).astype("float32")
model = keras.Sequential([keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD()
model.compile(optimizer, "mse")
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(1)
"""
FIT = """
class Count(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None): on_step()
    def on_train_batch_end(self, batch, logs=None): self.last = float(logs["loss"])
model.fit(ds, verbose=0, callbacks=[Count()])
"""
LOOP = """
@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss
for a, b in ds:
    on_step()
    loss = step(a, b)
    last = float(loss), loss.numpy()
"""


@pytest.mark.tensorflow
@pytest.mark.skipif(span_rows.hot is None, reason="hot.c was not compiled")
@pytest.mark.parametrize("loop", [FIT, LOOP])
def test_no_wrapper_runs_in_each_step_of_a_real_loop(loop: str, tmp_path: Path) -> None:
    """What a bench measures is what somebody thought of; here it is asked of all that is wrapped."""
    script = running.Script(COUNTED.format(mark=FILE_MARK) + loop + "print('CALLS', dict(calls))\n")
    done = running.run_series(tmp_path, {"loop": script})["loop"]
    said = next(row for row in done.out.splitlines() if row.startswith("CALLS"))
    calls = ast.literal_eval(said.partition(" ")[2])
    calls.pop("<lambda>", None)  # that hands on: train_function of Keras 2 is an object, for which wrapt stands
    assert calls, "wrappers look at one call in many"
    assert max(calls.values()) < 0.2 * 300, calls
