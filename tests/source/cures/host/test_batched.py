"""One prediction of all rows in place of one for each, where no turn of the loop can make a difference."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.host import batched

MADE = """\
import keras
import numpy as np
x = np.random.rand(20, 4)
y = np.arange(20)
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3, activation="relu"), keras.layers.Dense(2)])
"""
LOADED = MADE.replace("np.random.rand(20, 4)", 'np.load("rows.npy")')
WINDOWS = MADE.replace("np.random.rand(20, 4)", "np.random.rand(24, 30)") + "n = 20\n"
# Name: what makes model and rows, the loop, and the loop afterwards.
CASES: dict[str, tuple[str, str, str]] = {
    "a comprehension": (
        MADE,
        "out = [model.predict(x[i : i + 1], verbose=0)[0] for i in range(len(x))]  # all of them\n",
        "out = [predicted[0] for predicted in model.predict(x, verbose=0)[:, None]]  # all of them\n",
    ),
    "a comprehension that reads its number": (
        MADE,
        "out = [y[i] - model.predict(x[i][None], batch_size=1, verbose=0) for i in range(len(x))]\n",
        "out = [y[i] - predicted for i, predicted in zip(range(len(x)), model.predict(x, verbose=0)[:, None])]\n",
    ),
    "a list that grows": (
        MADE,
        """\
out = []
for i in range(x.shape[0]):
    # one row
    out.append(model.predict(x[i:i+1], verbose=0)[0])  # its scores
""",
        """\
out = []
predictions = model.predict(x, verbose=0)
for i in range(x.shape[0]):
    # one row
    out.append(predictions[i : i + 1][0])  # its scores
""",
    ),
    "rows and labels": (
        LOADED,
        """\
out, right = [], 0
right = 0
for row, label in zip(x, y):
    scores = model.predict(row.reshape(1, -1), verbose=0)
    right += int(np.argmax(scores) == label)
    out.append(scores)
""",
        """\
out, right = [], 0
right = 0
predictions = model.predict(x.reshape(len(x), -1), verbose=0)[:, None] if len(x) else ()
for (row, label), predicted in zip(zip(x, y), predictions):
    scores = predicted
    right += int(np.argmax(scores) == label)
    out.append(scores)
""",
    ),
    "a row with a name": (
        MADE,
        """\
def score(rows):
    out = np.zeros((len(rows), 2))
    for k, row in enumerate(rows):
        batch = np.expand_dims(row / 2.0, axis=0)  # halved
        out[k] = model.predict(batch, verbose=0)[0]
    return out
out = score(x.copy())
""",
        """\
def score(rows):
    out = np.zeros((len(rows), 2))
    predictions = model.predict(rows / 2.0, verbose=0)
    for k, row in enumerate(rows):
        # halved
        out[k] = predictions[k : k + 1][0]
    return out
out = score(x.copy())
""",
    ),
    "the first of them": (
        MADE,
        """\
out = []
for i in range(2, 9):
    out.append(model.predict(x[i : i + 1].astype("float32"), verbose=0))
""",
        """\
out = []
predictions = model.predict(x[2:9].astype("float32"), verbose=0)[:, None]
for i, predicted in zip(range(2, 9), predictions):
    out.append(predicted)
""",
    ),
    "windows of a column": (
        WINDOWS,
        """\
out = np.empty((20, 2))
for t in range(4, 6):
    for k in range(n):
        window = x[t - 3:t + 1, k].reshape(1, 4)
        out[k] = model.predict(window, verbose=0)[0]
""",
        """\
out = np.empty((20, 2))
for t in range(4, 6):
    each_row = [x[t - 3:t + 1, k].reshape(1, 4) for k in range(n)]
    predictions = model.predict(np.concatenate(each_row), verbose=0)
    for k in range(n):
        out[k] = predictions[k : k + 1][0]
""",
    ),
    "no further than the rows go": (
        MADE + "w = 30\n",
        "out = [model.predict(x[i : i + 1], verbose=0)[0] for i in range(3, len(x) - w)] + [[1]]\n",
        """\
out = [predicted[0] for i, predicted in zip(range(3, len(x) - w), \
(model.predict(x[3:len(x) - w], verbose=0)[:, None] if len(x[3:len(x) - w]) else ()))] + [[1]]
""",
    ),
    "numbers out of each answer, beside a history": (
        MADE,
        """\
out, seen, best = [], {}, 0.0
for i in range(len(x)):
    scores = model.predict(x[i : i + 1], batch_size=1, verbose=0)
    scores[0, 1] += 1
    seen.update({i: float(scores[0, 0])})
    best = max(best, seen[i])
    out.append(scores[0].argmax() + best)
