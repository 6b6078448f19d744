"""Code that no file calls, judged by the use that its text proves, each beside the like of it that stays silent."""

from __future__ import annotations

import pytest

from . import spotted
from .linting import Folder

PYTHON_INPUT = "input/python-input"
PREDICT = "host/predict-in-loop"
EAGER = "host/eager-step"
SEQUENCE = """
import cv2
class Photos(keras.utils.Sequence):
    def __init__(self, files, labels, size=32):
        self.files, self.labels, self.size = files, labels, size
    def __len__(self):
        return len(self.files) // self.size
    def __getitem__(self, i):
        part = slice(i * self.size, (i + 1) * self.size)
        x = self.read(self.files[part])
        return x, self.labels[part]
    def read(self, files):
        x = np.zeros((self.size, 64, 64, 3))
        for k, file in enumerate(files):
            x[k] = cv2.imread(file)
        return x
"""
RETURN = "return x, self.labels[part]"
PAIR = f"def pair(self, x, part):\n        {RETURN}\n"
TRAINING = """
model = keras.Sequential([layers.Dense(1)])
model.compile("adam", "mse")
model.fit(np.zeros((5000, 9)), np.zeros(5000), epochs=9)
"""


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ((), [14]),
        ((("keras.utils.Sequence", "keras.utils.PyDataset"),), [14]),
        (((RETURN, "return self.pair(x, part)"), ("def read", PAIR + "    def read")), [16]),
        ((("x[k] = cv2", "if k not in self.cache:\n                self.cache[k] = cv2"),), []),  # once
        ((("(keras.utils.Sequence)", ""),), []),  # may be anything
        (((RETURN, "return x"),), []),  # feeds predict, once
        ((("cv2.imread(file)", "self.pictures[k]"),), []),  # in memory
        ((("size=32", "size=32, workers=4"),), []),  # other processes read it
    ],
)  # fmt: skip
def test_a_sequence_that_nobody_reads(changes: tuple[tuple[str, str], ...], lines: list[int]) -> None:
    text = SEQUENCE
    for old, new in changes:
        text = text.replace(old, new)
    assert spotted.lines(PYTHON_INPUT, text) == lines


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        (TRAINING, []),  # the script trains on something else
        (TRAINING.replace("model.fit(", "learn(model, Photos(files, labels))\nmodel.fit("), [14]),
        ("batches = Photos(files, labels)\nx, y = batches[0]\n", [14]),  # looks at one
    ],
)
def test_a_sequence_of_a_script(more: str, lines: list[int]) -> None:
    assert spotted.lines(PYTHON_INPUT, SEQUENCE + more) == lines


MAIN = """\
import keras
from photos import Photos

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(Photos(files, labels), epochs=9{0})
"""


@pytest.mark.parametrize(
    ("main", "lines"),
    [
        (MAIN.format(""), [19]),
        (MAIN.format(", workers=1"), [19]),
        (MAIN.format(", workers=count, use_multiprocessing=True"), []),
        (MAIN.format("").replace("model.fit(Photos(files, labels)", "model.fit(x, y"), []),  # nothing trains on it
    ],
)
def test_a_sequence_that_another_file_may_read(folder: Folder, main: str, lines: list[int]) -> None:
    folder.put(photos__py=spotted.HEAD + SEQUENCE, main__py=main)
    assert folder.found("photos.py") == [("photos.py", PYTHON_INPUT, line) for line in lines]


GENERATOR = """
import cv2
class Loader:
    def load(self, files, size=16):
        while True:
            for i in range(len(files) // size):
                x = []
                for file in files[i * size:(i + 1) * size]:
                    x.append(cv2.imread(file))
                yield np.array(x), self.labels[i * size:(i + 1) * size]
"""


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ((), [8]),
        ((("while True:", "while 1:"),), [8]),
        ((("while True:", "if files:"),), []),  # one pass: may be a test
        ((("yield np.array(x), self.labels[i * size:(i + 1) * size]", "yield np.array(x)"),), []),
        ((("cv2.imread(file)", "self.pictures[file]"),), []),
        ((("size=16", "size=16, use_multiprocessing=True"),), []),
        ((("import cv2", "import cv2\nfrom concurrent.futures import ThreadPoolExecutor"),), []),
    ],
)
def test_an_endless_generator_that_nobody_reads(changes: tuple[tuple[str, str], ...], lines: list[int]) -> None:
    text = GENERATOR
    for old, new in changes:
        text = text.replace(old, new)
    assert spotted.lines(PYTHON_INPUT, text) == lines
    assert spotted.lines(PYTHON_INPUT, text + TRAINING) == []


