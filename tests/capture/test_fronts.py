"""What stands before the wrappers where ``hot.c`` was compiled: the same rows, results and errors as without it."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import random
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slowtrain.capture.core import fast_path, span_rows
from slowtrain.capture.core.line_tracer import LineClock
from slowtrain.capture.core.patching import restore_originals
from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.core.tensor_readbacks import TensorPatches
from slowtrain.capture.core.thread_state import KERAS_CALL, FunctionSite, Progress, ReadbackSite, new_thread_state
from slowtrain.capture.keras import callback_patches
from slowtrain.capture.keras.loop_patches import KerasPatches
from slowtrain.capture.tensorflow.dataset_patches import DatasetPatches
from slowtrain.capture.tensorflow.function_patches import TensorFlowPatches

from .kept import spans

compiled = pytest.mark.skipif(span_rows.hot is None, reason="hot.c was not compiled here")


@pytest.fixture(autouse=True)
def _undone() -> Iterator[None]:
    yield
    restore_originals()


def plain(*_args: Any, **_names: Any) -> int:
    return 1


class World:
    """A training loop's parts, recorded: two functions, an iterator, a Keras step, a callback."""

    def __init__(self, folder: Path) -> None:
        class Function:
            def __init__(self, python_function: Callable[..., Any]) -> None:
                self.python_function = python_function

            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                return self.python_function(*args, **kwargs)

        class OwnedIterator:
            _slowtrain = 7
            left = 0

            def __next__(self) -> int:
                self.left -= 1
                if self.left == 0:
                    raise StopIteration
                return self.left

        class Tensor:
            value = 7

            def _numpy(self) -> int:
                return self.value

            def numpy(self) -> int:
                return self._numpy()

            def __float__(self) -> float:
                return float(self._numpy())

        class Own:
            tensor: Any = Tensor()

            def on_train_batch_end(self, batch: Any, logs: Any = None) -> Any:
                return (batch, logs, float(self.tensor)) if batch != 3 else 1 // 0

        class Heir(Own):
            pass

        self.recorder = recorder = Recorder(folder)
        self.state, self.progress = new_thread_state(), Progress()
        TensorPatches(recorder, self.state)._patch_readback(SimpleNamespace(_EagerTensorBase=Tensor))
        datasets = DatasetPatches(recorder, self.state, LineClock(recorder))
        TensorFlowPatches(recorder, self.state, self.progress)._patch_function(SimpleNamespace(Function=Function))
        datasets._patch_iterator(SimpleNamespace(OwnedIterator=OwnedIterator))
        callback_patches.CallbackPatches(recorder, datasets, self.progress)._patch_class(Own)
        self.functions = [Function(lambda *a, **k: (a, k)), Function(self._traced), Function(self._failing)]
        self.iterator = OwnedIterator()
        self.hooks = [Own(), Heir()]
        self.tensor: Any = Tensor()
        model = SimpleNamespace(train_function=lambda *a: [f(*a) for f in self.functions[:2]] + [self.tensor.numpy()])
        KerasPatches(recorder, self.state, self.progress)._step_function("train", False, lambda self: None)(model)
        self.step = model.train_function
        recorder.rows.take()

    def _traced(self, *args: Any, **_: Any) -> Any:
        if args and args[0] == 5:  # as `func_graph_from_py_func` notes it
            self.state.me.traces += 1
            self.state.me.last_trace = {"ns": 1, "training": True}
        return args

    def _failing(self, *args: Any, **names: Any) -> Any:
        if args == (5,):
            raise ArithmeticError(5)
        return args, names

    @property
    def spans(self) -> list[Any]:
        return list(spans(self.recorder))

    def told(self) -> list[Any]:
        """The rows without their times, names in words, and all that the wrappers changed."""
        words = {number: (lane, name, str(d.get("site"))) for number, lane, name, d in self.recorder._new_names}
        kept = [
            (words.get(n), end >= start > 0, thread, value) for n, start, end, thread, value in spans(self.recorder)
        ]
        me = self.state.main
        flags = [getattr(me, f) for f in ("busy", "loops", "steps", "traces", "name")]
        return [kept, flags, self.progress.steps, self.progress.kind, [e[2:4] for e in self.recorder._events]]