""",
        """\
out, seen, best = [], {}, 0.0
predictions = model.predict(x, verbose=0)
for i in range(len(x)):
    scores = predictions[i : i + 1]
    scores[0, 1] += 1
    seen.update({i: float(scores[0, 0])})
    best = max(best, seen[i])
    out.append(scores[0].argmax() + best)
""",
    ),
    "a model of functions, in a class": (
        """\
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers
from tensorflow.keras.models import Model
x = np.random.rand(20, 4)
def build(width):
    given = layers.Input((4,))
    h = given
    for n in (width, 4):
        h = layers.Dense(n, activation=tf.nn.relu)(h)
    h = layers.Dropout(0.5)(layers.concatenate([h, given]) * 2)
    return Model(given, layers.Dense(2)(h))
class Scorer:
    def __init__(self):
        self.net = build(8)
""",
        """\
    def score(self):
        return [self.net.predict(row[np.newaxis, :], verbose=0) for row in x]
out = Scorer().score()
""",
        """\
    def score(self):
        return [predicted for predicted in self.net.predict(x, verbose=0)[:, None]]
out = Scorer().score()
""",
    ),
}

GROWN = """\
out = []
for i in range(len(x)):
    out.append(model.predict(x[i : i + 1], verbose=0))
"""
ADDED = "    out.append(model.predict(x[i : i + 1], verbose=0))\n"


def beside(line: str) -> tuple[str, str]:
    """The plain loop, in front of whose call something else is done."""
    return MADE, GROWN.replace(ADDED, f"    {line}\n{ADDED}")


def of_model(layers: str) -> tuple[str, str]:
    made = MADE.replace('keras.layers.Dense(3, activation="relu")', layers)
    return made.replace("import keras\n", "import keras\nimport tensorflow\n"), GROWN


def behind(line: str, before: str = "") -> tuple[str, str]:
    """The plain loop, with a line that may use the answer."""
    asked = "    p = model.predict(x[i : i + 1], verbose=0)\n"
    return MADE + before, GROWN.replace(ADDED, f"{asked}    {line}\n")


def of_rows(made: str) -> str:
    return MADE.replace("np.random.rand(20, 4)", made)


AGENT = "class Agent:\n    def NAME(self, p):\n        model.fit(x, p)\nagent = Agent()\n"
# Name: what makes model and rows, and a loop that has to stay.
STAYS: dict[str, tuple[str, str]] = {
    "trained in the loop": beside("model.fit(x, y, verbose=0)"),
    "trained by a function": beside("improve(model)"),
    "another model": beside("model = keras.models.clone_model(model)"),
    "weights are set": beside("model.set_weights(weights[i])"),
    "an attribute is set": beside("model.layers[0].trainable = False"),
    "rows that depend on what was predicted": beside("x[i] = out[-1] if out else 0"),
    "rows through another name": beside("v = x[i]; v[0] = 1"),
    "rows changed in place": beside("x *= 2"),
    "rows written by NumPy": beside("np.copyto(x, y)"),
    "rows written as an output": beside("np.add(x, 1, out=x)"),
    "rows shuffled": beside("np.random.shuffle(x)"),
    "the number is changed": beside("i = i // 2"),
    "not to the end": beside("if y[i] > 3: break"),
    "left out": beside("if y[i] > 3: continue"),
    "timed": beside("begun = time.perf_counter()"),
    "in a test": (MADE, GROWN.replace(ADDED, f"    if y[i] > 3:\n    {ADDED}")),
    "behind a condition": (MADE, "out = [y[i] > 3 and model.predict(x[i : i + 1]) for i in range(len(x))]\n"),
    "of some": (MADE, "out = [model.predict(x[i : i + 1]) for i in range(len(x)) if y[i]]\n"),
    "one by one": (MADE, "out = (model.predict(x[i : i + 1]) for i in range(len(x)))\n"),
    "one after the other": (MADE, "s = x[:1]\nfor _ in range(9):\n    s = model.predict(s)\n"),
    "two rows": (MADE, "out = [model.predict(x[i : i + 2]) for i in range(len(x))]\n"),
    "with callbacks": (MADE, "out = [model.predict(x[i : i + 1], callbacks=[c]) for i in range(len(x))]\n"),
    "from the end": (MADE, "out = [model.predict(x[i][None]) for i in range(-3, 3)]\n"),
    "with steps": (MADE, "out = [model.predict(x[i][None]) for i in range(0, 9, 2)]\n"),
    "of a list": (MADE.replace("np.random.rand(20, 4)", "[a, b]"), "out = [model.predict(r[None]) for r in x]\n"),
    "a name that is taken": (MADE + "predictions = 3\n", GROWN),
    "a row that is changed": (
        MADE,
        """\
