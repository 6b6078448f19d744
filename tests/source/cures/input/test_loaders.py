"""Loops through a loader of one's own: batches made ahead, or left alone where the loop has hold of what makes them."""

from __future__ import annotations

import pytest

from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source
from slowtrain.source.cures.input import ahead

LOADER = """import numpy as np

class Data{base}:
    def __init__(self, n, source=None):
        self.rows, self.source = list(range(n)), source

    def __getitem__(self, i):
        return np.float32(self.rows[i])

class Loader:
    def __init__(self, data, size):
        self.data, self.size = data, size
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return len(self.data.rows) // self.size

    def __iter__(self):
        order = self.rng.permutation(len(self.data.rows))
        for at in range(0, len(order), self.size):
            yield np.stack([self.data[i] for i in order[at:at + self.size]])

def train_step(x):
    seen.append(x.sum() + np.random.default_rng(3).random())

seen, model = [], None
data = {data}
loader = Loader(data, 4)
for epoch in range(2):
    for i, x in enumerate(loader):
        train_step(x)
        {more}
"""


def script(data: str = "Data(32)", more: str = "assert i < len(loader)", base: str = "") -> str:
    return LOADER.format(data=data, more=more, base=base)


def changed(text: str) -> str | None:
    source = parse_source("train.py", text)
    assert source is not None
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "np.float32" in row)
    found = ahead.made_ahead(source, line)
    return edits.edited_text(source, found) if found else None


def seen(text: str) -> object:
    space: dict[str, object] = {}
    exec(compile(text, "train.py", "exec"), space)
    return space["seen"]


def test_the_same_batches_in_the_same_order() -> None:  # though the step draws as well: not from the same generator
    new = changed(script())
    assert new is not None
    assert "in enumerate(made_ahead(loader))" in new
    assert seen(new) == seen(script())


@pytest.mark.parametrize(
    "text",
    [
        script(more="data.rows[i] = 0"),  # the loop changes what batches are made of
        script(more="loader.size = 2"),
        script(data="Data(32, model)", more="model = x"),
        script(more="np.random.rand(); break"),
        script(base="(Base)"),
        script().replace("train_step(x)\n        ", "show(x)\n        "),  # no training
        script().replace("seen.append(x.sum()", "seen.append(data.rows[0]"),
        script().replace("yield", "return"),
        script(more="np.random.rand()").replace("self.rng.permutation", "np.random.permutation"),
        script(more="np.random.rand()").replace("self.rng = np.random.default_rng(0)", "self.rng = np.random"),
    ],
)
def test_other_loops_stay(text: str) -> None:
    assert changed(text) is None


SAMPLER = """import itertools
import random
import numpy as np

class Sampler:
    def __init__(self, users, size):
        self.users, self.size = users, size
        self.rnd, self.made = random.Random(7), 0

    def __iter__(self):
        return self

    def one(self):
        others = []
        while len(others) < 3:
            j = self.rnd.randrange(len(self.users))
            if j not in others:
                others.append(j)
        return others

    def __next__(self):
        self.made += 1
        return np.float32([self.one() for _ in range(self.size)]) + self.made

def train_step(x):
    seen.append(x.sum() + random.random())

seen = []
random.seed(1)
users = list(range(50))
sampler = Sampler(users, 4)
for i, x in enumerate(itertools.islice(sampler, 9), 1):
    train_step(x)
"""


def test_an_iterator_is_asked_for_as_many_batches_as_before() -> None:
    new = changed(SAMPLER)
    assert new is not None
    assert "enumerate(made_ahead(itertools.islice(sampler, 9)), 1)" in new
    asked = "seen.append(sampler.made)\n"
    assert seen(new + asked) == seen(SAMPLER + asked)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    train_step(x)", "    train_step(x)\n    print(sampler.made)"),
        ("    train_step(x)", "    train_step(x)\n    break"),
        ("self.rnd.randrange", "random.randrange"),  # drawn from what the step draws from
        ("return self\n", "return iter(self.users)\n"),
        ("seen.append(x.sum()", "seen.append(users[0] + x.sum()"),
    ],
)
def test_an_iterator_that_stays(old: str, new: str) -> None:
    text = SAMPLER.replace(old, new)
    assert text != SAMPLER
    assert changed(text) is None
