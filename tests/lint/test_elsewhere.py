"""Names that lead into other files of the project: data sets that they make, functions that they map."""

from __future__ import annotations

import pytest

from slowtrain.script.navigation import project_files

from .linting import Folder

DATA = """\
import tensorflow as tf


def load(path):
    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path)), (64, 64))


def images(names):
    return tf.data.Dataset.from_tensor_slices(names).shuffle(9)


def batches(names):
    ds = images(names)
    return ds.map(load, num_parallel_calls=4).batch(8)
"""
TRAIN = "import tensorflow as tf\n{0}\nds = {1}\nds = ds.map({2}).batch(8).prefetch(2)\nmodel.fit(ds)\n"
MAP = "input/sequential-map"


@pytest.mark.parametrize(
    ("imported", "made", "mapped"),
    [
        ("from data import images, load", "images(names)", "load"),
        ("from data import images as im, load as ld", "im(names)", "ld"),
        ("import data", "data.images(names)", "lambda p: (data.load(p), 1)"),
        ("from .data import images, load", "images(names)", "load"),
    ],
)
def test_a_data_set_and_a_function_of_another_file(folder: Folder, imported: str, made: str, mapped: str) -> None:
    folder.put(data__py=DATA, train__py=TRAIN.format(imported, made, mapped))
    assert folder.found("train.py") == [("train.py", MAP, 4)]
    assert folder.lint("--fix", "train.py") == 0
    assert "num_parallel_calls=tf.data.AUTOTUNE" in folder.text("train.py")
    assert folder.text("data.py") == DATA


def test_through_a_package_that_hands_the_name_on(folder: Folder) -> None:
    folder.put_bytes("project/data/__init__.py", b"from .files import images, load\n")
    folder.put_bytes("project/data/files.py", DATA.encode())
    text = TRAIN.format("from project.data import images, load", "images(names)", "load")
    folder.put_bytes("project/bin/train.py", text.encode())
    assert folder.found("project/bin") == [("project/bin/train.py", MAP, 4)]


def test_a_pipeline_that_another_file_makes_whole(folder: Folder) -> None:
    folder.put(data__py=DATA, train__py="import keras\nfrom data import batches\nmodel.fit(batches(names))\n")
    assert folder.found("train.py") == [("train.py", "input/unprefetched-input", 3)]
    assert folder.lint("--fix", "train.py") == 0
    assert "model.fit(batches(names).prefetch(tf.data.AUTOTUNE))" in folder.text("train.py")


@pytest.mark.parametrize(
    "data",
    [
        DATA.replace(".shuffle(9)", ".map(load, 4).cache()"),
        DATA.replace("def images", "@wrapped\ndef images"),
        "x = 1\n",
    ],
)
def test_what_is_cached_or_not_certain_there_is_left_alone(folder: Folder, data: str) -> None:
    folder.put(data__py=data, train__py=TRAIN.format("from data import images, load", "images(names)", "load"))
    assert folder.found("train.py") == []


def test_of_two_returns_the_data_set(folder: Folder) -> None:
    data = DATA.replace("    return tf.data", "    if not names:\n        return None\n    return tf.data")
    folder.put(data__py=data, train__py=TRAIN.format("from data import images, load", "images(names)", "load"))
    assert folder.found("train.py") == [("train.py", MAP, 4)]


def test_no_file_no_answer(folder: Folder) -> None:
    folder.put(train__py=TRAIN.format("from nowhere import images, load", "images(names)", "load"))
    assert folder.found("train.py") == []


def test_files_that_import_each_other(folder: Folder) -> None:
    folder.put(
        a__py="from b import f\n", b__py="from a import f\n", train__py=TRAIN.format("from a import f", "f(1)", "f")
    )
    assert folder.found("train.py") == []


def test_inside_the_scope_of_a_strategy(folder: Folder) -> None:
    text = (
        DATA + "with strategy.scope():\n    ds = images(names)\n    ds = ds.map(load)\n    model = make()\n"
        "ds = strategy.experimental_distribute_dataset(ds.batch(8))\nfor x in ds:\n    model.train_on_batch(x)\n"
    )
    folder.put(train__py=text)
    assert ("train.py", MAP, 17) in folder.found("train.py")
    assert "input/unprefetched-input" in {cause for _, cause, _ in folder.found("train.py")}


