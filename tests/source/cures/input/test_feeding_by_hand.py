"""Loops that make their batches themselves: what is done once, or beside the step; text in, text out, or no edit."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from slowtrain.model import Edit
from slowtrain.script.fixes.input import background_batches, hoisted_conversions
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source, parse_source


def _edited(text: str, edit: Callable[[Source, int], Sequence[Edit]]) -> str | None:
    line = next(n for n, row in enumerate(text.split("\n"), 1) if "#@" in row)
    source = parse_source("train.py", text)
    assert source is not None
    found = edit(source, line)
    new = edits.edited_text(source, found) if found else None
    assert new is None or parse_source("train.py", new) is not None
    return new


def _loop(data: str, row: str, between: str = "", rest: str = "step(xb)") -> str:
    return (
        f"import numpy as np\nimport tensorflow as tf\n{data}\n"
        f"for epoch in range(9):\n{between}    for i in range(0, 90, 10):\n        {row}  #@\n        {rest}\n"
    )


CONVERTED = {
    "with a type": (
        "x = np.random.rand(90, 3).astype('float32')",
        "xb = tf.convert_to_tensor(x[i : i + 10], dtype=tf.float16)",
        "tf.convert_to_tensor(x, dtype=tf.float16)",
        "x_tensor[i : i + 10]",
    ),
    "a cast": (
        "x = np.load('x.npy', mmap_mode=None) if 0 else np.ones((90, 3))\nx = np.asarray(x) / 255",
        "xb = tf.cast(x[i:i+10], tf.float32)",
        "tf.cast(x, tf.float32)",
        "x_tensor[i:i+10]",
    ),
    "a file that may be mapped": ("x = np.load('x.npy', mmap_mode=m)", "xb = tf.constant(x[i:i + 10])", "", ""),
    "of a data set of Keras": (
        "(x, y), (u, v) = tf.keras.datasets.mnist.load_data()\nx = x[..., None] / 255.0",
        "xb = tf.cast(x[i:i+10], tf.float32)",
        "tf.cast(x, tf.float32)",
        "x_tensor[i:i+10]",
    ),
    "lists": (
        "x = [[float(a) for a in range(3)] for _ in range(90)]",
        "xb = tf.constant(x[i:i + 10], dtype=tf.float32)",
        "tf.constant(x, dtype=tf.float32)",
        "x_tensor[i:i + 10]",
    ),
    "lists of any length": ("x = [f(n) for n in names]", "xb = tf.constant(x[i:i + 10], dtype=tf.float32)", "", ""),
    "lists, no type": ("x = [[1, 2.5] for _ in range(90)]", "xb = tf.constant(x[i:i + 10])", "", ""),
    "nobody knows": ("x = load()", "xb = tf.constant(x[i:i + 10])", "", ""),
    "by a place in the loop": ("x = np.zeros((90, 3))", "xb = tf.constant(x[i:i + 10], shape=(i, 3))", "", ""),
    "one row by a name": ("x = np.zeros((90, 3))", "xb = tf.constant(x[i])", "", ""),
}


@pytest.mark.parametrize(("data", "row", "whole", "part"), CONVERTED.values(), ids=CONVERTED)
def test_data_is_converted_once(data: str, row: str, whole: str, part: str) -> None:
    text = _loop(data, row)
    new = _edited(text, hoisted_conversions.convert_before_loop)
    if not whole:
        assert new is None
        return
    name = part.partition("[")[0] if part.startswith("x_") else "x_tensor"
    expected = text.replace("for epoch", f"{name} = {whole}\nfor epoch").replace(row, f"xb = {part}")
    assert new == expected


def test_data_that_changes_between_epochs_is_converted_in_each() -> None:
    text = _loop("x = np.zeros((90, 3))", "xb = tf.constant(x[i:i + 10])", "    x = x[::-1]\n")
    new = _edited(text, hoisted_conversions.convert_before_loop)
    assert new is not None
    assert "    x = x[::-1]\n    x_tensor = tf.constant(x)\n    for i" in new


@pytest.mark.parametrize("rest", ["np.copyto(x, step(xb))", "np.add(x, 1, out=x)", "np.random.shuffle(x)", "x.fill(0)"])
def test_data_that_changes_in_the_loop_is_left_alone(rest: str) -> None:
    text = _loop("x = np.zeros((90, 3))", "xb = tf.constant(x[i:i + 10])", "", rest)
    assert _edited(text, hoisted_conversions.convert_before_loop) is None


ONCE = {
    "a constant": ("w = tf.constant([1.0, 2.0])", "step(w)", True),
    "work on the data": ("z = (x - x.mean(0)) / np.std(x, axis=0)", "step(z[i])", True),
    "by the round": ("z = np.roll(x, i)", "step(z)", False),
    "drawn": ("z = np.random.rand(3)", "step(z)", False),
    "a variable": ("v = tf.Variable(x)", "step(v)", False),
    "changed afterwards": ("z = np.array(x)", "z += 1", False),
    "handed to be changed": ("z = np.array(x)", "z.sort()", False),
    "a call that nobody knows": ("z = env.reset()", "step(z)", False),
    "no work": ("z = x", "step(z)", False),
}


@pytest.mark.parametrize(("row", "rest", "moved"), ONCE.values(), ids=ONCE)
def test_what_is_the_same_in_every_step_is_done_before(row: str, rest: str, moved: bool) -> None:
    text = _loop("x = np.zeros((90, 3))", row, "", rest)
    new = _edited(text, hoisted_conversions.hoist_assignment)
    expected = text.replace(f"        {row}  #@\n", "").replace("for epoch", f"{row}  #@\nfor epoch")
    assert new == (expected if moved else None)


HDF5 = """\
import h5py
f = h5py.File("rows.h5", "r")
x, y = f["x"], f["y"]
n = len(x)
for epoch in range(3):
    for k in range(0, n, 10):
        loss = model.train_on_batch(x[k:k + 10], y[k:k + 10])  #@