for i in range(len(x)):
    row = x[i] / 2.0
    row[0] = y[i]
    out = model.predict(row[None])
""",
    ),
    # Where an answer is what a later turn is asked about.
    "a forecast into the array that the rows are a view of": (
        of_rows("np.zeros((20, 4))").replace("y = ", "past = x[:-1]\ny = "),
        "for i in range(len(past)):\n    x[i + 1] = model.predict(past[i : i + 1], verbose=0)[0]\n",
    ),
    "a forecast into a series of sliding windows": (
        of_rows("np.zeros(24)").replace("y = ", "w = np.lib.stride_tricks.sliding_window_view(x, 4)\ny = "),
        "for i in range(20):\n    x[i + 4] = model.predict(w[i : i + 1], verbose=0)[0, 0]\n",
    ),
    "a row that is added to by the array's other name": (
        of_rows("np.zeros((20, 4))").replace("y = ", "rows = x\ny = "),
        "for i in range(len(rows)):\n    x += model.predict(rows[i : i + 1], verbose=0)[0, 0]\n",
    ),
    "a window that moves on": (
        MADE,
        """\
window, out = x[0], []
for i in range(10):
    p = model.predict(window[None], verbose=0)[0, 0]
    out.append(p)
    window = np.append(window[1:], p)
""",
    ),
    # Where a turn may train, whatever the method that does it is called.
    "an agent that learns": behind("agent.update(p)", "from agents import Agent\nagent = Agent(model)\n"),
    "an agent that learns by being added to": behind("agent.append(p)", AGENT.replace("NAME", "append")),
    "an agent that learns by being asked": behind("best = agent.get(p)", AGENT.replace("NAME", "get")),
    "a function of its own as a key": behind("best = max(y, key=learn)", "def learn(v):\n    model.fit(x, y)\n"),
    "rows cut off where they are": beside("np.clip(x, 0, 1, x)"),
    "rows without NaN from here on": beside("r = np.nan_to_num(x, copy=False)"),
    # Where not all rows are one array, or not each of them has a turn.
    "as many as there are others": (MADE, "out = [model.predict(row[None]) for row, _ in zip(x, range(10))]\n"),
    "numbered by what has no length": (
        MADE + 'labels = (int(one) for one in open("labels.txt"))\n',
        "out = []\nfor i, label in enumerate(labels):\n    out.append(model.predict(x[i : i + 1]) - label)\n",
    ),
    "of an array as a list": (of_rows("np.ones((9, 4)).tolist()"), "out = [model.predict(np.array([r])) for r in x]\n"),
    "of parts of an array": (of_rows("np.array_split(y, 5)"), "out = [model.predict(r[None]) for r in x]\n"),
    "of rows of several lengths": (of_rows("np.array(s, dtype=object)"), "out = [model.predict(r[None]) for r in x]\n"),
    "of texts of several lengths": (
        MADE.replace("x = np.random.rand(20, 4)", "(x, _), _ = keras.datasets.imdb.load_data()"),
        "out = [model.predict(np.array([row])) for row in x]\n",
    ),
    "of a file": (
        "import h5py\n" + of_rows('h5py.File("rows.h5")["x"]'),
        "out = [model.predict(x[i : i + 1]) for i in range(x.shape[0])]\n",
    ),
    "of a list as well": (
        MADE,
        "def score(rows):\n    return [model.predict(r[None]) for r in rows]\nscore(x)\nscore([x[0], x[1]])\n",
    ),
    "over the norm of the batch": of_model("keras.layers.Dense(3, activation=tensorflow.nn.l2_normalize)"),
    "along the batch, as one of several": of_model("keras.layers.MultiHeadAttention(2, 2, attention_axes=(0, 1))"),
    "with its state": of_model("keras.layers.LSTM(3, return_state=True)"),
    "both ways apart": of_model("keras.layers.Bidirectional(keras.layers.LSTM(3), merge_mode=None)"),
    "a layer of its own": of_model("Mixing()"),
    "a lambda": of_model("keras.layers.Lambda(lambda h: h - h.mean(0))"),
    "an activation of its own": of_model("keras.layers.Dense(3, activation=sharpen)"),
    "along the batch": of_model("keras.layers.Softmax(axis=0)"),
    "that remembers": of_model("keras.layers.LSTM(3, stateful=True)"),
    "from a file": (MADE.replace("keras.Sequential([", "keras.models.load_model([", 1), GROWN),
    "added later": (MADE + "model.add(Mixing())\n", GROWN),
    "given from elsewhere": (
        MADE,
        "def score(model):\n    return [model.predict(x[i : i + 1]) for i in range(len(x))]\n",
    ),
    "dropout that stays on": (
        """\
