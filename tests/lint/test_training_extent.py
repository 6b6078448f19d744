"""A finding about speed is minor if the training is short or runs it rarely, and each kind has its counterpart."""

from __future__ import annotations

from textwrap import dedent

import pytest

from .linting import PIPELINE, Folder

EAGER_STEPS = """\
import keras

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse", run_eagerly=True)
for batch in range({turns}):
    model.train_on_batch(x, y)
"""


def _causes(folder: Folder, text: str, name: str = "train.py") -> list[str]:
    folder.put_bytes(name, dedent(text).encode())
    return sorted({cause for _, cause, _ in folder.found(name)})


@pytest.mark.parametrize(("turns", "found"), [("4", []), ("40", ["host/eager-step"]), ("n", ["host/eager-step"])])
def test_a_trial_of_a_few_steps(folder: Folder, turns: str, found: list[str]) -> None:
    assert _causes(folder, EAGER_STEPS.format(turns=turns)) == found


def test_minor_findings_are_counted_and_shown_on_request(folder: Folder) -> None:
    folder.put(train__py=EAGER_STEPS.format(turns="4"))
    assert folder.lint("train.py") == 0
    assert folder.out.splitlines() == [
        "nothing found in 1 file.",
        "1 minor finding not shown, which would save little; --minor adds them.",
    ]
    assert folder.document("train.py")["minor_count"] == 1
    assert folder.lint("--minor", "train.py") == 1
    (shown,) = folder.document("--minor", "train.py")["findings"]
    assert (shown["cause"], shown["minor"]) == ("host/eager-step", True)
    assert folder.document("--minor", "train.py")["minor_count"] == 0


def test_a_comment_may_ignore_a_minor_finding(folder: Folder) -> None:
    marked = EAGER_STEPS.format(turns="4").replace("run_eagerly=True)", "run_eagerly=True)  # slowtrain: ignore")
    folder.put(train__py=marked)
    assert folder.lint("train.py") == 0
    assert folder.out == "nothing found in 1 file.\n"


def test_a_function_may_be_called_often(folder: Folder) -> None:
    body = EAGER_STEPS.format(turns="4").replace("\n", "\n    ")
    assert _causes(folder, f"def run(x, y):\n    {body}\n") == ["host/eager-step"]


@pytest.mark.parametrize(
    ("name", "test", "found"),
    [
        ("test_model.py", "def test_fit():\n    pass\n", []),
        ("test_model.py", "", ["host/eager-step"]),  # it tests a model on data
        ("model.py", "def test_fit():\n    pass\n", ["host/eager-step"]),
    ],
    ids=["tests", "no test in it", "another name"],
)
def test_files_of_tests(folder: Folder, name: str, test: str, found: list[str]) -> None:
    assert _causes(folder, EAGER_STEPS.format(turns="n") + test, name) == found


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ("np.array([-40, -10, 0, 8, 15], dtype=float)", []),
        ("np.load('degrees.npy')", ["host/eager-step"]),
        ("np.array([row.degrees for row in rows])", ["host/eager-step"]),
        (f"np.array({list(range(200))})", ["host/eager-step"]),
    ],
    ids=["five numbers", "a file", "rows", "two hundred numbers"],
)
def test_data_written_in_the_script(folder: Folder, data: str, found: list[str]) -> None:
    script = f"""\
        import keras
        import numpy as np

        degrees = {data}
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("adam", "mse", run_eagerly=True)
        model.fit(degrees, degrees * 1.8 + 32, epochs=500)
        """
    assert _causes(folder, script) == found


SHOWN = """\
import keras
import tensorflow as tf
from PIL import Image


def pictures():
    for name in {names}:
        yield tf.convert_to_tensor(Image.open(name).resize((160, 160)))


model = keras.models.load_model("zoo.keras")
shown = tf.data.Dataset.from_generator(pictures, output_types=tf.float32).batch(1)
{use}
"""


@pytest.mark.parametrize(
    ("names", "use", "found"),
    [
        ("['owl.png', 'elk.png', 'emu.png', 'asp.png']", "print(model.predict(shown))", False),
        ("names", "print(model.predict(shown))", True),
        ("['owl.png', 'elk.png', 'emu.png', 'asp.png']", "model.compile('adam')\nmodel.fit(shown, epochs=n)", True),
    ],
    ids=["four pictures, predicted", "many pictures", "trained on"],
)
def test_pictures_that_are_shown_once(folder: Folder, names: str, use: str, found: bool) -> None:
    assert ("input/python-input" in _causes(folder, SHOWN.format(names=names, use=use))) is found


