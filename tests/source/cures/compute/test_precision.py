from __future__ import annotations

import pytest

from slowtrain.causes.compute.double_precision import fix
from slowtrain.script.text import edits, source_file

HEAD = "import numpy as np\nimport tensorflow as tf\nfrom tensorflow import keras\nrng = np.random.default_rng(0)\n"
CAST = '.astype("float32")'


def single(text: str, head: str = HEAD) -> str | None:
    """What becomes of a script behind its imports; None where it is left to a person."""
    parsed = source_file.parse_source("train.py", head + text)
    assert parsed is not None
    done = fix.single_precision_edits(parsed)
    new = edits.edited_text(parsed, done)
    compile(new, "train.py", "exec")
    assert new.startswith(head)
    return new.removeprefix(head) if done else None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tf.keras.backend.set_floatx('float64')\n", "tf.keras.backend.set_floatx('float32')\n"),
        ('keras.config.set_floatx("float64")\n', 'keras.config.set_floatx("float32")\n'),
        (
            "from keras import backend as K\nK.set_floatx('float64')\n",
            "from keras import backend as K\nK.set_floatx('float32')\n",
        ),
        (
            "keras.mixed_precision.set_global_policy('float64')\nx = np.random.rand(9)\nm.fit(x)\n",
            "keras.mixed_precision.set_global_policy('float32')\nx = np.random.rand(9)\nm.fit(x)\n",
        ),
        ("d = keras.layers.Dense(3, dtype='float64')\n", "d = keras.layers.Dense(3, dtype='float32')\n"),
        ("y = tf.cast(y, tf.double)\n", "y = tf.cast(y, tf.float32)\n"),
        ("y = tf.cast(y, np.float64)\n", "y = tf.cast(y, np.float32)\n"),
        ("DTYPE = 'float64'\nw = tf.zeros(3, DTYPE)\n", "DTYPE = 'float32'\nw = tf.zeros(3, DTYPE)\n"),
        (
            "dtype = tf.float64\nw = tf.zeros(3, dtype)\nx = tf.constant(a, dtype=dtype)\n",
            "dtype = tf.float32\nw = tf.zeros(3, dtype)\nx = tf.constant(a, dtype=dtype)\n",
        ),
        ("w = tf.Variable(np.zeros((3, 4)))\n", f"w = tf.Variable(np.zeros((3, 4)){CAST})\n"),
        (
            "w = tf.Variable(rng.normal(size=3) / np.sqrt(7))\n",
            f"w = tf.Variable((rng.normal(size=3) / np.sqrt(7)){CAST})\n",
        ),
        (
            "x = np.random.rand(9, 3)\ny = x.sum(1)\nds = tf.data.Dataset.from_tensor_slices((x, y))\n",
            f"x = np.random.rand(9, 3){CAST}\ny = x.sum(1)\nds = tf.data.Dataset.from_tensor_slices((x, y))\n",
        ),
        (
            "x = rng.normal(size=(9, 3))\nx = (x - x.mean(0)) / x.std(0)\nstep(x[:4])\n",
            f"x = rng.normal(size=(9, 3)){CAST}\nx = (x - x.mean(0)) / x.std(0)\nstep(x[:4])\n",
        ),
        (
            "i = np.random.randint(0, 9, 5)\nx = i / 255.0\nmodel(x)\n",
            f"i = np.random.randint(0, 9, 5)\nx = (i / 255.0){CAST}\nmodel(x)\n",
        ),
        (
            ("def make():\n    x = np.ones(4)\n    y = np.arange(4)\n    return x, y\nx, y = make()\n"
            "ds = tf.data.Dataset.from_tensor_slices((x, y))\n"),
            (f"def make():\n    x = np.ones(4){CAST}\n    y = np.arange(4)\n    return x, y\nx, y = make()\n"
            "ds = tf.data.Dataset.from_tensor_slices((x, y))\n"),
        ),
    ],
)  # fmt: skip
def test_formats_and_arrays_become_float32(old: str, new: str) -> None:
    assert single(old) == new


@pytest.mark.parametrize(
    "text",
    [
        "x = np.random.rand(9)\nmodel.fit(x)\n",  # Keras makes float32 of it
        "x = np.random.rand(9).astype('float32')\nstep(x)\n",
        "x = np.random.rand(9)\nprint(x.mean())\n",
        "x = np.arange(9)\nds = tf.data.Dataset.from_tensor_slices(x)\n",
        "w = tf.Variable(tf.random.normal((3,)))\n",
        "tf.keras.backend.set_floatx('float64')\nds = tf.data.Dataset.from_tensor_slices(np.load('x.npy'))\n",
        "tf.keras.backend.set_floatx('float64')\ny = tf.numpy_function(f, [x], tf.float64)\n",
        "tf.keras.backend.set_floatx('float64')\nFORMATS = {'a': 'float64'}\n",
    ],
)
def test_what_is_float32_or_uncertain_stays(text: str) -> None:
    assert single(text) is None


SUMMED = """def made(n):
    out = {begun}
    for _ in range(3):
        out += rng.normal(size=n)
    return out
x = made(8)
ds = tf.data.Dataset.from_tensor_slices(x)
"""


def test_what_is_added_up_in_place() -> None:
    new = single(SUMMED.format(begun="np.zeros(n)"))
    assert new == SUMMED.format(begun=f"np.zeros(n){CAST}")
    assert single(SUMMED.format(begun="np.zeros(n, np.float32)")) is None  # it stays what it was
    assert single(SUMMED.format(begun="unknown(n)")) is None
