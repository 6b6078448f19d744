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