"""


def test_rows_of_a_file_are_read_at_once() -> None:
    expected = HDF5.replace('f["x"], f["y"]', 'f["x"][:], f["y"][:]')
    assert _edited(HDF5, hoisted_conversions.read_dataset_into_memory) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"r")', '"r+")'),
        ("h5py.File", "open_store"),
        ("n = len(x)", "n = x.id.get_space()"),
        ("        loss", "        b = x[k]\n        b /= 2\n        loss"),
    ],
)
def test_a_file_that_is_used_otherwise_is_left_alone(old: str, new: str) -> None:
    found = _edited(HDF5.replace(old, new), hoisted_conversions.read_dataset_into_memory)
    assert found is None or 'f["x"][:]' not in found


# -- ahead

GENERATED = """\
import numpy as np
SIZE = 8


def read(k):
    return np.fromfile(f"{k}.raw")  #@


def batches(n):
    for k in range(n):
        yield read(k).reshape(SIZE, -1)


for epoch in range(3):
    for x in batches(9):
        loss = model.train_on_batch(x, x)
        print(SIZE, loss)
"""
HELP = background_batches.PREFETCH_CODE.format(name="made_ahead", pool="futures.ThreadPoolExecutor")


def test_a_generator_runs_beside_the_step() -> None:
    expected = GENERATED.replace("import numpy as np\n", "import numpy as np\nimport concurrent.futures as futures\n")
    expected = expected.replace("def batches", f"{HELP}def batches").replace(
        "in batches(9)", "in made_ahead(batches(9))"
    )
    assert _edited(GENERATED, background_batches.prefetch_in_thread) == expected


@pytest.mark.parametrize("where", ["yield read", "loss = model"])
def test_wherever_the_time_goes(where: str) -> None:
    text = GENERATED.replace("  #@", "").replace(where, f"{where} #@", 1)
    rows = text.split("\n")
    at = next(n for n, row in enumerate(rows) if "#@" in row)
    rows[at] = rows[at].replace(" #@", "") + "  #@"
    new = _edited("\n".join(rows), background_batches.prefetch_in_thread)
    assert new is not None
    assert "in made_ahead(batches(9))" in new


MAKING = "return np.fromfile"
SHARED = {
    "a buffer that the loop fills": (MAKING, "return memory.draw(k) + np.fromfile", "print(", "memory.add("),
    "a model that trains": (MAKING, "return model.predict(k) + np.fromfile", "print(", "print("),
    "one source of random numbers": (
        MAKING,
        f"{MAKING}(np.random.rand()) + np.fromfile",
        "SIZE, ",
        "np.random.rand(), ",
    ),
    "draws of TensorFlow": (MAKING, "return tf.random.normal(()) + np.fromfile", "numpy as np", "tensorflow as tf"),
    "an early end, while it draws": (MAKING, "return np.random.rand() + np.fromfile", "print(SIZE, loss)", "break"),
    "a number that is set": (
        "SIZE = 8",
        "SIZE = 8\ndef more():\n    global SIZE\n    SIZE += 1",
        "print(SIZE",
        "more(SIZE",
    ),
    "a count of calls": ("def read(k):\n", "def read(k):\n    global seen\n    seen += 1\n", "print(", "print("),
}


@pytest.mark.parametrize(("old", "new", "other", "instead"), SHARED.values(), ids=SHARED)
def test_what_hangs_on_the_step_stays_where_it_is(old: str, new: str, other: str, instead: str) -> None:
    assert old in GENERATED
    assert _edited(GENERATED.replace(old, new).replace(other, instead), background_batches.prefetch_in_thread) is None


LINES = """\
import numpy as np


