"""What the recorder sees grow: found by the user's own names, without calling anything of theirs, within its budget."""

from __future__ import annotations

import gc
import importlib.util
import itertools
import math
import re
import sys
import time
import weakref
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slowtrain.capture.core.recorder import now
from slowtrain.capture.growth import growth_watch, named_containers
from slowtrain.capture.inspection import container_contents
from slowtrain.capture.tensorflow import session_patches
from slowtrain.causes.drift.growing_step import GrowingStep
from slowtrain.causes.memory.host_leak import HostLeak
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.signals import memory_growth

from . import running

MODULE = """
import collections

called = []

class Loud(type):
    def __getattribute__(cls, name):
        called.append(name)
        return super().__getattribute__(name)

    def __hash__(cls):
        called.append("hash")
        return 1

class Touchy(metaclass=Loud):
    def __init__(self):
        object.__setattr__(self, "inner", list(range(50)))

    def __getattribute__(self, name):
        called.append(name)
        return object.__getattribute__(self, name)

    __len__ = __iter__ = __repr__ = __eq__ = __hash__ = __bool__ = lambda self, *a: called.append("special")
    __class__ = property(lambda self: called.append("class") or list)

class Pretends:
    __dict__ = property(lambda self: called.append("dict") or {"seen": list(range(50))})

class Longer(list):
    def __len__(self):
        called.append("len")
        return 10 ** 9

    def __getitem__(self, i):
        called.append("item")

class Agent:
    shared = list(range(40))

    def __init__(self):
        self.memory = collections.deque(range(60), maxlen=1000)
        self.parts = {"loss": list(range(70))}

def outer():
    seen = list(range(80))
    def step():
        seen.append(1)
    return step

class Quiet:
    pass

history = list(range(90))
agent = Agent()
step = outer()
touchy, pretends, longer = Touchy(), Pretends(), Longer(range(30))
strange = [Touchy(), Pretends(), {"a": Touchy()}]
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    path = tmp_path / "of_the_user.py"
    # The other modules of the tests are the user's as well, and a walk is bounded.
    monkeypatch.setattr(named_containers, "_user_modules", lambda: {"of_the_user": str(path)})
    path.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("of_the_user", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["of_the_user"] = made
    spec.loader.exec_module(made)
    made.called.clear()
    yield made
    del sys.modules["of_the_user"]


def _lengths(*, local: bool = False) -> dict[str, int]:
    return {
        f.path.split("|", 1)[1]: f.length
        for f in named_containers.walk_containers(local=local)
        if "of_the_user" in f.path
    }


def test_containers_are_found_by_the_names_that_lead_to_them(module: Any) -> None:
    found = _lengths()
    assert found["|history"] == 90
    assert found["Agent|agent.memory"] == 60
    assert found["Agent|agent.parts['loss']"] == 70
    assert found["Agent|Agent.shared"] == 40
    assert found["step|seen"] == 80


def test_nothing_of_the_users_is_called(module: Any) -> None:
    found = list(named_containers.walk_containers(local=True))
    told = [f.about() for f in found if "of_the_user" in f.path]
    assert module.called == []
    lengths = {f.path.split("|")[-1]: f.length for f in found}
    assert lengths["longer"] == 30, "the length of a list of their own class is that of the list in it"
    assert "pretends.seen" not in lengths
    assert len(told) >= 5


def test_nothing_lives_longer_for_having_been_seen(module: Any) -> None:
    module.history.append(module.Quiet())
    gone = weakref.ref(module.history[-1])
    gc.disable()
    try:
        for found in named_containers.walk_containers(local=True):
            found.about()
        del found
        module.history.pop()
        assert gone() is None
    finally:
        gc.enable()


def test_variables_of_running_functions_are_seen_when_they_are_asked_for(module: Any) -> None:
    kept_here = list(range(33))
    mine = [f for f in named_containers.walk_containers(local=True) if f.path.endswith("|kept_here")]
    assert [f.length for f in mine] == [33]
    if sys.version_info < (3, 13):
        assert not any(f.path.endswith("|kept_here") for f in named_containers.walk_containers(local=False))
    assert len(kept_here) == 33


def test_callbacks_are_seen_as_long_as_they_live(module: Any) -> None:
    callback = module.Agent()
    named_containers.watch_attributes(callback)
    assert _lengths()["Agent|Agent.memory"] == 60
    del callback
    gc.collect()
    assert "Agent|Agent.memory" not in _lengths()


def test_a_walk_ends_and_the_next_one_goes_on_from_there(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module.wide = [SimpleNamespace() for _ in range(20)]
    for i in range(3000):
        setattr(module, f"list_{i}", [1, 2, 3, 4])
    monkeypatch.setattr(named_containers, "MAX_WALK_NODES", 100)
    assert len(list(named_containers.walk_containers(local=False))) <= 100


def test_what_is_held_is_told_with_its_size(module: Any) -> None:
    numpy = pytest.importorskip("numpy")
    module.agent.memory.append((numpy.zeros(1000), 1))
    module.rows = numpy.zeros((50, 1000))
    module.views = [module.rows[i] for i in range(50)]
    told = {
        f.path.split("|")[-1]: f.about()
        for f in named_containers.walk_containers(local=False)
        if "of_the_user" in f.path
    }
    assert told["agent.memory"]["element"] == "tuple of ndarray, int"
    assert 8000 <= told["agent.memory"]["element_bytes"] < 8200
    assert told["agent.memory"]["limit"] == 1000
    assert told["history"]["limit"] is None


def test_arrays_are_found_by_their_bytes(module: Any) -> None:
    numpy = pytest.importorskip("numpy")
    module.agent.seen = numpy.zeros((1000, 4))
    module.table = {"rows": numpy.zeros(4000, "uint8"), "more": numpy.zeros(5000, "uint8")}
    named = [
        f for f in named_containers.walk_containers(local=False) if "of_the_user" in f.path and f.about().get("array")
    ]
    assert {f.path.split("|")[-1]: f.length for f in named} == {"agent.seen": 32_000, "table['more']": 5000}
    assert [f.about()["kind"] for f in named] == ["ndarray"] * 2


def test_tables_are_found_by_their_bytes_where_pandas_has_them() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed here")
    table = pandas.DataFrame({"a": [1.0] * 1000, "b": [2] * 1000})
    assert container_contents.array_sizes_by_type()[id(pandas.DataFrame)](table) == 16_000
    assert container_contents.array_sizes_by_type()[id(pandas.Series)](table["a"]) == 8000


class _Library:
    """Objects that say they are Keras's or TensorFlow's, as these have them."""

    @staticmethod
    def kind(name: str, module: str) -> type:
        return type(name, (), {"__module__": module})

    @classmethod
    def made(cls, name: str, module: str, **fields: Any) -> Any:
        one = cls.kind(name, module)()
        one.__dict__.update(fields)
        return one

    @classmethod
    def variable(cls, *shape: int) -> Any:
        sized = SimpleNamespace(num_elements=lambda: math.prod(shape), extents=shape)
        tensor = {"shape": sized, "dtype": SimpleNamespace(size=4)}
        value = cls.made("ResourceVariable", "tensorflow.python.ops.resource_variable_ops", **tensor)
        return cls.made("Variable", "keras.src.backend.tensorflow.core", _value=value)

    @classmethod
    def model(cls, *layers: Any) -> Any:
        weights = [w for layer in layers for w in layer._trainable_variables]
        slots = [cls.variable(*w._value.shape.extents) for w in weights]
        optimizer = cls.made("Adam", "keras.src.optimizers.adam", _variables=slots, _trainable_variables=weights)
        named = {"_layers": list(layers), "_trainable_variables": [], "optimizer": optimizer}
        return cls.made("Sequential", "keras.src.models.sequential", **named)

    @classmethod
    def layer(cls, *shape: int) -> Any:
        weights = [cls.variable(*shape)]
        return cls.made("Dense", "keras.src.layers.core.dense", _layers=[], _trainable_variables=weights)


def test_a_model_keeps_its_weights_and_what_its_optimizer_has() -> None:
    models = [_Library.model(_Library.layer(1000, 10)) for _ in range(2)]
    told = container_contents.describe_contents(models)
    assert (told["element"], told["element_bytes"], told["at_least"]) == ("Sequential", 2 * 40_000, True)
    histories = [_Library.made("History", "keras.src.callbacks.history", _model=one) for one in models]
    assert container_contents.describe_contents(histories)["element_bytes"] == 2 * 40_000
    rows = [{"score": 0.5, "model": one} for one in models]
    assert 80_000 < container_contents.describe_contents(rows)["element_bytes"] < 81_000
    assert container_contents.describe_contents(rows)["at_least"]


def test_what_the_element_before_has_as_well_is_kept_once() -> None:
    """Heads on one base, and the same model again and again."""
    base = _Library.layer(1000, 1000)
    heads = [_Library.model(base, _Library.layer(1000, 1)) for _ in range(2)]
    assert (
        container_contents.describe_contents(heads)["element_bytes"] == 2 * 4000 + 4_000_000
    )  # the optimizer's of the base are its own
    told = container_contents.describe_contents([heads[0], heads[0]])
    assert (told["element_bytes"], told["at_least"]) == (container_contents.POINTER_BYTES, False)


def test_a_list_that_tensorflow_wrapped_is_looked_into() -> None:
    fields = {"__module__": "tensorflow.python.trackable.data_structures"}
    wrapped = type("ListWrapper", (list,), fields)()
    wrapped._storage = [1.5] * 40
    assert named_containers._container_length(wrapped) == 40
    assert (
        container_contents.describe_contents(wrapped)["kind"],
        container_contents.describe_contents(wrapped)["element"],
    ) == ("list", "float")
    optimizer = _Library.made("Adam", "keras.src.optimizers.adam", _variables=wrapped)
    wrapped._storage = [_Library.variable(500)]
    assert container_contents.describe_contents([optimizer])["element_bytes"] == 2000


class _Recorder:
    """What a watch asks of a recorder."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, int]] = []
        self.named: list[str] = []
        self.faults: list[BaseException] = []

    def name(self, lane: str, text: str, key: Any = None, **_: Any) -> int:
        if f"{lane} {text}" not in self.named:
            self.named.append(f"{lane} {text}")
        return self.named.index(f"{lane} {text}") + 1

    def span(self, name: int, start: int, end: int, value: int = 0) -> None:
        self.spans.append((self.named[name - 1], value))

    def fact(self, key: str, value: Any) -> None:
        """Nothing is kept."""

    def guard(self, where: str, call: Any, *args: Any) -> Any:
        return call(*args)