AGENT = """
import random
from collections import deque
class Agent:
    def __init__(self, actions):
        self.memory = deque(maxlen=2000)
        self.model = keras.Sequential([layers.Dense(24), layers.Dense(actions)])
        self.model.compile("adam", "mse")
    def act(self, state):
        values = self.model.predict(state)
        return np.argmax(values[0])
    def replay(self, size):
        for state, action, reward, after in random.sample(self.memory, size):
            target = self.model.predict(state)
            target[0][action] = reward + np.amax(self.model.predict(after)[0])
            self.model.fit(state, target, epochs=1, verbose=0)
"""
REPLAY = AGENT[AGENT.index("    def replay") :]


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ((), [9, 13, 14, 15]),
        ((("predict(state)\n        return", "predict(np.array([state]))\n        return"),), [9, 13, 14, 15]),
        ((("values[0]", "values, axis=1"),), [13, 14, 15]),  # of any number of states
        ((("\n        self.model.compile", "\n        self.model.placeholder"),), [13, 14, 15]),  # TensorFlow 1
        ((("class Agent:", "class Agent(keras.Model):"),), [13, 14, 15]),  # Keras may call it
        (((REPLAY, ""),), []),  # learns nothing
        (((REPLAY, "    def train(self, x, y):\n        self.model.fit(x, y, epochs=50)\n"),), []),  # a classifier
        (((REPLAY, "    def train(self, x, y):\n        self.model.fit(x, y)\n"),), []),
        (((REPLAY, "    def update(self, x, y):\n        self.model.train_on_batch(x, y)\n"),), [9]),
        (((REPLAY, "    def update(self, d):\n        for x in d:\n            self.model.train_on_batch(x)\n"),), []),
        ((("def act(", "def _act("), ("y(self, size):", "y(self, size):\n        self._act(1)")), [9, 14, 15, 16]),
    ],
)  # fmt: skip
def test_an_agent_that_nobody_makes(changes: tuple[tuple[str, str], ...], lines: list[int]) -> None:
    text = AGENT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    assert sorted(spotted.lines(PREDICT, text)) == lines


@pytest.mark.parametrize("more", ["agent = Agent(2)\nagent.act(state)\n", TRAINING])
def test_an_agent_of_a_script_that_shows_its_use(more: str) -> None:
    assert 9 not in spotted.lines(PREDICT, AGENT + more)


LEARN = """\
    def learn(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.model(x) - y) ** 2)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
"""
CALL = (("values = self.model.predict(state)", "values = self.model(tf.convert_to_tensor([state]))"),)


@pytest.mark.parametrize(
    ("changes", "eager", "predicted"),
    [
        ((), [11], [9]),
        ((("    def learn", "    @tf.function\n    def learn"),), [], [9]),
        (CALL, [], []),  # any trainer may call its model once
        ((*CALL, ("y):\n", "y):\n        x, y = self.memory.sample_buffer(64)\n")), [11], []),
        ((*CALL, ("y):\n", "y):\n        x = tf.convert_to_tensor([x])\n")), [11], []),
        ((*CALL, ("y):\n", "y):\n        x = tf.convert_to_tensor(self.states)\n")), [], []),  # once in an episode
    ],
)
def test_the_step_of_an_agent(changes: tuple[tuple[str, str], ...], eager: list[int], predicted: list[int]) -> None:
    text = AGENT.replace(REPLAY, LEARN)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    assert spotted.lines(EAGER, text) == eager
    assert spotted.lines(PREDICT, text) == predicted
