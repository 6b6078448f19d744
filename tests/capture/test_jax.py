"""Keras on the JAX backend: what a step waits for, what its device does, and that nothing of the script's changes."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from slowtrain.capture.core import patching
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress, new_thread_state, scalar_value
from slowtrain.capture.growth import growth_watch
from slowtrain.capture.inspection import framework_builds
from slowtrain.capture.jax import keras_backend
from slowtrain.capture.windows import framework_profilers
from slowtrain.capture.windows.deep_windows import DeepWindows
from slowtrain.model import Category, Signal

from . import running
from .kept import spans

ITEMS = """
import random, numpy as np, keras

class Photos(keras.utils.PyDataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        picture = np.full((16, 32, 32, 3), 0.5, "float32")
        for _ in range(100):
            picture = np.clip(picture * 1.01, 0, 1)  # the hot line
        return picture, np.zeros(16, "float32")

random.seed(1); np.random.seed(1)
layers = [keras.layers.Input((32, 32, 3)), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)]
model = keras.Sequential(layers)
model.compile("sgd", "mse")
log = model.fit(Photos(), epochs=5, verbose=0)
print([repr(v) for v in log.history["loss"]])
"""
ARRAYS = """
import random, numpy as np, keras
random.seed(1); np.random.seed(1)
x = np.random.default_rng(0).random((640, 512), dtype="float32")
model = keras.Sequential([keras.layers.Input((512,)), *(keras.layers.Dense(768) for _ in range(3))])
model.compile("sgd", "mse")
log = model.fit(x, np.zeros((640, 768)), batch_size=40, epochs=4, verbose=0)
"""


def test_a_dataset_in_python_is_what_its_steps_wait_for(runs: dict[str, running.Done]) -> None:
    done = runs["items"]
    trace = running.loaded(done)
    assert done.out == runs["plain"].out, "the same losses, to the last digit"
    assert trace.share(Category.INPUT) > 0.5
    (producer,) = trace.producers
    assert producer.lines[0].place.line == running.line(ITEMS, "the hot line")
    assert set(trace.steps.size) == {16}, "as its first batch tells"
    assert {n.text for n in trace.names if n.lane == "function"} >= {"train_step"}
    (traced,) = trace.events_of("trace")
    assert (traced.name, traced.data["nth"], traced.data["training"]) == ("train_step", 1, True)
    assert trace.fact("devices")[0]["kind"] == "CPU"
    assert not trace.on_accelerator
    assert Signal.KERNELS in trace.signals, "JAX's own profiler was at work"
    assert list((done.folder / "window-1").glob("plugins/profile/*/*.xplane.pb"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, running.Done]:
    for module in ("jax", "keras"):
        if importlib.util.find_spec(module) is None:  # not imported: Keras would look for TensorFlow
            pytest.skip(f"{module} is not installed here")
    scripts = {
        "plain": running.Script(ITEMS, recorded=False),
        "items": running.Script(ITEMS, windows=True),
        "arrays": running.Script(ARRAYS),
        "profiled": running.Script(PROFILED, windows=True),
    }
    return running.run_series(tmp_path_factory.mktemp("jax"), scripts, KERAS_BACKEND="jax")


def test_the_device_is_waited_for_at_the_end_of_an_epoch_and_its_steps_are_the_epochs(
    runs: dict[str, running.Done],
) -> None:
    trace = running.loaded(runs["arrays"])
    waits = trace.lane("sync")
    assert len(waits) == 4, "an epoch each"
    epochs = [e for e in trace.events_of("epoch") if e.name == "end"]
    last = trace.steps.end_ms[trace.steps.block == 3][-1]
    assert last <= epochs[-1].start_ms + 1.0
    taken = last - trace.steps.start_ms[trace.steps.block == 3][0]
    assert trace.steps.ms[trace.steps.block == 3].sum() == pytest.approx(taken), "they leave nothing out"
    assert set(trace.steps.size) == {40}
    assert not runs["arrays"].err


PROFILED = ITEMS.replace("verbose=0)", "verbose=0, callbacks=[Own()])").replace(
    "random.seed(1); np.random.seed(1)",
    """
import jax
class Own(keras.callbacks.Callback):
    batches = 0

    def on_train_batch_begin(self, batch, logs=None):
        self.batches += 1
        if self.batches in (100, 120):  # some time after ours has begun, and while it is at work or has just ended
            jax.profiler.start_trace(f"own/{self.batches}")
        if self.batches in (110, 130):
            jax.profiler.stop_trace()