def _watched(seconds: float, module: Any) -> tuple[growth_watch.GrowthWatch, _Recorder, int]:
    recorder = _Recorder()
    watch = growth_watch.GrowthWatch(recorder, SimpleNamespace(steps=1))  # type: ignore[arg-type]
    begun = now()
    while now() - begun < seconds * 1e9:
        module.history.extend([0] * 5)
        watch()
        time.sleep(0.002)
    return watch, recorder, now() - begun


def test_a_growing_list_is_written_down_with_what_came_before(module: Any) -> None:
    _, recorder, _ = _watched(0.4, module)
    mine = [value for name, value in recorder.spans if name.endswith("|history")]
    assert len(mine) > growth_watch.MIN_GROWN_WALKS
    assert mine == sorted(mine)
    assert mine[0] < 200, "lengths seen before it was known to grow are written too"
    assert not any(name.endswith("agent.memory") for name, _ in recorder.spans), "it does not grow"
    assert any(name == "memory anonymous" and value > 1e6 for name, value in recorder.spans)


def _noted(lengths: list[int], **about: Any) -> list[tuple[str, int]]:
    recorder = _Recorder()
    watch = growth_watch.GrowthWatch(recorder, SimpleNamespace(steps=1))  # type: ignore[arg-type]
    for at, length in enumerate(lengths):
        watch._note(named_containers.NamedContainer("train.py||kept", length, lambda: about), at + 1)
    return recorder.spans