AGENT = """\
import numpy as np
import tensorflow as tf


class Agent:
    def __init__(self):
        self.model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
        self.optimizer = tf.keras.optimizers.Adam()

    def act(self, state):
        return np.argmax(self.model.predict(state[None])[0])

    def learn(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.model(x) - y) ** 2)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
"""
RUN = """\
import numpy as np
from agent import Agent

agent = Agent()
for step in range(10_000):
    agent.act(np.random.rand(4))
    agent.learn(np.random.rand(64, 4), np.random.rand(64, 2))
"""
CALLED = [("agent.py", "host/predict-in-loop", 11), ("agent.py", "host/eager-step", 13)]


@pytest.mark.parametrize(
    "run",
    [
        RUN,
        RUN.replace("from agent import Agent", "import agent as agents").replace("= Agent()", "= agents.Agent()"),
        RUN.replace("from agent import Agent", "from agent import *"),
        RUN.replace("for step", "def main():\n  for step").replace("    agent.", "      agent.") + "main()\n",
    ],
)
def test_what_a_loop_of_another_file_calls(folder: Folder, run: str) -> None:
    folder.put(agent__py=AGENT, run__py=run)
    assert folder.found("agent.py") == CALLED
    assert folder.found("run.py") == []


def test_what_a_script_above_a_package_calls(folder: Folder) -> None:
    folder.put_bytes("agents/__init__.py", b"from .agent import Agent\n")
    folder.put_bytes("agents/agent.py", AGENT.encode())
    folder.put(run__py=RUN.replace("from agent", "from agents"))
    assert folder.found("agents/agent.py") == [(f"agents/{file}", cause, line) for file, cause, line in CALLED]


@pytest.mark.parametrize(
    "run",
    [
        RUN.replace("for step in range(10_000):", "if True:"),
        RUN.replace("agent = Agent()", "agent = Agent()\nagent.act = agent.learn = print"),
    ],
)
def test_what_no_loop_of_another_file_calls(folder: Folder, run: str) -> None:
    folder.put(agent__py=AGENT, run__py=run)
    assert folder.found(".") == []


def test_a_step_that_the_other_file_compiles(folder: Folder) -> None:
    run = RUN.replace("agent = Agent()", "agent = Agent()\nlearn = tf.function(agent.learn)").replace(
        "agent.learn(n", "learn(n"
    )
    folder.put(agent__py=AGENT, run__py=run.replace("import numpy", "import tensorflow as tf\nimport numpy"))
    assert folder.found("agent.py") == CALLED[:1]


def test_a_test_that_calls_it_is_no_training(folder: Folder) -> None:
    agent = AGENT.replace("np.argmax(self.model.predict(state[None])[0])", "self.model.predict(state)")  # of any number
    folder.put(agent__py=agent, test_run__py=RUN)
    assert folder.found("agent.py") == []
    folder.put(agent__py=agent, run__py=RUN)
    project_files.read_project_file.cache_clear()
    project_files._folder_scripts.cache_clear()
    assert folder.found("agent.py") == CALLED


def test_an_agent_that_no_file_creates_is_called_in_a_loop_of_steps(folder: Folder) -> None:
    folder.put(agent__py=AGENT, run__py=RUN.replace("from agent import Agent", "from other import Agent"))
    assert folder.found(".") == CALLED


def test_a_shuffle_of_what_another_file_decodes(folder: Folder) -> None:
    data = DATA + "\n\ndef decoded(names):\n    return images(names).map(load, num_parallel_calls=4)\n"
    train = (
        "import tensorflow as tf\nimport data\n\nds = data.decoded(tf.io.gfile.glob('*.jpg'))\nds = ds.shuffle(5000)\n"
        "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('sgd', 'mse')\n"
        "model.fit(ds.batch(8).prefetch(2), epochs=3)\n"
    )
    folder.put(data__py=data, train__py=train)
    assert folder.found("train.py") == [("train.py", "input/shuffle-fill", 5)]
    folder.put(data__py=data.replace("calls=4)\n", "calls=4).cache()\n"))
    project_files.read_project_file.cache_clear()
    assert folder.found("train.py") == []


def test_files_that_import_each_other_are_gone_through_once(folder: Folder) -> None:
    folder.put(agent__py="from run import nothing\n" + AGENT, run__py=RUN)
    assert [(cause, line) for _, cause, line in folder.found("agent.py")] == [(c, n + 1) for _, c, n in CALLED]
