from __future__ import annotations

from collections.abc import Callable

import pytest

from slowtrain.model import Edit
from slowtrain.script.fixes.models import keras_models
from slowtrain.script.text import edits, source_file
from slowtrain.script.text.source_file import Source

HEAD = "import tensorflow as tf\nfrom tensorflow import keras\n"
SEQUENTIAL = "m = keras.Sequential([\n    keras.layers.Dense(8),\n    keras.layers.Dense(1),\n])\n"


def changed(text: str, cure: Callable[[Source], tuple[Edit, ...]], head: str = HEAD) -> str | None:
    parsed = source_file.parse_source("train.py", head + text)
    assert parsed is not None
    done = cure(parsed)
    new = edits.edited_text(parsed, done)
    compile(new, "train.py", "exec")
    assert new.startswith(head)
    return new.removeprefix(head) if done else None


@pytest.mark.parametrize(
    ("text", "base", "use"),
    [
        ("m.compile(optimizer=tf.keras.optimizers.Adam(0.01))\n", "tf.keras.optimizers.Adam", "LazyAdam(0.01)"),
        ("o = keras.optimizers.Adam(learning_rate=r)\n", "keras.optimizers.Adam", "o = LazyAdam(learning_rate=r)"),
        ("from keras.optimizers import Adam\nm.compile(Adam(), 'mse')\n", "Adam", "m.compile(LazyAdam(), 'mse')"),
        ("m.compile('adam', 'mse')\n", "tf.keras.optimizers.Adam", "m.compile(LazyAdam(), 'mse')"),
        ("def f():\n    o = keras.optimizers.Adam()\n", "keras.optimizers.Adam", "    o = LazyAdam()"),
    ],
)
def test_one_adam_becomes_a_lazy_one(text: str, base: str, use: str) -> None:
    new = changed(text, keras_models.use_lazy_adam)
    assert new is not None
    assert f"\nclass LazyAdam({base}):\n" in new
    assert new.endswith(f"{use}\n") or f"{use}, " in new or f"{use})" in new
    assert new.index("class LazyAdam") < new.index("= LazyAdam" if "= LazyAdam" in new else "LazyAdam(", 60)


@pytest.mark.parametrize(
    "text",
    [
        "o = keras.optimizers.SGD(0.1)\n",
        "o = keras.optimizers.Adam(0.1, clipnorm=1.0)\n",
        "o = keras.optimizers.Adam(0.1, amsgrad=True)\n",
        "o = keras.optimizers.Adam(**options)\n",
        "kind = keras.optimizers.Adam\n",
        "o = isinstance(model.optimizer, keras.optimizers.Adam)\n",
        "t = {'adam': keras.optimizers.Adam}\no = keras.optimizers.Adam(1e-3)\n",
    ],
)
def test_other_optimizers_stay(text: str) -> None:
    assert changed(text, keras_models.use_lazy_adam) is None


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("LSTM(8, unroll=True)", "LSTM(8, unroll=False)", True),
        ("LSTM(8, use_cudnn=False)", 'LSTM(8, use_cudnn="auto")', True),
        ("GRU(8, reset_after=False)", "GRU(8, reset_after=True)", False),
        ("LSTM(8, activation='relu')", 'LSTM(8, activation="tanh")', False),
        ("LSTM(8, recurrent_dropout=0.2, dropout=0.1)", "LSTM(8, recurrent_dropout=0, dropout=0.1)", False),
        ("LSTM(8, activation=act)", None, True),
    ],
)
def test_settings_that_cudnn_does_not_know(old: str, new: str | None, same: bool) -> None:
    parsed = source_file.parse_source("train.py", f"x = {old}\n")
    assert parsed is not None
    done, exact = keras_models.use_fused_rnn(parsed, 1)
    assert (edits.edited_text(parsed, done) if done else None) == (f"x = {new}\n" if new else None)
    assert exact is same


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "i = keras.Input((3,))\no = keras.layers.Dense(2)(i)\nm = keras.Model(i, o)\nm.compile('sgd')\n",
            (
                'keras.mixed_precision.set_global_policy("mixed_float16")\n'
                'i = keras.Input((3,))\no = keras.layers.Dense(2, dtype="float32")(i)\nm = keras.Model(i, o)\n'
                "m.compile('sgd')\n"
            ),
        ),
        (f"{SEQUENTIAL}with tf.GradientTape() as t: pass\nm.compile('sgd')\n", None),
        ("m = keras.Sequential([keras.layers.LSTM(3)])\nm.compile('sgd')\n", None),
        (f"keras.mixed_precision.set_global_policy('float32')\n{SEQUENTIAL}m.compile('sgd')\n", None),
        ("m = build()\nm.compile('sgd')\n", None),
    ],
)
def test_mixed_precision_with_outputs_in_float32(old: str, new: str | None) -> None:
    assert changed(old, lambda text: keras_models.use_mixed_precision(text, "mixed_float16")) == new


