"""What the recorder tells of a traced graph: tables that rows are looked up in, weights, arithmetic."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from slowtrain.recording import reader

from . import running

pytestmark = pytest.mark.tensorflow

LOOP = """
    import tensorflow as tf

    table = tf.Variable(tf.random.uniform((600, 4)))
    dense = tf.Variable(tf.random.uniform((40, 3)))
    picture = tf.Variable(tf.random.uniform((3, 3, 1, 2)))
    ids, pixels = tf.random.uniform((8, 10), 0, 600, tf.int32), tf.random.uniform((8, 6, 6, 1))

    @tf.function
    def step(ids, pixels):
        with tf.GradientTape() as tape:
            looked_up = tf.reshape(tf.gather(table, ids), (8, 40))
            loss = tf.reduce_sum(looked_up @ dense) + tf.reduce_sum(tf.nn.conv2d(pixels, picture, 1, "VALID"))
        found = tape.gradient(loss, [table, dense, picture])
        whole = tf.convert_to_tensor(found[0])
        table.assign_sub(whole / (0.1 + whole * whole))
        dense.assign_sub(0.1 * found[1])
        picture.assign_sub(0.1 * found[2])
        return loss

    @tf.function(input_signature=[tf.TensorSpec((None, 40))])
    def open_step(x):
        with tf.GradientTape() as tape:
            picked = tf.gather(x @ dense, tf.zeros(tf.shape(x)[:1], tf.int32), batch_dims=1)
            loss = tf.reduce_mean(picked)
        dense.assign_sub(0.1 * tape.gradient(loss, dense))

    @tf.function
    def row_step(ids):
        flat, where = tf.unique(tf.reshape(ids, [-1]))
        rows = tf.gather(table, flat)
        with tf.GradientTape() as tape:
            tape.watch(rows)
            loss = tf.reduce_sum(tf.gather(rows, where) ** 2)
        table.scatter_sub(tf.IndexedSlices(0.1 * tf.convert_to_tensor(tape.gradient(loss, rows)), flat))

    @tf.function
    def hot_step(ids):
        with tf.GradientTape() as tape:
            rows = tf.one_hot(ids, 600)
            loss = tf.reduce_sum(tf.reshape(rows, (80, 600)) @ table)
            loss += tf.reduce_sum(tf.einsum("btw,wd->btd", rows, table))
        table.assign_sub(0.1 * tape.gradient(loss, table))

    other = tf.Variable(tf.random.uniform((600, 4)))

    @tf.function
    def penalised_step(ids):
        with tf.GradientTape() as tape:
            picked = tf.gather(table, ids) * tf.gather(other, ids)
            loss = tf.reduce_sum(picked) + tf.nn.l2_loss(table)
        for v, found in zip([table, other], tape.gradient(loss, [table, other])):
            v.assign_sub(0.1 * tf.convert_to_tensor(found))

    @tf.function
    def tied_step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(tf.gather(table, ids), table, transpose_b=True))
        table.assign_sub(0.1 * tf.convert_to_tensor(tape.gradient(loss, table)))

    for _ in range(3):
        penalised_step(ids)
        tied_step(ids[0])
        step(ids, pixels)
        open_step(tf.ones((8, 40)))
        row_step(ids)
        hot_step(ids)
"""


TURNS = """
    from tensorflow import keras

    scale = tf.Variable(2.0)
    cell = keras.layers.LSTM(3)
    x = tf.random.uniform((6, 5, 4))
    cell(x)

    @tf.function(input_signature=[tf.TensorSpec((None, 5, 4))])
    def mapping(x):
        with tf.GradientTape() as tape:
            each = tf.map_fn(lambda one: scale * tf.reduce_sum(one @ tf.transpose(one)), x)
            loss = tf.reduce_sum(each) + tf.reduce_sum(cell(x))
        scale.assign_sub(0.1 * tape.gradient(loss, scale))

    @tf.function
    def summing(x):
        total = 0.0
        with tf.GradientTape() as tape:
            for one in x:
                total += scale * tf.reduce_sum(one)
        scale.assign_sub(0.1 * tape.gradient(total, scale))

    for _ in range(3):
        mapping(x)
        summing(x)
