"""What strangers' scripts showed: kinds of places that were missed, and findings that were false."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .linting import Folder

FOUND = Path(__file__).parents[2].parent / "shared" / "found" / "lint"
RIGHT: dict[str, list[tuple[str, int]]] = {
    "eager_agent.py": [("host/eager-step", 12)],
    "eager_augmentation.py": [("host/eager-step", 38)],
    "first_of_two_predict_loops.py": [("host/predict-in-loop", 12), ("host/predict-in-loop", 15)],
    "image_data_generator.py": [("input/python-input", 10), ("host/frequent-validation", 12)],
    "records.py": [("input/sequential-map", 11)],
    "shuffle_after_cache.py": [],
    "shuffle_of_another_modules_images.py": [("input/oversized-shuffle", 6), ("input/shuffle-fill", 6)],
    "tensorboard_each_batch_fit.py": [("host/heavy-callback", 5)],
    "transform_in_loop.py": [("host/elementwise-preprocessing", 12)],
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers(folder: Folder, name: str) -> None:
    if not FOUND.is_dir():
        pytest.skip("the scripts of ../shared/found are not here")
    for file in FOUND.glob("*.py"):
        shutil.copy(file, folder.path)
    assert [(cause, line) for _, cause, line in folder.found(name)] == RIGHT[name]


def test_an_element_is_an_image_and_its_label(folder: Folder) -> None:
    if not FOUND.is_dir():
        pytest.skip("the scripts of ../shared/found are not here")
    shutil.copy(FOUND / "row_of_two.py", folder.path)
    command = [sys.executable, "-m", "slowtrain", "lint", "--format", "json", "row_of_two.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder.path)
    assert "row of 2 numbers" not in done.stdout
    assert "28 x 28" in done.stdout


IMAGES = """\
from keras.models import Sequential
from keras.preprocessing.image import ImageDataGenerator

model = Sequential([])
model.compile("sgd", "mse")
reader = ImageDataGenerator(rescale=1 / 255, zoom_range=0.2)
train = reader.flow_from_directory("train")
test = reader.flow_from_directory("test")
model.fit(train, epochs=20, steps_per_epoch=100, validation_data=test, validation_steps=50)
"""
AUGMENTED = """\
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD()
{0}

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model({2}) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


for epoch in range(100):
    for x in tf.data.Dataset.from_tensor_slices(images).batch(64).prefetch(2):
        step({1})
"""
LAYERS = "flip = tf.keras.Sequential([tf.keras.layers.RandomFlip(), tf.keras.layers.RandomRotation(0.1)])\n"
OPS = (
    "\ndef flip(x):\n    x = tf.image.random_flip_left_right(x)\n    x = tf.image.random_hue(x, 0.1)\n"
    "    return tf.image.random_contrast(x, 0.5, 1)\n"
)
BOARD = (
    "from tensorflow import keras\nboard = keras.callbacks.TensorBoard('logs', update_freq={0})\n"
    "model.fit(x, y, callbacks=[board])\n"
)
KINDS = {
    "an image generator": (IMAGES, [("input/python-input", 7)]),
    "one with workers": (IMAGES.replace("epochs=20", "epochs=20, workers=8"), []),
    "one of arrays": (IMAGES.replace('flow_from_directory("train")', "flow(x, y)"), [("input/python-input", 7)]),
    "one of arrays that only scales": (
        IMAGES.replace('flow_from_directory("train")', "flow(x, y)").replace(", zoom_range=0.2", ""),
        [],
    ),
    "one for validation alone": (IMAGES.replace("fit(train,", "fit(x, y,"), []),
    "more validation than training": (
        IMAGES.replace("validation_steps=50", "validation_steps=101"),
        [("input/python-input", 7), ("host/frequent-validation", 9)],
    ),
    "more validation, now and then": (
        IMAGES.replace("validation_steps=50", "validation_steps=101, validation_freq=10"),
        [("input/python-input", 7)],
    ),
    "layers in front of the step": (AUGMENTED.format(LAYERS, "flip(x)", "x"), [("host/eager-step", 17)]),
    "ops in front of the step": (AUGMENTED.format(OPS, "flip(x)", "x"), [("host/eager-step", 21)]),
    "ops in a graph of their own": (AUGMENTED.format("\n@tf.function" + OPS, "flip(x)", "x"), []),
    "losses of each batch, by a number": (BOARD.format(1), [("host/heavy-callback", 2)]),
    "losses of each epoch": (BOARD.format("'epoch'"), []),
    "losses of each thousandth batch": (BOARD.format(1000), []),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds(folder: Folder, name: str) -> None:
    text, right = KINDS[name]
    folder.put(train__py=text)
    assert [(cause, line) for _, cause, line in folder.found("train.py")] == right


BRANCHES = """\
import tensorflow as tf


def load(path):
    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path)), (224, 224))


def ready(ds, keep):
    ds = ds.map(load, num_parallel_calls=4)
    if keep:
        {0}
    else:
        {1}
    ds = ds.shuffle(500)
    return ds.batch(8).prefetch(2)


model.fit(ready(tf.data.Dataset.list_files("*.jpg"), folder), epochs=3)
"""


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("ds = ds.cache(keep)", "ds = ds.cache()", False),
        ("ds = ds.repeat()", "ds = ds.repeat()", False),
        ("ds = ds.snapshot(keep)", "pass", False),
        ("pass", "pass", True),
    ],
)
def test_a_cache_or_repeat_in_front_of_the_shuffle(folder: Folder, one: str, other: str, found: bool) -> None:
    folder.put(train__py=BRANCHES.format(one, other))
    assert [cause for _, cause, _ in folder.found("train.py")] == ["input/shuffle-fill"] * found


@pytest.mark.parametrize(("name", "least"), [("public_first", 0.95), ("public_second", 0.95)])
def test_findings_in_the_labelled_sets_are_true(name: str, least: float) -> None:
    """``clinic/lint_precision.py`` counts them; docs/lint.md says so."""
    clinic = Path(__file__).parents[2] / "clinic"
    if not clinic.is_dir():
        pytest.skip("the clinic is not here")
    done = subprocess.run(
        [sys.executable, clinic / "lint_precision.py", clinic / name], capture_output=True, text=True, check=True
    )
    counted = re.search(r"true: (\d+) of (\d+) findings; found: (\d+) of (\d+) labelled causes", done.stdout)
    assert counted is not None
    true, findings, found, labels = map(int, counted.groups())
    assert true >= least * findings
    assert found >= least * labels
