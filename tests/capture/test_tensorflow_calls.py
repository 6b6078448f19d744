"""What the recorder notes of calls of TensorFlow and Keras: concrete functions, read-backs, saves, pipelines."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from slowtrain.capture.inspection import user_code
from slowtrain.columns import intervals
from slowtrain.model import Phase
from slowtrain.recording import reader

from . import running

Runs = dict[str, running.Done]

CONCRETE = """
import tensorflow as tf

w = tf.Variable(tf.ones((8, 8)))

@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w) ** 2)
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss

@tf.function
def look(x):
    return tf.reduce_sum(x @ w)

steps = {rows: train_step.get_concrete_function(tf.TensorSpec((rows, 8), tf.float32)) for rows in (4, 8, 16)}
again = train_step.get_concrete_function(tf.TensorSpec((8, 8), tf.float32))
assert again is steps[8]
data = tf.data.Dataset.range(8).map(lambda n: n + 1)
seen = look.get_concrete_function(tf.TensorSpec((8, 8), tf.float32))
for i in range(60):
    loss = steps[8](tf.ones((8, 8)))
    if i % 20 == 0:
        seen(tf.ones((8, 8)))
print("loss", float(loss), steps[8].structured_input_signature[0][0].shape)
"""
SAVING = """
    import numpy as np
    import tensorflow as tf
    from tensorflow import keras
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    x, y = np.zeros((64, 4), "float32"), np.zeros((64, 3), "float32")
    each_epoch = keras.callbacks.ModelCheckpoint("epoch.weights.h5", save_weights_only=True)
    model.fit(x, y, epochs=3, verbose=0, callbacks=[each_epoch])
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(checkpoint, "kept", 3)
    model.save("model.keras")
    model.save_weights("model.weights.h5")
    manager.save()
    checkpoint.write("written")
    tf.saved_model.save(tf.Module(), "saved")
    try:
        checkpoint.write(None)
    except Exception:
        print("the script's own error")
"""
READ_BACK = """
    import tensorflow as tf

    w = tf.Variable(tf.random.normal((3, 1)))
    x = tf.random.normal((8, 2))
    optimizer = tf.keras.optimizers.SGD(0.01)
    for _ in range(40):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.concat([x, x[:, :1]], 1) @ w)  # the gradient of a mean asks for its axis
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        float(loss)
"""
EACH_STEP = """
    import numpy as np
    import tensorflow as tf

    w = tf.Variable(tf.random.normal((3, 1)))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x @ w)
        w.assign_sub(tape.gradient(loss, w))
        return loss

    for _ in range(120):
        ds = tf.data.Dataset.from_tensor_slices(np.ones((8, 3), "float32")).batch(8)
        for x in ds:
            loss = step(x)
        float(loss)
"""
NESTED = """
    import numpy as np
    import tensorflow as tf

    def features(sizes):
        def encode(row):
            def grams(raw):
                total = 0.0
                for size in sizes:
                    for start in range(400):
                        total += size * start
                return np.float32(total)

            return tf.ensure_shape(tf.numpy_function(grams, [row], tf.float32), ())

        return encode

    weight = tf.Variable(1.0)
    data = tf.data.Dataset.range(4000).map(features((2, 3, 4))).batch(100)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(weight * x)
        weight.assign_sub(1e-9 * tape.gradient(loss, weight))

    for x in data:
        step(x)
"""
COMPILED = """
    import keras

    def model():
        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])

    model().compile("sgd", "mse")
    model().compile("sgd", "mse", jit_compile="auto")
    model().compile("sgd", "mse", jit_compile=True)
    model().compile("sgd", "mse", jit_compile=False)
    model().compile("sgd", "mse", None, None, None, False, 1, True)