random.seed(1); np.random.seed(1)""",
)


def test_the_users_own_profiler_goes_first(runs: dict[str, running.Done]) -> None:
    trace = running.loaded(runs["profiled"])
    assert not runs["profiled"].err, "theirs would raise, were ours at work"
    assert len(list(runs["profiled"].folder.parents[1].glob("own/**/*.xplane.pb"))) == 2
    assert trace.fact("keras", "backend") == "jax"


# -- without JAX


class Array:
    """As far as an array of JAX's is looked at."""

    def __init__(self, deleted: bool = False, ready: bool = True) -> None:
        self.waited = 0
        self._deleted = deleted
        self._ready = ready

    def is_deleted(self) -> bool:
        return self._deleted

    def is_ready(self) -> bool:
        return self._ready

    def block_until_ready(self) -> None:
        self.waited += 1

    def __float__(self) -> float:
        return 0.5


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)


def patches(recorder: Recorder) -> keras_backend.JaxPatches:
    return keras_backend.JaxPatches(recorder, new_thread_state(), Progress())


def lanes(recorder: Recorder) -> list[str]:
    lane = {number: lane for number, lane, _, _ in recorder._new_names}
    return [lane[span[0]] for span in spans(recorder)]


def fake_trainer(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType(keras_backend.TRAINER_MODULE)

    class JAXEpochIterator:
        def _get_iterator(self) -> Any:
            yield from ("one", "two")

    module.JAXEpochIterator = JAXEpochIterator  # type: ignore[attr-defined]
    module._distribute_data = lambda data: [data]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, keras_backend.TRAINER_MODULE, module)
    return module


def test_each_batch_is_a_wait_and_comes_as_it_would(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    module, mine = fake_trainer(monkeypatch), patches(recorder)
    mine._patch_trainer(module)
    given = module.JAXEpochIterator()._get_iterator()
    assert list(given) == ["one", "two"]
    assert module._distribute_data("x") == ["x"]
    assert lanes(recorder) == ["next", "next", "next", "feed"], "the end is waited for, too"
    assert mine.state.me.fed >= spans(recorder)[-2][1]
    patching.restore_originals()
    assert not isinstance(module.JAXEpochIterator()._get_iterator(), keras_backend.TimedBatches)


def test_once_recording_has_ended_nothing_is_noted(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    module, mine = fake_trainer(monkeypatch), patches(recorder)
    mine._patch_trainer(module)
    recorder.active = False
    assert list(module.JAXEpochIterator()._get_iterator()) == ["one", "two"]
    assert not spans(recorder)
    patching.restore_originals()


def test_of_a_state_one_array_is_waited_for_and_none_that_was_given_away(recorder: Recorder) -> None:
    mine, left, there = patches(recorder), Array(deleted=True), Array()
    model = types.SimpleNamespace(_jax_state={"trainable_variables": [left, there], "metrics_variables": None})
    mine.settle(model)
    assert (left.waited, there.waited) == (0, 1)
    assert lanes(recorder) == ["sync"]
    mine.settle(types.SimpleNamespace(_jax_state=None))
    mine.settle(object())
    assert lanes(recorder) == ["sync"]


def test_what_jax_says_of_compiling_becomes_a_trace_inside_steps_only(recorder: Recorder) -> None:
    mine = patches(recorder)
    for steps in (0, 1):
        mine.state.me.steps = steps
        for what in ("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration", "backend_compile_duration"):
            name = "train_step" if what.startswith("jaxpr_trace") else "jit(train_step)"
            mine._heard(keras_backend.COMPILE_EVENTS + what, 0.01, fun_name=name)
        mine._heard(keras_backend.COMPILE_EVENTS + keras_backend.COMPILED_EVENT, 0.01, fun_name="jit(broadcast_in_dim)")
    mine._heard("/jax/other", 1.0)
    assert lanes(recorder) == ["trace"] * 8
    ((start, end, lane, name, data),) = recorder._events
    assert (lane, name, data["nth"], data["training"]) == ("trace", "train_step", 1, True)
    assert end - start >= 10_000_000


def test_a_scalar_is_not_waited_for(recorder: Recorder) -> None:
    assert scalar_value(Array()) == 0.5
    assert scalar_value(Array(ready=False)) is None
    assert scalar_value(Array(ready=False), wait=True) == 0.5


def test_a_property_is_put_back() -> None:
    class Owner:
        @property
        def value(self) -> int:
            return 1

    before = Owner.__dict__["value"]
    patching.replace_property(Owner, "value", lambda original: lambda self: original(self) + 1)
    patching.replace_property(Owner, "missing", lambda original: original)
    assert Owner().value == 2
    patching.restore_originals()
    assert Owner.__dict__["value"] is before


# -- its devices


class Device:
    platform, device_kind = "gpu", "NVIDIA H100 80GB HBM3"

    def __str__(self) -> str:
        return "cuda:0"

    def memory_stats(self) -> dict[str, int]:
        return {"bytes_in_use": 12_000}


def fake_jax(monkeypatch: pytest.MonkeyPatch, opened: bool) -> None:
    bridge = types.SimpleNamespace(_backends={"cuda": object()} if opened else {})
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(local_devices=lambda: [Device()]))
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)
    monkeypatch.setitem(sys.modules, keras_backend.TRAINER_MODULE, types.ModuleType(keras_backend.TRAINER_MODULE))


