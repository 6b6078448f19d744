"""False findings that public scripts showed, each beside the like of it that is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomllib

from . import spotted

ROOT = Path(__file__).parents[2]

AGENT = """
class Agent:
    def update(self, states):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.model(states))
        self.opt.apply_gradients(zip(tape.gradient(loss, self.w), self.w))
    def epochs(self, *batch):
        for part in self.parts(*batch):
            self.update(part)
    {0}
    def train_step(self):
        self.epochs(*tf.numpy_function(self.read, [], [tf.float32]))
"""
OTHER_CALLER = "    def warm_up(self):\n        self.epochs(self.read())\n"
PAIRS = """
def build(a, b, y, c, d, v):
    model = keras.Model([p, q], out)
    model.compile("adam", "mse")
    model.fit([a, b], y, batch_size=128, epochs=20, validation_data=([c, d], v))
"""
STORE = """
class Agent:
    def store(self, batch):
        for i in range(self.environments):
            for item in batch:
                self.buffers[i].append(item[i])
    def read(self):
        batch = [np.asarray(item) for item in {0}]
        self.store(batch)
        return batch
    @tf.function
    def train_step(self):
        for _ in range(self.times):
            batch = tf.numpy_function(self.read, [], [tf.float32])
            with tf.GradientTape() as tape:
                loss = self.model(batch)
            self.opt.apply_gradients(zip(tape.gradient(loss, self.w), self.w))
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (AGENT.format("@tf.function"), []),  # the function with the tape is called inside the graph alone
        (AGENT.format("@property"), [2]),
        (AGENT.format("@tf.function") + OTHER_CALLER, [2]),
    ],
)
def test_a_tape_that_only_a_graph_calls(text: str, lines: list[int]) -> None:
    assert spotted.lines("host/eager-step", text) == lines


def test_a_list_of_inputs_is_not_counted_as_samples() -> None:
    assert spotted.lines("host/frequent-validation", PAIRS) == []
    few = "a, b, c, d = np.zeros((100, 3)), np.zeros((100, 3)), np.zeros((5000, 3)), np.zeros((5000, 3))\n"
    call = PAIRS.replace("def build(a, b, y, c, d, v):\n", "if True:\n")
    assert spotted.lines("host/frequent-validation", few + call) != []


@pytest.mark.parametrize(("held", "lines"), [("[self.states(), self.ends()]", []), ("range(self.size)", [4])])
def test_a_loop_over_the_parts_of_a_batch(held: str, lines: list[int]) -> None:
    assert spotted.lines("input/python-input", STORE.format(held)) == lines


@pytest.mark.parametrize(("use", "lines"), [("tf.random.categorical({}, 1)", []), ("-tf.reduce_mean({})", [2])])
def test_a_logarithm_that_is_only_drawn_from(use: str, lines: list[int]) -> None:
    text = "def f(x):\n    return " + use.format("tf.math.log(tf.nn.softmax(x, -1))") + "\n"
    assert spotted.lines("numerics/nonfinite-loss", text) == lines


GAN = """
from builders import build
maker, judge = build()
for step in range(5000):
    {0}fakes = maker.predict(np.random.normal(size=(64, 100)))
    judge.{1}(fakes, np.zeros(64))
"""


@pytest.mark.parametrize(
    ("before", "method", "lines"),
    [("", "train_on_batch", [4]), ("if step % 10 == 0: ", "train_on_batch", []), ("", "partial_fit", [])],
)
def test_a_model_of_an_unknown_file_beside_a_step_of_keras(before: str, method: str, lines: list[int]) -> None:
    assert spotted.lines("host/predict-in-loop", GAN.format(before, method)) == lines


EPISODES = """
model = keras.Sequential([layers.Dense(2)])
model.compile("adam", "mse")
for step in range(5000):
    x = rows(step)
    if {0}:
        model.train_on_batch(x, x)
    else:
        model.train_on_batch(x, x)
        y = model.predict(x)
"""


@pytest.mark.parametrize(("test", "lines"), [("step == 0", [9]), ("mode == 'a'", []), ("step == last", [])])
def test_the_branch_of_all_iterations_but_one(test: str, lines: list[int]) -> None:
    assert spotted.lines("host/predict-in-loop", EPISODES.format(test)) == lines


STATES = """
def best(model, state):
    return model.predict(state.reshape({0})).flatten()
model = keras.Sequential([layers.Dense(2)])
model.compile("adam", "mse")
model.fit(xs, ys, epochs=20)
while True:
    move(best(model, state()))
"""


@pytest.mark.parametrize(("shape", "lines"), [("[1, 4]", [2]), ("(1, 4)", [2]), ("[-1, 4]", []), ("[64, 4]", [])])
def test_a_row_that_a_list_of_sizes_makes(shape: str, lines: list[int]) -> None:
    assert spotted.lines("host/predict-in-loop", STATES.format(shape)) == lines