def train(model, folder, steps):
    for epoch in range(3):
        for k in range(steps):
            x = np.load(f"{folder}/{k}.npy")  #@
            y = x[:, 0]
            loss = model.train_on_batch(x, y)
        print(epoch, loss)
"""


def test_the_first_lines_of_a_loop_run_beside_the_step() -> None:
    expected = LINES.replace("import numpy as np\n", "import numpy as np\nimport concurrent.futures as futures\n")
    expected = expected.replace("def train", f"{HELP}def train")
    old = expected[expected.index("        for k") : expected.index("            loss")]
    new = textwrap.indent(
        'def batches():\n    for k in range(steps):\n        x = np.load(f"{folder}/{k}.npy")  #@\n'
        "        y = x[:, 0]\n"
        "        yield k, x, y\n\nfor k, x, y in made_ahead(batches()):\n",
        " " * 8,
        lambda row: bool(row.strip()),
    )
    assert _edited(LINES, background_batches.prefetch_in_thread) == expected.replace(old, new)


HELD = {
    "of the round before": ("            y = x[:, 0]", "            y = y + x[:, 0]"),
    "of the step's result": ("            y = x[:, 0]", "            y = x[:, 0] * loss"),
    "no line of its own": ("            y = x[:, 0]", "            y = x[:, 0]; print(y)"),
    "the model": ("            y = x[:, 0]", "            y = model(x)"),
    "an else": ("        print(epoch", "        else:\n            pass\n        print(epoch"),
}


@pytest.mark.parametrize(("old", "new"), HELD.values(), ids=HELD)
def test_lines_that_hang_on_the_step_stay(old: str, new: str) -> None:
    assert old in LINES
    assert _edited(LINES.replace(old, new), background_batches.prefetch_in_thread) is None


RUN = """\
import time
made = []


def batches(n):
    for k in range(n):
        made.append(k)
        yield k
        if k == FAILS:
            raise ValueError("no more")


def use():
    for k in made_ahead(batches(5)):
        time.sleep(0.05)
        print(k, list(made), flush=True)
        if k == LAST:
            break


use()
print("made", made)
"""


@pytest.mark.parametrize(
    ("last", "fails", "code", "used"),
    [(9, 9, 0, 5), (1, 9, 0, 2), (9, 2, 1, 3)],
    ids=["all", "an early end", "an error"],
)
def test_each_batch_comes_once_in_order_one_ahead(last: int, fails: int, code: int, used: int, tmp_path: Path) -> None:
    text = RUN.replace("LAST", str(last)).replace("FAILS", str(fails))
    script = tmp_path / "run.py"
    script.write_text(f"import concurrent.futures as futures\n{HELP}{text}")
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == code, run.stderr
    assert ("ValueError: no more" in run.stderr) is (code != 0)
    rows = [row for row in run.stdout.splitlines() if row[0].isdigit()]
    assert [int(row.split()[0]) for row in rows] == list(range(used))
    assert rows[0] == "0 [0, 1]"  # the second is made while the first is used, and no third


def test_arrays_that_a_function_returns_are_converted_once() -> None:
    text = """\
import numpy as np
import tensorflow as tf
def made(n):
    return np.eye(n), [{} for _ in range(n)]
a, b = made(9)
for epoch in range(9):
    adj = tf.constant(a, tf.float32)  #@
    step(adj)
"""
    row = "adj = tf.constant(a, tf.float32)  #@\n"
    assert _edited(text, hoisted_conversions.hoist_assignment) == text.replace(f"    {row}", "").replace(
        "for ep", f"{row}for ep"
    )
    assert _edited(text.replace("constant(a,", "constant(b,"), hoisted_conversions.hoist_assignment) is None
