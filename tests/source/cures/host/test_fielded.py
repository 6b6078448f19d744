"""Numbers of a tuple with names, for each of which a graph would be traced anew, are given as tensors."""

from __future__ import annotations

import pytest

from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.host import fielded

SCRIPT = """
import tensorflow as tf
from typing import NamedTuple

class Knobs(NamedTuple):
    beta: float
    heat: float

@tf.function
def step(x, knobs):
    return tf.reduce_sum(x) * knobs.beta / knobs.heat

for i in range(100):
    step(tf.ones(3), Knobs(i / 100, 1.0))
"""


def cured(text: str) -> str | None:
    parsed = source_file.parse_source("train.py", text)
    assert parsed is not None
    made = fielded.as_structure(parsed, text[: text.index("def step")].count("\n") + 1, "knobs")
    return edits.edited_text(parsed, made) if made else None


def test_the_call_gives_tensors() -> None:
    after = cured(SCRIPT)
    assert after is not None
    given = "tf.nest.map_structure(lambda one: tf.constant(one, tf.float32), Knobs(i / 100, 1.0))"
    assert after == SCRIPT.replace("Knobs(i / 100, 1.0)", given)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("    return", "    if knobs.beta > 0.5:\n        return x\n    return", id="Python asks for one"),
        pytest.param("    return", "    show(knobs)\n    return", id="handed on as a whole"),
        pytest.param("* knobs.beta", "* len(knobs)", id="something else is done with it"),
        pytest.param("    return", "    knobs = other\n    return", id="bound anew"),
        pytest.param("step(tf.ones(3), Knobs(i / 100, 1.0))", "step(*given[i])", id="nobody sees what is given"),
    ],
)
def test_it_stays_where_tensors_would_not_do(old: str, new: str) -> None:
    text = SCRIPT.replace(old, new)
    assert text != SCRIPT
    assert cured(text) is None


def test_it_is_traced_once() -> None:
    pytest.importorskip("tensorflow")
    after = cured(SCRIPT)
    assert after is not None
    traced = []
    for text in (SCRIPT, after):
        names: dict[str, object] = {}
        exec(compile(text.replace("range(100)", "range(5)"), "train.py", "exec"), names)
        traced.append(names["step"].experimental_get_tracing_count())  # type: ignore[attr-defined]
    assert traced == [5, 1]
