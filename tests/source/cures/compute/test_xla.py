"""``jit_compile`` on and off: text in, exact text out."""

from __future__ import annotations

import pytest

from slowtrain.script.fixes.models import keras_calls, keras_models
from slowtrain.script.text import edits, source_file

HEAD = "import tensorflow as tf\nfrom tensorflow import keras\n"
STEP = "def step(x):\n    with tf.GradientTape() as t: pass\n"


def changed(text: str) -> str | None:
    parsed = source_file.parse_source("train.py", HEAD + text)
    assert parsed is not None
    done = keras_models.compile_steps_with_xla(parsed)
    new = edits.edited_text(parsed, done)
    compile(new, "train.py", "exec")
    return new.removeprefix(HEAD) if done else None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("m.compile('sgd', 'mse', jit_compile=False)\n", "m.compile('sgd', 'mse', jit_compile=True)\n"),
        ("m.compile(\n    'sgd',\n    'mse',\n)\n", "m.compile(\n    'sgd',\n    'mse', jit_compile=True,\n)\n"),
        (
            "@tf.function\ndef step(x):\n    with tf.GradientTape() as t: pass\n",
            "@tf.function(jit_compile=True)\ndef step(x):\n    with tf.GradientTape() as t: pass\n",
        ),
        (
            "@tf.function(autograph=True)\ndef step(x):\n    with tf.GradientTape() as t: pass\n",
            "@tf.function(autograph=True, jit_compile=True)\ndef step(x):\n    with tf.GradientTape() as t: pass\n",
        ),
        ("@tf.function\ndef evaluate(x):\n    return m(x)\n", None),
        ("m.compile('sgd', jit_compile=True)\n", None),
        ("m.compile(**settings)\n", None),
        ("import re\np = re.compile('x')\n", None),
        (f"@tf.function(jit_compile=False)\n{STEP}", f"@tf.function(jit_compile=True)\n{STEP}"),
        (f"@tf.function(jit_compile=True)\n{STEP}", None),
        (f"@tf.function(jit_compile=FAST)\n{STEP}", None),
        (f"@tf.function(**how)\n{STEP}", None),
        (f"@tf.function\n{STEP}    tf.print(t)\n", None),
        (f"@tf.function\n{STEP}    x = next(it)\n", None),
        (f"@tf.function\n{STEP}    tf.linalg.eigvals(x)\n", None),
        ("m.compile('sgd', run_eagerly=True)\n", None),
    ],
)
def test_steps_compiled_with_xla(old: str, new: str | None) -> None:
    assert changed(old) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("m.compile('sgd')", "m.compile('sgd', jit_compile=False)"),
        ("m.compile('sgd', jit_compile='auto')", "m.compile('sgd', jit_compile=False)"),
        ("m.compile('sgd', jit_compile=True)", "m.compile('sgd', jit_compile=False)"),
        ("m.compile('sgd', jit_compile=False)", None),
        ("m.compile(**how)", None),
        ("f = tf.function(g)", None),
        ("@tf.function\ndef f(x): pass", None),
    ],
)
def test_a_step_that_xla_does_not_compile(old: str, new: str | None) -> None:
    parsed = source_file.parse_source("train.py", old)
    assert parsed is not None
    done = keras_calls.disable_xla(parsed, 1)
    assert (edits.edited_text(parsed, done) if done else None) == new