def use(world: World, seed: int) -> list[Any]:
    """Some thousand calls of all sorts, by lot; what they returned or raised."""
    draw, seen = random.Random(seed), list[Any]()
    function, iterator, step, hooks = world.functions, world.iterator, world.step, world.hooks

    def beside(value: Any) -> None:
        other = threading.Thread(target=lambda: seen.append(function[0](value)))
        other.start()
        other.join()

    def whichever(value: Any) -> Any:
        return draw.choice(function)(value)

    def setting(name: str, value: Any) -> None:
        setattr(world.progress, name, value)

    def keras() -> Any:
        world.state.main.loops += 1
        try:
            return reading()
        finally:
            world.state.main.loops -= 1

    def reading() -> Any:
        return world.tensor.numpy()  # of one line, which Keras's own calls come by as well

    choices: list[tuple[int, Callable[[Any], Any]]] = [
        (1, lambda _: setting("wanted", draw.random() < 0.3)),
        (1, lambda _: setting("boundary", draw.choice([None, None, seen.append]))),
        (1, lambda value: function[1](value, key=value)),
        (1, function[2]),
        (1, lambda value: draw.choice(hooks).on_train_batch_end(value, logs={"loss": 1})),
        (1, beside),
        (1, lambda _: float(world.tensor)),
        (1, lambda _: keras()),
        (1, lambda _: world.tensor._numpy()),
        (2, lambda _: reading()),
        (2, step),
        (2, lambda value: draw.choice(hooks).on_train_batch_end(value)),
        (3, lambda _: next(iterator)),
        (3, whichever),
    ]
    calls = draw.choices([call for _, call in choices], [weight for weight, _ in choices], k=2000)
    for call in calls:
        try:
            seen.append(call(draw.choice([1, 1, 1, 2, 3, 5, "text"])))
        except (ArithmeticError, StopIteration) as error:
            seen.append((type(error), str(error), error.__traceback__ is not None))
    return seen


@compiled
@pytest.mark.parametrize("seed", range(6))
def test_both_ways_record_and_answer_alike(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for module in (span_rows.hot, None):
        monkeypatch.setattr(span_rows, "hot", module)
        world = World(tmp_path)
        seen = use(world, seed)
        assert isinstance(world.recorder.rows, span_rows.PlainRows) is (module is None)
        assert not world.recorder.faults
        kept, *others = world.told()
        main = world.state.main.ident
        found.append([seen, [(name, timed, thread == main, value) for name, timed, thread, value in kept], others])
    ours, theirs = found
    assert ours[0] == theirs[0]
    assert len(ours[1]) > 1000
    assert ours[1:] == theirs[1:]


@compiled
def test_a_front_passes_for_its_function(tmp_path: Path) -> None:
    world = World(tmp_path)
    kind = type(world.functions[0])
    front: Any = kind.__call__
    assert type(front).__name__ == "Front"
    assert front.__name__ == "__call__"
    assert front.__wrapped__(world.functions[0], 4) == ((4,), {})
    assert str(inspect.signature(front)) == "(self, *args: 'Any', **kwargs: 'Any') -> 'Any'"
    assert str(inspect.signature(world.functions[0])) == "(*args: 'Any', **kwargs: 'Any') -> 'Any'"
    bound: Any = world.functions[0].__call__
    assert bound.__self__ is world.functions[0]
    assert bound(6) == ((6,), {})
    assert copy.deepcopy(front) is copy.copy(front) is front
    assert "<function" in repr(front)
    assert weakref.ref(front)() is front


@compiled
@pytest.mark.parametrize(("error", "out"), [(SystemExit, True), (KeyboardInterrupt, True), (ValueError, False)])
def test_what_a_signal_raises_meanwhile_is_let_out(error: type[BaseException], out: bool, tmp_path: Path) -> None:
    """A handler of the script's runs in the first Python after a call; what went wrong in ours stays there."""

    def after(*_given: Any) -> int:
        raise error

    def traced(_self: Any) -> int:
        state.main.traces += 1
        return 7

    def ended(_self: Any) -> int:
        raise StopIteration

    def first(_self: Any) -> None:
        state.main.remember(sys._getframe(1), True)

    recorder, state = Recorder(tmp_path), new_thread_state()
    known = FunctionSite(0)
    known.left, known.name, known.at, state.main.left, state.main.name = 9, 1, KERAS_CALL, 9, 2
    owner: Any = type("Owner", (), {"_slowtrain_known": known, "_slowtrain": 7})()
    element = fast_path.fast_path_maker("element", recorder, state.main, after=after)(ended, first)
    assert [_outcome(element, owner) for _ in range(2)] == [None, error if out else StopIteration]
    state.main.loops = 1
    call = fast_path.fast_path_maker("function", recorder, state.main, progress=Progress(), after=after)(traced, plain)
    assert _outcome(call, owner) == (error if out else 7)
    assert state.main.busy == 0
    assert [row[0] for row in spans(recorder)] == [2, 0]


def _outcome(call: Callable[..., Any], given: Any) -> Any:
    try:
        return call(given)
    except BaseException as raised:  # noqa: BLE001  whichever
        return type(raised)


@compiled
def test_what_was_called_last_and_is_gone_is_nobody(tmp_path: Path) -> None:
    world = World(tmp_path)
    kind: Any = type(world.functions[0])
    one = kind(lambda: 1)
    for _ in range(3):
        one()
    del one
    before = len(spans(world.recorder))
    with pytest.raises(AttributeError):
        kind.__call__(None)
    assert len(spans(world.recorder)) == before


@compiled
def test_a_front_is_pickled_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "of_a_user", module := SimpleNamespace())
    state = new_thread_state()
    front = fast_path.fast_path_maker("hook", Recorder(tmp_path), state.main, names={})(plain, plain)
    front.__module__, front.__qualname__ = "of_a_user", "hook"
    module.hook = front
    assert pickle.loads(pickle.dumps(front)) is front