@pytest.mark.parametrize(
    ("name", "use", "found"),
    [
        ("test_ds", "model.evaluate(test_ds)", False),
        ("test_ds", "model.fit(train_ds, validation_data=test_ds)", True),
        ("val_ds", "model.evaluate(val_ds)", True),
        ("latest", "model.evaluate(latest)", True),
    ],
)
def test_a_test_set_is_read_once(folder: Folder, name: str, use: str, found: bool) -> None:
    first, _ = PIPELINE.split("model.fit")
    seen = _causes(folder, first.replace("ds = ", f"{name} = ").replace("= ds.", f"= {name}.") + use)
    assert ("input/sequential-map" in seen) is found


COLLECTED = """\
import keras
import numpy as np

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse")
losses = np.array([])
for batch in loader:
    losses = np.append(losses, model.train_on_batch(*batch){axis})
    {use}
"""


@pytest.mark.parametrize(
    ("axis", "use", "found"),
    [("", "pass", []), ("", "print(losses)", ["drift/growing-step"]), (", axis=0", "pass", ["drift/growing-step"])],
    ids=["a number a step", "read in the loop", "rows"],
)
def test_numbers_that_are_collected(folder: Folder, axis: str, use: str, found: list[str]) -> None:
    assert _causes(folder, COLLECTED.format(axis=axis, use=use)) == found


EPISODES = """\
import keras
import numpy as np

model = keras.Sequential([keras.layers.Dense(2)])
model.compile("adam", "mse")
for episode in range(3000):
    state, done = env.reset(), False
    {inner}
        move = np.argmax(model.predict(state[None, :]))
        state, reward, done = env.step(move)
    values = model.predict(memory.sample(32))
    model.train_on_batch(states, values)
"""


@pytest.mark.parametrize("inner", ["while not done:", "for turn in range(limit):"])
def test_what_is_done_once_after_an_episode(folder: Folder, inner: str) -> None:
    folder.put(train__py=EPISODES.format(inner=inner))
    assert [line for _, _, line in folder.found()] == [9]


def test_an_agent_that_acts_once_in_each_turn(folder: Folder) -> None:
    folder.put(train__py=EPISODES.format(inner="if episode:"))
    assert [line for _, _, line in folder.found()] == [9, 11]


EPOCHS = """\
import keras
import numpy as np

model = keras.Sequential([keras.layers.Dense(2)])
model.compile("adam", "mse")
x = np.zeros((6400, 8), "float32")
for epoch in range(400):
    for step in range({steps}):
        model.train_on_batch(x[step * 8:step * 8 + 8], x[step * 8:step * 8 + 8, :2])
        if step % half == 0:
            plot(model.predict(x[:8]))
"""


@pytest.mark.parametrize(("steps", "found"), [("800", []), ("len(names)", []), ("5", [11])])
def test_what_is_done_rarely_in_an_epoch(folder: Folder, steps: str, found: list[int]) -> None:
    folder.put(train__py=EPOCHS.format(steps=steps))
    assert [line for _, cause, line in folder.found() if cause == "host/predict-in-loop"] == found


COPIES = """\
import keras


def copy():
    values = model.get_weights()
    target.set_weights([0.1 * one for one in values])


model = keras.Sequential([keras.layers.Dense(1)])
target = keras.models.clone_model(model)
model.compile("adam", "mse")
for step in range(3000):
    model.train_on_batch(x[step], y[step])
    if {test}:
        copy()
"""


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("step % 10 == 0", []),
        ("step % 2 == 0", ["transfer/per-step-readback"]),
        ("step > 100", ["transfer/per-step-readback"]),
    ],
)
def test_weights_that_are_copied_rarely(folder: Folder, test: str, found: list[str]) -> None:
    assert _causes(folder, COPIES.format(test=test)) == found


MASKS = """import keras
import numpy as np


def read_mask(name, one_hot={default}, other=True):
    image = images[name]
    if one_hot:
        mask = np.zeros((64, 64, 3))
        for row, column in np.argwhere(image):
            mask[row, column, 0] = 1
        return mask
    return image


class Samples(keras.utils.Sequence):
    def __getitem__(self, index):
        return np.stack([read_mask(name{given}) for name in names[index]])


model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(Samples(), epochs=10)
"""


@pytest.mark.parametrize(
    ("default", "given", "found"),
    [
        ("True", ", one_hot=False", []),
        ("False", "", []),
        ("False", ", True", ["input/python-input"]),
        ("False", ", other=False, **options", ["input/python-input"]),
    ],
    ids=["off in the call", "off", "on in the call", "unknown"],
)
def test_a_branch_that_the_call_turns_off(folder: Folder, default: str, given: str, found: list[str]) -> None:
    causes = _causes(folder, MASKS.format(default=default, given=given))
    assert [one for one in causes if one == "input/python-input"] == found


WIDE = """\
import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse")
ds = tf.data.Dataset.from_tensor_slices((np.random.rand(60000, {numbers}), labels)).batch({size})
model.fit(ds, epochs=10)
"""