TAPE = "with tf.GradientTape() as t: pass\n"
BFLOAT = 'keras.mixed_precision.set_global_policy("mixed_bfloat16")\n'


def test_a_loop_of_ones_own_takes_bfloat16_without_scaling() -> None:
    new = BFLOAT + SEQUENTIAL.replace("Dense(1)", 'Dense(1, dtype="float32")') + TAPE
    assert changed(SEQUENTIAL + TAPE, lambda text: keras_models.use_mixed_precision(text, "mixed_bfloat16")) == new
    for loose in ("d = keras.layers.Dense(3)\n", "class Mine(keras.layers.Layer): pass\n"):
        assert (
            changed(loose + SEQUENTIAL + TAPE, lambda text: keras_models.use_mixed_precision(text, "mixed_bfloat16"))
            is None
        )


def test_bfloat16_goes_by_the_name_that_keras_has_in_the_file() -> None:
    old = (
        "m = tf.keras.Sequential([tf.keras.layers.Dense(3), tf.keras.layers.Activation('softmax')])\nm.compile('sgd')\n"
    )
    new = old.replace("'softmax')", "'softmax', dtype=\"float32\")")
    done = changed(
        old, lambda text: keras_models.use_mixed_precision(text, "mixed_bfloat16"), "import tensorflow as tf\n"
    )
    assert done == f"tf.{BFLOAT}{new}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('with tf.device("CPU"):\n    with tf.GradientTape() as t: pass\n',
         "with tf.device(None):\n    with tf.GradientTape() as t: pass\n"),
        ("with tf.device('/gpu:0'):\n    m.fit(x)\n", None),
        ("with tf.device('/cpu:0'):\n    ds = tf.data.Dataset.range(3)\n    m.fit(ds)\n", None),
        ("with tf.device('/cpu:0'):\n    x = load()\n", None),
        ("with tf.device(where):\n    m.fit(x)\n", None),
    ],
)  # fmt: skip
def test_training_on_the_processor_by_order(old: str, new: str | None) -> None:
    assert changed(old, keras_models.remove_cpu_device) == new


def test_tf32_is_switched_on_again() -> None:
    off = "tf.config.experimental.enable_tensor_float_32_execution(False)\n"
    assert changed(off, keras_models.allow_tensor_float) == off.replace("False", "True")
    assert changed(off.replace("False", "flag"), keras_models.allow_tensor_float) is None


def kept(text: Source) -> tuple[Edit, ...]:
    return keras_models.first_stabilising_edit(text)[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("p = tf.sigmoid(z)\nl = y * tf.math.log(1.0 - p)\n",
         "p = tf.sigmoid(z)\nl = y * tf.math.log(tf.maximum(1.0 - p, 1e-7))\n"),
        ("l = keras.ops.log(p)\n", "l = keras.ops.log(keras.ops.maximum(p, 1e-7))\n"),
        ("from keras import backend as K\nl = K.log(p)\n",
         "from keras import backend as K\nl = K.log(K.maximum(p, 1e-7))\n"),
        ("l = tf.math.log(p + 1e-9)\n", None),
        ("l = tf.math.log(tf.clip_by_value(p, e, 1.0))\n", None),
        ("q = tf.maximum(p, 1e-6)\nl = tf.math.log(q)\n", None),
        ("l = np.log(p)\n", None),
        ("l = tf.math.log(2.0)\n", None),
        (f"{SEQUENTIAL}m.compile('sgd', 'binary_crossentropy')\n",
         f"{SEQUENTIAL}m.compile('sgd', keras.losses.BinaryCrossentropy(from_logits=True))\n"),
        (f"{SEQUENTIAL}l = keras.losses.BinaryCrossentropy()\n", None),
        ("z = x / x.std(0)\n", None),
        (SEQUENTIAL.replace("Dense(1)", "Dense(1, activation='sigmoid')") + "m.compile('sgd', 'binary_crossentropy')\n",
         None),
        ("o = keras.optimizers.SGD(0.1, clipvalue=1.0)\n", None),
        ("o = keras.optimizers.Adam(0.1)\n", None),
        ("s = tf.math.reduce_std(x, 1)\nz = (x - m) / s\n", "s = tf.math.reduce_std(x, 1)\nz = (x - m) / (s + 1e-7)\n"),
        ("z = x / tf.norm(x)\n", "z = x / (tf.norm(x) + 1e-7)\n"),
        ("z = x / x.std(0)\no = keras.optimizers.SGD(0.1)\n",
         "z = x / x.std(0)\no = keras.optimizers.SGD(0.1, clipnorm=1.0)\n"),
        ("s = tf.math.reduce_std(x, 1) + 1e-6\nz = x / s\n", None),
        ("z = x / tf.reduce_sum(x)\n", None),
        ("z = x.spread() / x.std\n", None),
        ("x = tf.cast(x, 'float16')\nz = x / tf.norm(x)\n", None),
    ],
)  # fmt: skip
def test_losses_stay_finite(old: str, new: str | None) -> None:
    assert changed(old, kept) == new