@compiled
def test_what_is_called_can_be_freed(tmp_path: Path) -> None:
    world = World(tmp_path)
    kind = type(world.functions[0])
    for _ in range(200):  # at the addresses of those before them
        one = kind(lambda: 1)
        other = kind(lambda: 2)
        for _ in range(3):
            assert (one(), other()) == (1, 2)
        there = weakref.ref(one)
        del one
        assert there() is None
    numbers = [name for name, *_ in spans(world.recorder)]
    assert len(set(numbers)) == 400, "each function has its own number"


@compiled
def test_a_front_is_freed_with_its_recording(tmp_path: Path) -> None:
    world = World(tmp_path)
    there = weakref.ref(type(world.functions[0]).__call__)
    use(world, 1)
    restore_originals()
    del world
    gc.collect()
    assert there() is None


@compiled
def test_a_front_is_made_of_the_right_parts_only(tmp_path: Path) -> None:
    state, kept = new_thread_state(), span_rows.hot.Rows()
    wrong: dict[str, tuple[Any, ...]] = {
        "function": (plain, plain, None, state.main, None, None, kept),
        "step": (plain, plain, None, state.main, Progress(), {}, kept),
        "readback": (plain, plain, None, state.main, None, (ReadbackSite(), FunctionSite(0)), kept),
        "hook": (plain, plain, None, state.main, None, None, kept),
        "element": (plain, plain, None, None, None, None, kept),
    }
    for kind, given in wrong.items():
        with pytest.raises(TypeError):
            getattr(span_rows.hot, kind)(*given)
    for other, error in ((Progress, AttributeError), (type("Own", (), {"busy": 1}), TypeError)):
        with pytest.raises(error, match="busy"):
            span_rows.hot.bind(other, other, other, other)
    World(tmp_path).functions[0](1)  # as before


@pytest.mark.parametrize("made", [span_rows.PlainRows, *([] if span_rows.hot is None else [span_rows.hot.Rows])])
def test_rows_are_taken_whole_and_once(made: Any) -> None:
    kept, given = made(), [(i, -i, 1 << 62, -(1 << 63), i) for i in range(100_000)]
    for row in given:
        kept.emit(row)
    assert len(kept) == len(given)
    assert list(struct.iter_unpack("5q", kept.take())) == given
    assert (len(kept), kept.take()) == (0, b"")
    for bad in ((1, 2, 3, 4), (1, 2, 3, 4, 1 << 63), (1, 2, 3, 4, "5"), (1, 2, 3, 4, 5, 6)):
        kept.emit(bad)
        with pytest.raises(ValueError, match="5 integers of 64 bits"):
            kept.take()
        kept.emit(given[7])
        assert kept.take() == struct.pack("5q", *given[7])


@pytest.mark.parametrize("made", [span_rows.PlainRows, *([] if span_rows.hot is None else [span_rows.hot.Rows])])
def test_a_collection_is_a_row(made: Any) -> None:
    kept = made()
    watch = kept.collector(11, 12, 13)
    gc.collect()
    begun = time.perf_counter_ns()
    gc.callbacks.append(watch)
    try:
        ring: list[Any] = []
        ring.append(ring)
        del ring
        freed = gc.collect()
        gc.collect(0)
    finally:
        gc.callbacks.remove(watch)
    found = list(struct.iter_unpack("5q", kept.take()))
    assert [(row[0], row[3]) for row in found] == [(13, threading.get_ident()), (11, threading.get_ident())]
    assert begun <= found[0][1] <= found[0][2] <= found[1][1] <= found[1][2] <= time.perf_counter_ns()
    assert found[0][4] >= 1
    assert freed >= 1


def test_rows_come_from_many_threads(tmp_path: Path) -> None:
    recorder, taken, done = Recorder(tmp_path), [], threading.Event()

    def writing(which: int) -> None:
        for i in range(20_000):
            recorder.emit((which, i, i, 0, 0))

    def reading() -> None:
        while not done.is_set():
            taken.append(recorder.rows.take())

    reader = threading.Thread(target=reading)
    writers = [threading.Thread(target=writing, args=(i,)) for i in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    found = list(struct.iter_unpack("5q", b"".join(taken) + recorder.rows.take()))
    for which in range(4):
        assert [i for name, i, *_ in found if name == which] == list(range(20_000))