@pytest.mark.parametrize(
    ("numbers", "size", "found"),
    [(50, "32", False), (784, "32", False), (784, "64", True), (784, "size", True)],
    ids=["13 KB", "200 KB", "400 KB", "unknown"],
)
def test_wide_arrays_in_small_batches(folder: Folder, numbers: int, size: str, found: bool) -> None:
    causes = _causes(folder, WIDE.format(numbers=numbers, size=size))
    assert ("transfer/wide-input" in causes) is found


UPLOADS = """\
import keras
import matplotlib.pyplot as plt
import numpy as np

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, epochs=10)
for name in names:
    image = np.expand_dims(np.array(load(name)) / 255.0, axis=0)
    kinds.append(model.predict(image)[0])
    {show}
"""


@pytest.mark.parametrize(
    ("show", "found"),
    [("plt.show()", []), ("pass", ["host/predict-in-loop"]), ("if wrong: plt.show()", ["host/predict-in-loop"])],
    ids=["each is shown", "none is shown", "some are shown"],
)
def test_pictures_that_a_person_looks_at(folder: Folder, show: str, found: list[str]) -> None:
    assert _causes(folder, UPLOADS.format(show=show)) == found


def test_a_picture_that_is_shown_after_an_epoch(folder: Folder) -> None:
    inner = "for other in names:\n        model.predict(image)\n    plt.show()"
    assert _causes(folder, UPLOADS.format(show=inner)) == ["host/predict-in-loop"]


ROWS = """\
import keras
import numpy as np
import tensorflow as tf
{network}

ds = tf.data.Dataset.from_tensor_slices((np.zeros((60000, 50), np.int32), labels))
ds = ds.map(lambda words, label: (words, tf.cast(label, tf.float32))).batch(32).prefetch(1)
model.fit(ds, epochs=10)
"""


@pytest.mark.parametrize(
    ("network", "found"),
    [
        ("model = keras.Sequential([keras.layers.Dense(1)])", True),
        ("from models import bert_small as model", True),
        ("from transformers import TFAutoModelForTokenClassification", False),
        ("model = keras.applications.EfficientNetB0(weights=None)", False),
    ],
)
def test_work_that_is_small_beside_a_large_network(folder: Folder, network: str, found: bool) -> None:
    assert ("input/per-element-map" in _causes(folder, ROWS.format(network=network))) is found


FORECAST = """\
import keras
import numpy as np


def forecast(row, days):
    for _ in range(days):
        row = np.append(row[1:], model.predict(row[None, :])[0])
    return row


model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse")
{training}
{use}
"""
TRAINED_BEFORE = "model.fit(x, y, epochs=100)"


@pytest.mark.parametrize(
    ("training", "use", "found"),
    [
        (TRAINED_BEFORE, "print(forecast(x[-1], 30))", False),
        (TRAINED_BEFORE, "print(forecast(x[-1], 3000))", True),
        (TRAINED_BEFORE, "print(forecast(x[-1], days))", True),
        (TRAINED_BEFORE, "while True:\n    print(forecast(record(), days))", False),
        (TRAINED_BEFORE, "print(list(map(forecast, rows, lengths)))", True),
        (TRAINED_BEFORE, "", False),
        ("", "print(forecast(x[-1], days))", True),
        ("", "for _ in range(100):\n    model.fit(x, y, epochs=9)\n    forecast(x[-1], 30)", True),
    ],
    ids=[
        "30 days",
        "3,000 days",
        "some days",
        "until the end",
        "passed on",
        "nobody calls it",
        "no training",
        "in each round",
    ],
)
def test_predictions_after_training(folder: Folder, training: str, use: str, found: bool) -> None:
    causes = _causes(folder, FORECAST.format(training=training, use=use))
    assert ("host/predict-in-loop" in causes) is found


@pytest.mark.parametrize(("days", "found"), [("30", False), ("3000", True), ("days", True)])
def test_predictions_after_training_in_a_function_that_nobody_calls(folder: Folder, days: str, found: bool) -> None:
    function = FORECAST.partition("def")[0] + dedent("""\
        def train_and_forecast(x, y, days):
            model = keras.Sequential([keras.layers.Dense(1)])
            model.compile("adam", "mse")
            model.fit(x, y, epochs=100)
            for _ in range({days}):
                row = np.append(row[1:], model.predict(row[None, :])[0])
        """)
    assert ("host/predict-in-loop" in _causes(folder, function.format(days=days))) is found


CAMERA = """\
import keras


class Camera:
    def show(self):
        for face in self.detector.find(self.video.read()):
            self.draw(model.predict(face[None, :], verbose=0))
{method}

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, epochs=100)
"""


