"""Rectangles that loops fill: the same array and the same numbers left in the generator, or left alone."""

from __future__ import annotations

import pytest

from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source
from slowtrain.source.cures.input import draws, patches, quicker

ERASE = """import numpy as np
rng = np.random.RandomState(4)
np.random.seed(3)
SIDE = 5

def erase(img, n=1):
    img = img.copy()
    for _ in range(3):
        y, x = {drawn}
        for dy in range({rows}):
            for dx in range(SIDE):
                img[{at}] {sign}= {value}
    return img{after}

found = erase(np.ones({shape}))
left = np.random.rand(), rng.rand()
"""
PLACE = "np.random.randint(0, 20, 2)"


def script(**other: str) -> str:
    given = {"drawn": PLACE, "rows": "6", "at": "y + dy, x + dx", "sign": "", "value": "np.random.rand()", "after": ""}
    return ERASE.format(**(given | {"shape": "(32, 32, 3)"} | other))


def changed(text: str) -> str | None:
    source = parse_source("train.py", text)
    assert source is not None
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "in range(3)" in row)
    found = patches.filled(source, line)
    return edits.edited_text(source, found) if found else None


def values(text: str) -> dict[str, object]:
    space: dict[str, object] = {}
    exec(compile(text, "train.py", "exec"), space)
    return space


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"shape": "(32, 32)"},
        {"value": "0.5"},
        {"value": "n", "sign": "*"},
        {"value": "np.random.normal(2.0, 0.5)"},
        {"value": "rng.uniform(low=-1, high=2)"},
        {"value": "rng.randn()"},
        {"value": "[1, 2, 3]"},
        {"at": "dy + y, dx"},
        {"drawn": "3, 4"},
        {"drawn": "np.random.randint(20, size=2)"},
    ],
    ids=str,
)
def test_a_rectangle_is_filled_at_once(other: dict[str, str]) -> None:
    text = script(**other)
    new = changed(text)
    assert new is not None
    assert "for dy" not in new
    old, made = values(text), values(new)
    assert (old["found"] == made["found"]).all()  # type: ignore[attr-defined]
    assert old["left"] == made["left"]


@pytest.mark.parametrize(
    "other",
    [
        {"drawn": "np.random.randint(-9, 20, 2)"},
        {"drawn": "unknown(), 3"},
        {"at": "x + dx, y + dy"},
        {"at": "y + dy, x - dx"},
        {"at": "y + dy, x"},
        {"value": "dy * dx"},
        {"value": "img[0, 0]"},
        {"value": "np.random.rand()", "sign": "+"},
        {"value": "draw()"},
        {"value": "np.random.randint(9)"},
        {"rows": "n"},
        {"after": ", dy"},
    ],
    ids=str,
)
def test_what_may_differ_stays(other: dict[str, str]) -> None:
    assert changed(script(**other)) is None


WEIGHTED = """import numpy as np

class Draws:
    def __init__(self, most, seed):
        self.most = most
        self.rng = {generator}
        self.counts = np.bincount(np.arange(99) % 7, minlength=most)
        self.weights = self.counts / self.counts.sum(){more}

    def draw(self):
        return self.rng.choice({given})

draws = Draws(9, 3)
found = [np.array(draws.draw()).tolist() for _ in range(50)], [type(draws.draw())]
left = draws.rng.normal()
"""


def drawn(given: str, generator: str = "np.random.default_rng(seed)", more: str = "") -> tuple[str, str | None]:
    text = WEIGHTED.format(given=given, generator=generator, more=more)
    source = parse_source("train.py", text)
    assert source is not None
    found = draws.summed_once(source, next(i for i, r in enumerate(text.splitlines(), 1) if "choice" in r))
    return text, edits.edited_text(source, found) if found else None


@pytest.mark.parametrize("generator", ["np.random.default_rng(seed)", "np.random.RandomState(seed)"])
@pytest.mark.parametrize(
    "given", ["self.most, p=self.weights", "a=self.most, p=self.weights, size=None", "self.most, 4, p=self.weights"]
)
def test_weights_are_summed_once(given: str, generator: str) -> None:
    old, new = drawn(given, generator)
    assert new is not None
    assert "choice" not in new
    one, other = values(old), values(new)
    assert (one["found"], one["left"]) == (other["found"], other["left"])


@pytest.mark.parametrize(
    ("given", "generator", "more"),
    [
        ("self.most, p=self.weights, replace=False", "np.random.default_rng(seed)", ""),
        ("self.most, p=self.weights", "other(seed)", ""),
        ("self.names, p=self.weights", "np.random.default_rng(seed)", "\n        self.names = names"),
        ("self.most, p=weights", "np.random.default_rng(seed)", ""),
        ("self.most", "np.random.default_rng(seed)", ""),
        ("self.most, p=self.weights", "np.random.default_rng(seed)", "\n        self.weights[0] = 0.5"),
        ("self.most, p=self.weights", "np.random.default_rng(seed)", "\n        self.weights /= 2"),
        ("self.most, p=self.weights", "np.random.default_rng(seed)", "\n        seed.shuffle(self.weights)"),
    ],
)
def test_other_draws_stay(given: str, generator: str, more: str) -> None:
    assert drawn(given, generator, more)[1] is None


def test_batches_are_handed_over_where_samples_are_single() -> None:
    assert len(list(quicker.cures(64.0, "work"))) == len(list(quicker.cures(64.0, "samples"))) + 1
    assert len(list(quicker.cures(1.0, "work"))) == len(list(quicker.cures(64.0, "samples")))


def test_the_function_is_named() -> None:
    source = parse_source("train.py", "class Jitter:\n    def apply(self):\n        return 1\nx = 2\n")
    assert quicker.named(source, 3) == "`Jitter.apply` (line 2)"
    assert quicker.named(source, 4) == quicker.named(None, 4) == ""
    assert "write `f` (line 2) in TensorFlow" in quicker.in_words("work", "`f` (line 2)")[1]
    assert "TensorFlow" not in quicker.in_words("work", "`f` (line 2)", on_jax=True)[1]
    assert all("{" not in quicker.in_words(k, "", on_jax=j)[1] for k in quicker.WORDS for j in (True, False))