@pytest.mark.parametrize(
    ("about", "named"),
    [
        ({"element_bytes": 4 << 20}, True),
        ({"element_bytes": 800, "at_least": True}, True),  # models: who knows what their graphs take
        ({"element_bytes": 800, "at_least": False}, False),
        ({"element_bytes": 0}, False),
    ],
)
def test_few_elements_count_where_they_are_large(about: dict[str, Any], named: bool) -> None:
    spans = _noted(list(range(2, 9)), **about)
    assert [value for _, value in spans] == (list(range(2, 9)) if named else [])
    assert len(_noted(list(range(2, 40)), **about)) > growth_watch.MIN_GROWN_WALKS, "many count in any case"


def test_walks_keep_to_their_share_of_the_time(module: Any) -> None:
    """The budget, and one walk that may go beyond it."""
    for i in range(2000):
        setattr(module, f"list_{i}", [1, 2, 3, 4])
    watch, _, wall_ns = _watched(1.5, module)
    assert watch.walks >= 1
    each_ns = watch.spent_ns / watch.walks
    assert watch.spent_ns <= growth_watch.FIRST_WALKS_NS + growth_watch.MAX_WALK_SHARE * wall_ns + 3 * each_ns
    assert growth_watch.MAX_WALK_SHARE <= 0.002