@pytest.mark.parametrize(
    ("method", "found"), [("", False), ("\n    def learn(self):\n        model.fit(self.seen, self.names)\n", True)]
)
def test_a_class_that_does_not_train(folder: Folder, method: str, found: bool) -> None:
    assert ("host/predict-in-loop" in _causes(folder, CAMERA.format(method=method))) is found


RECURRENT = """\
import os
import keras

os.environ["CUDA_VISIBLE_DEVICES"] = "{visible}"
model = keras.Sequential([keras.layers.LSTM(64, activation="relu")])
model.compile("adam", "mse")
model.fit(x, y, epochs=10)
"""


@pytest.mark.parametrize(("visible", "found"), [("", []), ("-1", []), ("0", ["compute/unfused-rnn"])])
def test_a_script_that_hides_the_gpu(folder: Folder, visible: str, found: list[str]) -> None:
    assert _causes(folder, RECURRENT.format(visible=visible)) == found


DECODED = """\
import tensorflow as tf


def load(path):
    return tf.image.decode_jpeg(tf.io.read_file(path))


ds = tf.data.Dataset.from_tensor_slices(files).map(load, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.shuffle({size}).batch(32).prefetch(tf.data.AUTOTUNE)
model.fit(ds, epochs=10)
"""


@pytest.mark.parametrize(
    ("size", "found"), [("100", []), ("1000", ["input/shuffle-fill"]), ("n", ["input/shuffle-fill"])]
)
def test_a_shuffle_of_a_few_pictures(folder: Folder, size: str, found: list[str]) -> None:
    assert _causes(folder, DECODED.format(size=size)) == found


def test_a_shuffle_of_most_of_few_pictures(folder: Folder) -> None:
    few = DECODED.replace("(files)", "(np.arange(400))").replace(
        "import tensorflow", "import numpy as np\nimport tensorflow"
    )
    assert _causes(folder, few.format(size="120")) == ["input/shuffle-fill"]


MODES = """\
import keras
import tensorflow as tf

model = keras.Sequential([keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()
if {test}:
    for x, y in batches:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
else:
    model.compile("adam", "mse")
    model.fit(batches, epochs=100)
"""


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("FLAGS.mode == 'eager_tf'", []),
        ("args.debug", []),
        ("args.custom", ["host/eager-step"]),
        ("not args.debug", ["host/eager-step"]),
        ("mode != 'eager'", ["host/eager-step"]),
    ],
)
def test_a_loop_for_debugging(folder: Folder, test: str, found: list[str]) -> None:
    assert _causes(folder, MODES.format(test=test)) == found


PICTURES = """\
import keras
{network}

pictures = keras.preprocessing.image.ImageDataGenerator(rotation_range=9).flow_from_directory("photos")
model.fit(pictures, steps_per_epoch={steps}, epochs=10)
"""
AFTER_EPOCH = """\
import keras
from nets import Conv2D


class Show(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        for at in range(20):
            self.model.predict(pictures[at : at + 1])


model = keras.Sequential([Conv2D(8, 3)])
model.compile("adam", "mse")
model.fit(x, y, epochs=100, callbacks=[Show()])
"""
THREE_THOUSAND, SOME = "print(forecast(x[-1], 3000))", "print(forecast(x[-1], days))"
LONG_BATCH = "making a batch takes longer than a step, which the device computes meanwhile"


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (
            FORECAST.format(training=TRAINED_BEFORE, use=THREE_THOUSAND),
            "the whole run takes less than 30 minutes: it runs 3,000 times, each about 30 ms",
        ),
        (FORECAST.format(training=TRAINED_BEFORE, use=SOME), "it runs more than 300 times, each about 30 ms"),
        (FORECAST.format(training="", use=SOME), None),
        (PICTURES.format(network="", steps=500), LONG_BATCH),
        (PICTURES.format(network="", steps=4), "it trains for more than the 40 steps of the text"),
        (EAGER_STEPS.format(turns="n"), None),
        (EAGER_STEPS.format(turns="n") + "class VisionException(Exception): pass", None),
        (EAGER_STEPS.format(turns="n") + "keras.applications.VGG16()", "a step takes less than 0.2 s"),
        (AFTER_EPOCH, "an epoch takes less than 12 s"),
        (PIPELINE, "making a batch takes 5 % of a step or more"),
    ],
)
def test_what_the_worth_of_a_finding_depends_on(folder: Folder, text: str, condition: str | None) -> None:
    folder.put(train__py=text)
    conditions = {one["worth_if"] for one in folder.document("train.py")["findings"]}
    assert condition in conditions
    folder.lint("train.py")
    assert (f" = worth it if {condition}\n" in folder.out) is (condition is not None)
    folder.lint("--format", "github", "train.py")
    assert (f" Worth it if {condition}." in folder.out.replace("%25", "%")) is (condition is not None)
    folder.lint("--format", "sarif", "train.py")
    assert (f" Worth it if {condition}." in folder.out) is (condition is not None)