import keras
import numpy as np
x = np.random.rand(20, 4)
given = keras.Input((4,))
model = keras.Model(given, keras.layers.Dropout(0.5)(given, training=True))
""",
        GROWN,
    ),
    "several outputs": (
        """\
import keras
import numpy as np
x = np.random.rand(20, 4)
given = keras.Input((4,))
model = keras.Model(given, [keras.layers.Dense(2)(given), keras.layers.Dense(3)(given)])
""",
        GROWN,
    ),
    "ops along the batch": (
        """\
import keras
import numpy as np
x = np.random.rand(20, 4)
given = keras.Input((4,))
model = keras.Model(given, keras.layers.Dense(2)(given - keras.ops.mean(given, 0)))
""",
        GROWN,
    ),
}


def edited(before: str) -> str | None:
    text = source_file.parse_source("train.py", before)
    assert text is not None
    line = next(i for i, row in enumerate(before.splitlines(), 1) if ".predict(" in row)
    found = batched.at_once(text, line)
    return edits.edited_text(text, found) if found else None


@pytest.mark.parametrize("name", CASES)
def test_all_rows_at_once(name: str) -> None:
    made, loop, after = CASES[name]
    assert edited(made + loop) == made + after


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    made, loop = STAYS[name]
    assert edited(made + loop) is None


def test_what_the_others_differ_from_is_edited() -> None:
    assert edited(MADE + GROWN) is not None
    assert edited(beside("z = y[i] + 1")[0] + beside("z = y[i] + 1")[1]) is not None
    assert edited("".join(of_model("keras.layers.Softmax(axis=1)"))) is not None


FUNCTIONS = """\
import keras
import numpy as np
x = np.random.rand(20, 4)
h0 = keras.Input((4,))
LAYERSmodel = keras.Model(h0, h300)
"""
LONG = {
    "one behind the other": FUNCTIONS.replace(
        "LAYERS", "".join(f"h{i + 1} = keras.layers.Dense(4)(h{i})\n" for i in range(300))
    ),
    "under one name": FUNCTIONS.replace("h0 =", "h300 =")
    .replace("h0,", "given,")
    .replace("LAYERS", "given = h300\n" + "h300 = keras.layers.Dense(4)(h300)\n" * 300),
    "one in the other": of_model("keras.layers.TimeDistributed(" * 40 + "keras.layers.Dense(3)" + ")" * 40)[0],
    "a model added to a model": MADE + "model.add(keras.Sequential([keras.layers.Dense(2)]))\n",
}


@pytest.mark.parametrize("name", LONG)
def test_a_model_of_very_many_layers_is_read_to_its_end(name: str) -> None:
    assert edited(LONG[name] + GROWN) is not None
    own = LONG[name].replace("keras.layers.Dense(3)", "Mixing()").replace("keras.layers.Dense(4)(h0)", "Mixing()(h0)")
    own = own.replace("h300 = keras.layers.Dense(4)(h300)", "h300 = Mixing()(h300)", 1)
    own = own.replace("Sequential([keras.layers.Dense(2)])", "Sequential([Mixing()])")
    assert edited(own + GROWN) is None


RUN = """
import json, sys
import keras, numpy as np
for texts in json.load(sys.stdin):
    told = []
    for text in texts:
        keras.utils.set_random_seed(0)
        names = {}
        exec(compile(text, "train.py", "exec"), names)
        told.append(np.array(names["out"], "float64"))
    same = told[0].shape == told[1].shape and np.allclose(*told, rtol=1e-5, atol=1e-6)
    print("ENDED", json.dumps([same, bool(np.abs(told[0]).sum() > 0)]), flush=True)
"""


@pytest.mark.tensorflow
def test_they_give_the_same() -> None:
    rows = 'np.load("rows.npy")'
    pairs = [[(made + text).replace(rows, "np.random.rand(20, 4)") for text in both] for made, *both in CASES.values()]
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(pairs), capture_output=True, text=True, timeout=120, check=False
    )
    told = [json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("ENDED ")]
    assert told == [[True, True]] * len(pairs), done.stderr[-2000:]