"""


SEVERAL = """
    import numpy as np

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16), keras.layers.Dense(1)])
    model.compile("adam", "mse", steps_per_execution=5)
    model.fit(np.ones((40, 8), "float32"), np.ones((40, 1), "float32"), batch_size=4, epochs=3, verbose=0)
"""


SCRIPT = LOOP + TURNS + SEVERAL


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was noted of each training function of the script, by its name."""
    done = running.run_series(tmp_path_factory.mktemp("graphs"), {"all": running.Script(SCRIPT)})["all"]
    assert done.code == 0, done.err
    raw = reader.read_recording(done.folder)
    assert "faults" not in raw.facts
    return {e.name: e.data["graph"] for e in raw.events if e.lane == "trace" and e.data.get("training")}


def test_tables_weights_and_arithmetic_of_a_loop(graphs: dict[str, Any]) -> None:
    closed, opened = graphs["step"], graphs["open_step"]
    assert closed["tables"] == [[600, 4, 80, 1]]
    lines = textwrap.dedent(LOOP).splitlines()
    by_hand = 1 + next(i for i, line in enumerate(lines) if "whole * whole" in line)
    assert {(name, line) for name, _, line in closed["over"]} == {
        (n, by_hand) for n in ("mul", "add_1", "truediv", "AssignSubVariableOp")
    }
    penalised = graphs["penalised_step"]
    assert penalised["tables"] == [[600, 4, 80, 2]]
    penalty = 1 + next(i for i, line in enumerate(lines) if "l2_loss" in line)
    over = {name: line for name, _, line in penalised["over"]}
    assert over["L2Loss"] == over["L2Loss/ReadVariableOp"] == penalty
    assert over["gradient_tape/mul"] == 0  # whatever it is of, its line is the one that asks for gradients
    assert graphs["tied_step"]["over"] == []  # the product needs every row
    assert opened["over"] == []
    assert closed["weights"] == 600 * 4 + 40 * 3 + 3 * 3 * 2
    assert closed["multiply_adds"] == 8 * 40 * 3 + 8 * 4 * 4 * 2 * 9
    assert closed["convolved"] == 4 * 4 * 2 * 9  # of one sample
    assert opened["tables"] == []  # values picked by an index, of no table
    assert opened["multiply_adds"] is None
    ((name, file, _, products),) = graphs["hot_step"]["one_hot"]
    assert name == "one_hot"
    assert Path(file).name == "script.py"
    assert {"matmul", "einsum/Einsum"} <= set(products)
    assert graphs["row_step"]["tables"] == []  # rows that were looked up before, however many they are
    assert graphs["row_step"]["gathered"] == [
        [600, 4, 0, 1]
    ]  # of the variable itself; how many, the graph does not tell


def test_a_loop_whose_turns_stand_for_themselves(graphs: dict[str, Any]) -> None:
    ((name, file, line, ops, turns),) = graphs["mapping"]["loops"]  # not the recurrent layer's
    assert name.endswith("map/while")
    assert Path(file).name == "script.py"
    assert "tf.map_fn" in textwrap.dedent(SCRIPT).splitlines()[line - 1]
    assert 3 <= ops <= 20
    assert turns is None  # as many as the batch is large
    assert graphs["summing"]["loops"] == []  # each turn adds to what the ones before have made


def test_keras_own_loop_of_steps_is_no_loop_over_elements(graphs: dict[str, Any]) -> None:
    own = [graph for name, graph in graphs.items() if f"def {name}(" not in SCRIPT]
    assert own
    assert all(graph["loops"] == [] for graph in own)
