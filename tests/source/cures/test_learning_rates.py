"""The learning rate is found where a script writes it, and multiplied there."""

from __future__ import annotations

import re

import pytest

from slowtrain.script.fixes.models import learning_rates
from slowtrain.script.text.edits import edited_text
from slowtrain.script.text.source_file import Source, parse_source

KERAS = "import keras\n"
TF = "import tensorflow as tf\n"
SCHEDULES = "import keras\nfrom keras.optimizers import schedules\n"


def source_of(text: str) -> Source:
    found = parse_source("train.py", text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        (KERAS + "o = keras.optimizers.Adam([1e-3|0.01])", 1e-3),
        (KERAS + "o = keras.optimizers.Adam(learning_rate=[3e-5|0.0003])", 3e-5),
        (KERAS + "o = keras.optimizers.SGD(lr=[0.1|1.0], momentum=0.9)", 0.1),
        (TF + "o = tf.keras.optimizers.RMSprop([|learning_rate=0.01])", 1e-3),
        (TF + "o = tf.optimizers.SGD(momentum=0.9[|, learning_rate=0.1])", 0.01),
        (KERAS + 'm = keras.Model()\nm.compile(["sgd"|keras.optimizers.SGD(learning_rate=0.1)], "mse")', 0.01),
        (TF + 'm.compile(loss="mse", optimizer=["Adam"|tf.keras.optimizers.Adam(learning_rate=0.01)])', 1e-3),
        (KERAS + "LR = [2e-4|0.002]  # small\ndef make(r=LR):\n    return keras.optimizers.Adam(r)\nmake()", 2e-4),
        (KERAS + "c = {'lr': [1e-4|0.001]}\no = keras.optimizers.Adam(learning_rate=c['lr'])", 1e-4),
        (SCHEDULES + "o = keras.optimizers.SGD(schedules.CosineDecay(0.0, 500, warmup_target=[1e-3|0.01]))", 1e-3),
        (SCHEDULES + "o = keras.optimizers.SGD(schedules.PiecewiseConstantDecay((9,), ([0.1|1.0], [0.01|0.1])))", 0.1),
        ("import optax\no = optax.adamw([1e-4|0.001])", 1e-4),
        (TF + "LEARNING_RATE = [0.02|0.2]\nw.assign_sub(LEARNING_RATE * g)", 0.02),
    ],
)
def test_the_rate_is_multiplied_where_it_is_written(text: str, rate: float) -> None:
    """In brackets: what is written, and what stands there with ten times the rate."""
    before, after = (re.sub(r"\[([^|\]]*)\|([^\]]*)\]", side, text) + "\n" for side in (r"\1", r"\2"))
    found = learning_rates.find_rate([source_of("x = 1\n"), source_of(before)])
    assert found is not None
    source, written = found
    assert written.value == rate
    assert edited_text(source, written.edits_for(source, 10.0)) == after
    assert edited_text(source, written.edits_for(source, 0.5)) != before


@pytest.mark.parametrize(
    "text",
    [
        KERAS + "a = keras.optimizers.Adam(1e-3)\nb = keras.optimizers.Adam(2e-3)\n",  # a generator's and a critic's
        KERAS + "a = keras.optimizers.Adam(1e-3)\nb = keras.optimizers.Adam(rate())\n",
        KERAS + "a = keras.optimizers.Adam(**settings)\n",
        KERAS + "s = keras.optimizers.schedules.ExponentialDecay(rate(), 9, 0.5)\no = keras.optimizers.SGD(s)\n",
        KERAS + "s = MySchedule(0.1)\no = keras.optimizers.SGD(s)\n",
        "import optax\no = optax.adam()\n",
        "def SGD(rate): return rate\no = SGD(0.1)\n",
        TF + "lr = 0.1\nLR = 0.2\n",
        TF + "momentum = 0.9\n",
    ],
)
def test_a_rate_that_is_not_one_number_is_not_found(text: str) -> None:
    assert learning_rates.find_rate([source_of(text)]) is None