"""
SCRIPTS = {
    "concrete": running.Script(CONCRETE, windows=True),
    "read back": running.Script(READ_BACK),
    "each step": running.Script(EACH_STEP),
    "nested": running.Script(NESTED),
    "compiled": running.Script(COMPILED),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return running.run_series(tmp_path_factory.mktemp("calls"), SCRIPTS)


@pytest.mark.tensorflow
def test_calls_of_a_concrete_function_are_steps(runs: Runs) -> None:
    assert runs["concrete"].out.startswith("loss")
    trace = running.loaded(runs["concrete"])
    assert len(trace.steps) == 60
    assert [p.line for p in (trace.steps.place,) if p is not None] == [
        CONCRETE.splitlines().index("    loss = steps[8](tf.ones((8, 8)))") + 1
    ]
    # A map's function has a graph too, which tf.data asks for.
    traced = [(e.name, e.data["nth"], e.data["training"]) for e in trace.events_of("trace")]
    assert traced == [("train_step", 1, True), ("train_step", 2, True), ("train_step", 3, True), ("look", 1, False)]


@pytest.mark.tensorflow
def test_what_writes_models_and_checkpoints_is_a_phase_of_its_own(tmp_path: Path) -> None:
    """In a process of its own: the names of ``tf.saved_model`` are bound when TensorFlow is imported."""
    done = running.recorded(tmp_path / "run", running.write(tmp_path, SAVING), cwd=tmp_path)
    assert done.out == "the script's own error\n"
    trace = running.loaded(done)
    found: dict[str, list[int]] = {}
    calls = trace.lane("save")
    for number in calls.name:
        name = trace.names[int(number)]
        assert name.place is not None
        found.setdefault(name.text, []).append(name.place.line)
    inner = found.pop("Checkpoint.write")
    assert found == {
        "save_weights": [9, 9, 9, 13],  # the callback's three are of the line that trains
        "save_model": [12],
        "CheckpointManager.save": [14],
        "save": [16],
    }
    assert [line for line in inner if line > 14] == [15, 18]
    spent = {p.name: p.ms for p in trace.run.parts}
    saved_ms = intervals.total_length(intervals.union(calls.start_ms, calls.end_ms))
    assert 0.5 * saved_ms < spent[str(Phase.CHECKPOINT)] < 1.001 * saved_ms  # some of it is of other phases, too
    assert sum(spent.values()) == pytest.approx(trace.run_ms, rel=1e-3)


@pytest.mark.tensorflow
def test_what_a_gradient_asks_for_itself_is_no_readback_of_the_script(runs: Runs) -> None:
    trace = running.loaded(runs["read back"])
    read = trace.lane("readback")
    places = [trace.names[int(n)].place for n in read.name]
    assert {place.line for place in places if place is not None} == {11}
    assert len(read) == 40


@pytest.mark.tensorflow
def test_a_data_set_made_in_each_step_is_no_readback_of_the_script(runs: Runs) -> None:
    """TensorFlow asks for its batch's size, the recorder for this and the length of a hundred of them."""
    trace = running.loaded(runs["each step"])
    lines = [place.line for n in trace.lane("readback").name if (place := trace.names[int(n)].place) is not None]
    assert lines == [18] * 120
    assert len(list(trace.events_of("iterator"))) == 120
    described = [e.data["nodes"] for e in trace.events_of("pipeline")]
    assert len(described) == 100
    assert all([node["op"] for node in nodes] == ["TensorSliceDataset", "BatchDataset"] for nodes in described)
    assert {node["batch_size"] for *_, node in described} == {8}


@pytest.mark.tensorflow
def test_a_function_inside_the_function_of_a_map(runs: Runs) -> None:
    """AutoGraph has written it anew: it is told by the script's own lines."""
    trace = running.loaded(runs["nested"])
    lines = [line.strip() for line in textwrap.dedent(NESTED).splitlines()]
    script = str(runs["nested"].folder.parents[1] / "script.py")
    (producer,) = trace.producers
    assert producer.place is not None
    assert (producer.place.file, lines[producer.place.line - 1]) == (script, "def grams(raw):")
    assert producer.qualname == "encode.<locals>.grams"
    most = producer.lines[:2]  # AutoGraph makes a function of the loop's body, and of handing its variables on
    assert {line.place.file for line in most} == {script}
    assert {lines[line.place.line - 1] for line in most} == {"for start in range(400):", "total += size * start"}
    assert max(line.visits for line in most) > 100


@pytest.mark.tensorflow
def test_what_compile_was_told_beside_what_keras_made_of_it(runs: Runs) -> None:
    raw = reader.read_recording(runs["compiled"].folder)
    assert "faults" not in raw.facts
    told = [e.data for e in raw.events if e.lane == "compile"]
    assert [one["jit_compile_given"] for one in told] == ["absent", "auto", True, False, True]
    resolved = [one.get("jit_compile") for one in told]  # without a GPU; Keras 2 keeps what it was told
    assert resolved in ([False, False, True, False, True], [None, "auto", True, False, True])


def test_where_autograph_keeps_it_otherwise_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow.python.autograph.impl.api", ModuleType("api"))
    file = f"/tmp/{user_code.MARK}abc.py"
    user_code.read_origins(file)
    assert not user_code.has_origins(file)
    assert user_code.origin_line(file, 3) == user_code.origin_of_function(file, 3) == (file, 3)