def test_graphs_are_counted_also_when_walks_have_used_up_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = itertools.count(100, 20)
    monkeypatch.setattr(session_patches, "graph_op_counts", lambda: [("default graph", object(), next(ops))])
    monkeypatch.setattr(session_patches, "describe_growing_graph", lambda graph: {"kind": "graph", "at_least": True})
    recorder = _Recorder()
    watch = growth_watch.GrowthWatch(recorder, SimpleNamespace(steps=1))  # type: ignore[arg-type]
    watch.spent_ns = 10**12
    for _ in range(40):
        watch()
        time.sleep(0.002)
    assert watch.walks == 0
    counted = [value for name, value in recorder.spans if "graph" in name]
    assert len(counted) > growth_watch.MIN_GROWN_WALKS
    assert counted == sorted(counted)


def test_nothing_is_looked_at_before_the_first_step(module: Any) -> None:
    recorder = _Recorder()
    watch = growth_watch.GrowthWatch(recorder, SimpleNamespace(steps=0))  # type: ignore[arg-type]
    for _ in range(20):
        watch()
    assert (recorder.spans, watch.walks) == ([], 0)


LEAK_BYTES = 400_000
LEAKY = f"""
import time
import numpy as np
import tensorflow as tf

@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w) ** 2)
    opt.assign_sub(0.01 * tape.gradient(loss, w))
    return loss

w = tf.Variable(tf.random.normal((8, 8)))
opt = w
kept = []

def main():
    x = tf.random.normal((16, 8))
    for step in range(1500):
        train_step(x)
        time.sleep(0.002)
        kept.append(np.ones({LEAK_BYTES} // 8))

main()
"""