def test_one_number_for_two_optimizers_is_one_rate() -> None:
    text = KERAS + "LR = 1e-3\na = keras.optimizers.Adam(LR)\nb = keras.optimizers.SGD(LR)\n"
    found = learning_rates.find_rate([source_of(text)])
    assert found is not None
    assert found[1].place.line == 2
    assert learning_rates.find_rate([source_of(text), source_of(text)]) is None, "each file has one"


WARM_UP = "keras.optimizers.schedules.PolynomialDecay(0.0, 20, "


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (KERAS + f"o = keras.optimizers.Adam([|{WARM_UP}]0.001[|)])", "Adam"),
        (KERAS + f"LR = 0.1\no = keras.optimizers.SGD(learning_rate=[|{WARM_UP}]LR[|)], momentum=0.9)", "SGD"),
        (TF + f"o = tf.keras.optimizers.RMSprop([|learning_rate=tf.{WARM_UP}0.001)])", "RMSprop"),
        (
            KERAS + f'm = keras.Model()\nm.compile(["sgd"|keras.optimizers.SGD(learning_rate={WARM_UP}0.01))], "mse")',
            "SGD",
        ),
        ("import optax\no = optax.adamw([|optax.linear_schedule(0.0, ]0.0001[|, 20)])", "adamw"),
    ],
)
def test_a_warm_up_is_put_around_the_rate(text: str, kind: str) -> None:
    before, after = (re.sub(r"\[([^|\]]*)\|([^\]]*)\]", side, text) + "\n" for side in (r"\1", r"\2"))
    source, written = learning_rates.find_rate([source_of(before)]) or pytest.fail("no rate")
    assert written.kind == kind
    assert written.can_warm_up
    assert edited_text(source, written.edits_for(source, 1.0, 20)) == after


@pytest.mark.parametrize(
    "text",
    [
        SCHEDULES + "o = keras.optimizers.SGD(schedules.ExponentialDecay(0.1, 100, 0.9))\n",
        KERAS + "LR = 1e-3\na = keras.optimizers.Adam(LR)\nb = keras.optimizers.SGD(LR)\n",
        TF + "LR = 0.1\nw.assign_sub(LR * g)\n",
    ],
    ids=["a schedule", "two optimizers", "no optimizer"],
)
def test_a_rate_that_is_no_argument_has_no_warm_up(text: str) -> None:
    source, written = learning_rates.find_rate([source_of(text)]) or pytest.fail("no rate")
    assert not written.can_warm_up
    assert written.edits_for(source, 1.0, 20) == ()


@pytest.mark.parametrize(
    ("text", "is_linear"),
    [
        (KERAS + "o = keras.optimizers.SGD(0.1)\n", True),
        (KERAS + 'm.compile("adam", "mse")\n', False),
        ("import optax\no = optax.sgd(0.1)\n", True),
        (TF + "LR = 0.1\nw.assign_sub(LR * g)\n", True),
    ],
)
def test_the_optimizer_says_how_its_rate_scales_with_the_batch(text: str, is_linear: bool) -> None:
    found = learning_rates.find_rate([source_of(text)])
    assert found is not None
    assert found[1].scales_linearly is is_linear


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            KERAS + "from plans import plan\no = keras.optimizers.Adam(plan)\n",
            "the learning rate in train.py:3 is plan, and its number was not found",
        ),
        (KERAS + "o = keras.optimizers.Adam(**settings)\n", "in train.py:2 is not an argument of its own"),
        (
            KERAS + "a = keras.optimizers.Adam(1e-3)\nb = keras.optimizers.Adam(2e-3)\n",
            "several learning rates were found (0.001 in train.py:2, 0.002 in train.py:3)",
        ),
        (KERAS, "no optimizer of Keras or Optax was found"),
    ],
)
def test_why_no_rate_is_found(text: str, why: str) -> None:
    assert learning_rates.find_rate([source_of(text)]) is None
    assert why in learning_rates.unfound_rate_reason([source_of(text)])