def test_devices_are_asked_for_only_where_the_script_has_opened_them(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_jax(monkeypatch, opened=False)
    assert keras_backend.active_jax() is None
    fake_jax(monkeypatch, opened=True)
    assert keras_backend.jax_devices() == [{"kind": "GPU", "name": "cuda:0", "model": "NVIDIA H100 80GB HBM3"}]
    monkeypatch.setitem(framework_builds.BUILD_READERS, "jax", lambda: {"version": "0.10"})
    assert keras_backend.jax_build() == {"version": "0.10"}


def test_a_devices_memory(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_jax(monkeypatch, opened=True)
    growth_watch.GrowthWatch(recorder, Progress())._sample()
    assert [span[4] for span in spans(recorder)][-1] == 12_000
    assert ("memory", "GPU:0") in {(lane, name) for _, lane, name, _ in recorder._new_names}


# -- its profiler


class Options:
    host_tracer_level = python_tracer_level = 7
    enable_hlo_proto = False


class Session:
    def __init__(self, options: Options) -> None:
        self.options = options
        made.append(self)

    def stop(self) -> bytes:
        return b"space"


made: list[Session] = []


@pytest.mark.parametrize("older", [False, True])
def test_a_window_of_jaxs_profiler_is_one_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older: bool
) -> None:
    fake_jax(monkeypatch, opened=True)
    native = types.SimpleNamespace(ProfileOptions=Options, ProfilerSession=Session)
    state = types.SimpleNamespace(profile_session=None)
    where = {"xla_client": types.SimpleNamespace(profiler=native)} if older else {"_profiler": native}
    monkeypatch.setitem(
        sys.modules, framework_profilers.JAX_PROFILER, types.SimpleNamespace(_profile_state=state, **where)
    )
    end = framework_profilers.begin_profile(tmp_path / "window-1")
    assert end is not None
    options = made[-1].options
    assert (options.host_tracer_level, options.python_tracer_level, options.enable_hlo_proto) == (2, 0, True)
    assert not hasattr(options, "device_tracer_level"), "what a version does not know is left out"
    end()
    (file,) = (tmp_path / "window-1").glob("plugins/profile/*/*")
    assert file.name.endswith(".xplane.pb")
    assert file.read_bytes() == b"space"
    state.profile_session = object()
    assert framework_profilers.begin_profile(tmp_path / "window-2") is None, "the user's own goes first"


def field(name: bytes, size: int) -> bytes:
    """A plane as field 1 of an XSpace: its length in seven bits a byte, its id, its name, and more."""
    body = b"\x08\x01\x12" + bytes([len(name)]) + name + b"\x1a" * size
    length, size = b"", len(body)
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return b"\x0a" + length + bytes([size]) + body


def test_of_a_profile_that_is_too_large_only_the_programs_are_left_out() -> None:
    host, programs, device = field(b"/host:CPU", 10), field(b"/host:metadata", 70_000), field(b"/device:GPU:0", 300)
    assert framework_profilers.without_programs(host + programs + device) == host + device
    assert framework_profilers.without_programs(b"") == b""


def test_ours_ends_before_the_users_own_begins(recorder: Recorder) -> None:
    order: list[str] = []
    windows = DeepWindows(recorder, Progress(), enabled=False)
    windows._sessions.append(lambda: order.append("ours ended"))
    module = types.SimpleNamespace(start_trace=lambda folder: order.append(f"theirs in {folder}"))
    windows._patch_profiler("start_trace", module)
    module.start_trace("own")
    assert order == ["ours ended", "theirs in own"]
    assert [lane for _, _, lane, _, _ in recorder._events] == ["window"]
    patching.restore_originals()


def test_a_windows_end_waits_for_the_device(recorder: Recorder) -> None:
    order: list[str] = []
    windows = DeepWindows(recorder, Progress(), enabled=False, settle=lambda: order.append("settled"))
    windows._sessions.append(lambda: order.append("ended"))
    windows._until, windows._start_ns = 5, now()
    windows._boundary(4)
    assert order == []
    windows._boundary(5)
    assert order == ["settled", "ended"]
    ((start, end, _, _, data),) = recorder._events
    assert start <= data["last_step_ns"] <= end
