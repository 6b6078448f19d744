"""Elements set at the places of a list: the same arrays and the same numbers left in the generator, or left alone."""

from __future__ import annotations

import numpy as np
import pytest

from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source
from slowtrain.source.cures.input import marking

BASKETS = """import numpy as np

class Baskets:
    def __init__(self, history, keep):
        self.history, self.keep = history, keep
        self.rng = np.random.default_rng(1)

    def batch(self, users):
        noisy = np.zeros((len(users), 40), "float32")
        target = np.zeros((len(users), 40), "float32")
        for row, user in enumerate(users):
            for item in {over}:
                {first}
                if {test}:
                    {second}
        return noisy, target{after}

given = np.random.default_rng(0)
data = Baskets([given.integers(0, 40, n) for n in (5, 0, 90)], 0.7)
found = data.batch([2, 0, 1]), data.batch([0, 2])
left = data.rng.random()
"""


def script(**other: str) -> str:
    given = {"over": "self.history[user]", "first": "target[row, item] = 1.0", "test": "self.rng.random() < self.keep"}
    return BASKETS.format(**(given | {"second": "noisy[row, item] = 1.0", "after": ""} | other))


def changed(text: str) -> str | None:
    source = parse_source("train.py", text)
    assert source is not None
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "for item in" in row)
    found = marking.marked(source, line)
    return edits.edited_text(source, found) if found else None


def values(text: str) -> tuple[object, ...]:
    space: dict[str, object] = {}
    exec(compile(text, "train.py", "exec"), space)
    return space["found"], space["left"]


@pytest.mark.parametrize(
    "text",
    [
        script(),
        script(over="list(self.history[user])"),
        script(test="self.rng.random() >= 0.3", second="noisy[row, item] = -2"),
        script(second="noisy[item % 3 * 0, item] = 1").replace("item % 3 * 0", "0"),
    ],
)
def test_the_same_elements_are_set(text: str) -> None:
    new = changed(text)
    assert new is not None
    assert "for item" not in new
    one, other = values(text), values(new)
    assert one[1] == other[1]
    np.testing.assert_equal(one[0], other[0])


@pytest.mark.parametrize(
    "text",
    [
        script(first="target[row, item] += 1.0"),  # as often as the item is there
        script(first="target[row, item] = item"),
        script(first="target[users, item] = 1.0"),  # places would go in pairs
        script(first="noisy[row, item] = 0.0"),  # one array twice: the order counts
        script(first="self.rng.random()"),  # another draw between
        script(first="target[row, item] = self.rng.random()"),
        script(test="self.rng.random() < self.keep * item"),
        script(test="self.rng.integers(2) < 1"),
        script(test="noisy[row, item] < 1"),
        script(over="range(10)"),
        script(after=", item"),
        script().replace("default_rng(1)", "SeedSequence(1)"),
        script().replace('target = np.zeros((len(users), 40), "float32")', "target = noisy"),
    ],
)
def test_other_loops_stay(text: str) -> None:
    assert changed(text) is None