@pytest.mark.tensorflow
def test_a_known_leak_is_measured_and_its_line_named(tmp_path: Path) -> None:
    script = running.write(tmp_path, LEAKY)
    done = running.recorded(tmp_path / "run", script)
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    found = memory_growth.memory_slope(trace, *memory_growth.process_memory(trace))
    assert found is not None
    # NumPy's own figure, a page's rounding and the list's own growth.
    assert found.low <= LEAK_BYTES * 1.02
    assert found.high >= LEAK_BYTES * 0.98
    assert found.high - found.low <= 0.5 * LEAK_BYTES
    finding = HostLeak().find(trace)
    assert finding is not None
    evidence = HostLeak().evidence(trace, finding)
    line = LEAKY.splitlines().index("        kept.append(np.ones(400000 // 8))") + 1
    assert [p.line for p in evidence.where] == [line]
    cost = trace.facts["growth"]
    assert (
        cost["cpu_s"] <= 0.002 * trace.run_ms / 1e3 + (growth_watch.FIRST_WALKS_NS + growth_watch.EXTRA_WALKS_NS) / 1e9
    )


KEPT_MODELS = """
import keras
import numpy as np

x, y = np.random.rand(64, 256).astype("float32"), np.random.rand(64, 1).astype("float32")
tried = {}

def search():
    for width in range(500, 510):
        model = keras.Sequential([keras.Input((256,)), keras.layers.Dense(width), keras.layers.Dense(1000)])
        model.compile("adam", "mse")
        history = model.fit(x, y, batch_size=8, epochs=2, verbose=0)
        guessed = model.predict(x, verbose=0)
        tried[width] = (float(np.mean((guessed - y) ** 2)), history)

search()
"""


@pytest.mark.slow
@pytest.mark.tensorflow
def test_models_that_a_search_keeps_are_named_with_their_line(tmp_path: Path) -> None:
    """Ten of them, by what ``fit`` gave back; each with weights of 2.5 MB and twice as much of its optimizer's."""
    done = running.recorded(tmp_path / "run", running.write(tmp_path, KEPT_MODELS))
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    finding = HostLeak().find(trace)
    assert finding is not None
    evidence = HostLeak().evidence(trace, finding)
    assert "`tried` holds" in evidence.says
    assert "tuple of float, History of at least 7." in evidence.says
    line = KEPT_MODELS.splitlines().index(next(t for t in KEPT_MODELS.splitlines() if "tried[width]" in t)) + 1
    assert [p.line for p in evidence.where] == [line]


JOINED = """
import numpy as np
import tensorflow as tf

class Memory:
    def __init__(self):
        self.seen = np.zeros((0, 1000))

    def add(self, rows):
        self.seen = np.concatenate([self.seen, rows])

@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w) ** 2)
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss

w = tf.Variable(tf.random.normal((1000, 8)))
memory = Memory()
for step in range(600):
    rows = np.random.rand(12, 1000)
    memory.add(rows)
    train_step(tf.constant(rows, tf.float32))
"""


@pytest.mark.tensorflow
def test_an_array_that_is_joined_to_itself_is_named_with_its_line(tmp_path: Path) -> None:
    """By 96 kB in each step, all of which the next one copies."""
    done = running.recorded(tmp_path / "run", running.write(tmp_path, JOINED))
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    line = JOINED.splitlines().index("        self.seen = np.concatenate([self.seen, rows])") + 1
    finding, growth = HostLeak().find(trace), GrowingStep().find(trace)
    assert finding is not None
    leak = HostLeak().evidence(trace, finding)
    assert re.search(r"`memory.seen` \(ndarray\) has \d\d\.?\d? MB and grows by 9\d(\.\d)? kB per step", leak.says)
    assert [p.line for p in leak.where] == [line]
    assert growth is not None
    slower = GrowingStep().evidence(trace, growth)
    assert slower.where[0].line == line
    assert "; `memory.seen` grew from " in slower.says


def test_a_limit_of_a_deque_is_read_without_asking_its_class() -> None:
    class Ring(deque):  # type: ignore[type-arg]
        maxlen = property(lambda self: 1 / 0)

    assert container_contents.describe_contents(Ring([1, 2], 7))["limit"] == 7
