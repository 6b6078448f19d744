"""Loops whose every turn begins with other weights."""

from __future__ import annotations

import textwrap

import pytest

from slowtrain.script.locations import line_roles
from slowtrain.script.text.source_file import Source, parse_source

LOOP = """
for budget in budgets:
    {first}
    for x, y in data:
        loss = learn(x, y)
    score = [hits(x, y) for x, y in reference]
"""
EACH = "for v, s in zip(state, start):\n        v.assign(s)"


def source(text: str) -> Source:
    found = parse_source("train.py", text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("first", "anew"),
    [
        (EACH, True),
        ("model.set_weights(start)", True),
        ("model = keras.models.clone_model(first)", True),
        ("optimizer.learning_rate.assign(rate)", False),
        ("for v, s in zip(state, start):\n        other.assign(s)", False),
        ("pass", False),
    ],
)
def test_a_loop_over_models_sets_their_weights_before_it_trains(first: str, anew: bool) -> None:
    text = textwrap.dedent(LOOP.format(first=first))
    lines = text.splitlines()
    step, score = (next(i for i, row in enumerate(lines, 1) if word in row) for word in ("learn", "hits"))
    assert line_roles.resets_weights(source(text), step, score) is anew


def test_weights_that_are_set_for_the_validation_alone_begin_nothing() -> None:
    text = LOOP.format(first="pass").replace("    score", "    model.set_weights(mean)\n    score")
    assert not line_roles.resets_weights(source(text), 5, 7)


def test_a_pass_behind_all_training_begins_nothing() -> None:
    text = (
        "for v, s in zip(state, start):\n    v.assign(s)\nfor x in data:\n    learn(x)\nfor x in held:\n    hits(x)\n"
    )
    assert not line_roles.resets_weights(source(text), 4, 6)