PICTURES = """
from {0} import ImageDataGenerator
pictures = ImageDataGenerator(rescale=1 / 255).flow_from_directory("train")
model = keras.Sequential([layers.Dense(2)])
model.compile("adam", "mse")
{1}
"""
DRAWN = "for step in range(5000):\n    x, y = next(pictures)\n    model.train_on_batch(x, y)"
SHOWN = "x, y = next(pictures)\nfor step in range(5000):\n    model.train_on_batch(x, y)"


@pytest.mark.parametrize(
    ("module", "use", "lines"),
    [
        ("keras.preprocessing.image", "model.fit(pictures, epochs=9)", [2]),
        ("keras_preprocessing.image", "model.fit(pictures, epochs=9)", [2]),
        ("my_preprocessing.image", "model.fit(pictures, epochs=9)", []),
        ("keras.preprocessing.image", DRAWN, [2]),
        ("keras.preprocessing.image", DRAWN.replace("x, y = next(pictures)", "x, y = next(iter(rows))"), []),
        ("keras.preprocessing.image", SHOWN, []),
    ],
)
def test_pictures_that_python_decodes(module: str, use: str, lines: list[int]) -> None:
    assert spotted.lines("input/python-input", PICTURES.format(module, use)) == lines


SOUNDS = """
def sounds():
    for i in range(len(clips)):
        x = tf.transpose(tf.convert_to_tensor(cut(clips[i])))
        yield x, {0}
rows = tf.data.Dataset.from_generator(sounds, (tf.float32, tf.float32))
model = keras.Sequential([layers.Dense(2)])
model.compile("adam", "mse")
model.fit(rows{1}.prefetch(2), epochs=9)
"""


@pytest.mark.parametrize(
    ("label", "batched", "lines"),
    [
        ("tf.convert_to_tensor(labels[i])", ".batch(32)", [5]),
        ("tf.convert_to_tensor(labels[i])", "", []),  # a batch of its own
        ("labels[i]", ".batch(32)", []),  # two ops
    ],
)
def test_ops_for_each_sample_of_a_generator(label: str, batched: str, lines: list[int]) -> None:
    assert spotted.lines("input/python-input", SOUNDS.format(label, batched)) == lines


MADE = """
from keras.preprocessing.image import ImageDataGenerator
def pictures(folder):
    turned = ImageDataGenerator({0})
    made = turned.flow_from_directory(folder, batch_size=32)
    {1}
    return made
"""


@pytest.mark.parametrize(
    ("arguments", "use", "lines"),
    [
        ("zoom_range=0.1", "", [4]),
        ("zoom_range=0.1", "plot(made)", []),
        ("zoom_range=0.1", "x, y = next(made)", []),
        ("zoom_range=0.1", "x, y = made.next()", []),
        ("zoom_range=0.1", "for x, y in made:\n        plot(x)", []),
        ("zoom_range=0.1", "model.fit(x, y)", []),  # the file shows what it trains on
        ("zoom_range=0.1", "workers = 8", []),
        ("rescale=0.1", "", []),  # may be for predictions
    ],
)
def test_augmented_pictures_for_an_unknown_file(arguments: str, use: str, lines: list[int]) -> None:
    assert spotted.lines("input/python-input", MADE.format(arguments, use)) == lines


UNMADE = """
RATE = {0}
class Reader(keras.Model):
    def __init__(self):
        super().__init__()
        self.rows = layers.LSTM(64, recurrent_dropout=RATE)
def train(model, x, y):
    model.fit(x, y, epochs=9)
"""


@pytest.mark.parametrize(("rate", "lines"), [("0.2", [5]), ("0.0", []), ("settings()", [])])
def test_a_dropout_by_name_in_a_model_that_nobody_makes(rate: str, lines: list[int]) -> None:
    assert spotted.lines("compute/unfused-rnn", UNMADE.format(rate)) == lines


@pytest.mark.parametrize("name", ["third", "fourth"])
def test_the_table_counts_what_is_listed(name: str) -> None:
    if not (ROOT / "clinic").is_dir():
        pytest.skip("the clinic is not here")
    listed = tomllib.loads((ROOT / f"clinic/public_{name}.toml").read_text(encoding="utf-8"))
    verdicts = [finding.split()[2].rstrip(":") for finding in listed["findings"]]
    counts = [verdicts.count(verdict) for verdict in ("true", "arguable", "false")]
    found = listed["labelled"] - len(listed["missed"])
    row = re.search(
        rf"^\| {name}, when first read.*$", (ROOT / "docs/lint.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert row is not None
    written = [int(number) for number in re.findall(r"\d+", row.group())]
    assert written[:1] + written[2:] == [
        len(listed["programs"]),
        listed["labelled"],
        len(verdicts),
        *counts,
        found,
        round(100 * found / listed["labelled"]),
    ]
