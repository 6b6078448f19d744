"""What goes through all that a loop has kept is done where it is used; of what is kept the end that is read is left."""

from __future__ import annotations

import pytest

from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.host import histories

LOOP = """\
def summary(history):
    return sum(history) / len(history)


losses = []
for step in range(900):
    losses.append(train(step))
    {made}
    {between}
    if step % 100 == 0:
        print(step, mean)
{after}
"""
SUNK = """\
    step = step + 1
    if step % 100 == 0:
        mean = summary(losses)
        print(step, mean)
"""
USED: dict[str, tuple[str, bool]] = {
    "used in a report alone": (LOOP.format(made="mean = summary(losses)", between="step = step + 1", after=""), True),
    "used after the loop": (
        LOOP.format(made="mean = summary(losses)", between="step = step + 1", after="print(mean)"),
        False,
    ),
    "what it reads changes on the way": (
        LOOP.format(made="mean = summary(losses)", between="losses = losses[1:]", after=""),
        False,
    ),
    "a call on the way": (LOOP.format(made="mean = summary(losses)", between="losses.pop()", after=""), False),
    "it draws": (LOOP.format(made="mean = np.random.rand()", between="step = step + 1", after=""), False),
    "it takes from a list": (LOOP.format(made="mean = losses.pop()", between="step = step + 1", after=""), False),
    "a function of the file looks": (
        LOOP.format(made="mean = summary(losses)", between="step = step + 1", after="def f():\n    print(mean)\n"),
        False,
    ),
}


@pytest.mark.parametrize("name", USED)
def test_where_it_is_used(name: str) -> None:
    script, may = USED[name]
    text = source_file.parse_source("train.py", script)
    assert text is not None
    made = next(i for i, row in enumerate(script.split("\n"), 1) if row.strip().startswith("mean ="))
    for line in (
        (made, 2) if "summary(losses)" in script else (made,)
    ):  # the line itself, or the function's that it calls
        found = histories.where_used(text, line)
        assert bool(found) == may
        if may:
            assert SUNK in edits.edited_text(text, found)


BOOK = """\
import numpy as np


class Book:
    def __init__(self):
        self.z = np.zeros((0, 8))

    def add(self, z):
        self.z = {joined}

    def recall(self, last=50):
        {read}


Book().recall()
"""
ENDS: dict[str, tuple[str, str | None]] = {
    "the last rows": (
        BOOK.format(joined="np.concatenate([self.z, z])", read="return self.z[-last:]"),
        "np.concatenate([self.z, z])[-50:]",
    ),
    "most of several": (
        BOOK.format(joined="np.concatenate((self.z, z), axis=0)", read="return self.z[-last:] @ self.z[-80:].T"),
        "axis=0)[-80:]",
    ),
    "np.append along rows": (
        BOOK.format(joined="np.append(self.z, z, 0)", read="return self.z[-9:, 0]"),
        "np.append(self.z, z, 0)[-9:]",
    ),
    "np.append of everything": (BOOK.format(joined="np.append(self.z, z)", read="return self.z[-9:]"), None),
    "along columns": (BOOK.format(joined="np.concatenate([self.z, z], axis=1)", read="return self.z[-9:]"), None),
    "put in front": (BOOK.format(joined="np.concatenate([z, self.z])", read="return self.z[-9:]"), None),
    "its length is read": (BOOK.format(joined="np.concatenate([self.z, z])", read="return len(self.z)"), None),
    "read from outside": (
        BOOK.format(joined="np.concatenate([self.z, z])", read="return self.z[-9:]") + "print(Book().z.mean())\n",
        None,
    ),
    "read by no name": (
        BOOK.format(joined="np.concatenate([self.z, z])", read="return self.z[-9:], vars(self)"),
        None,
    ),
    "another number in a call": (
        BOOK.format(joined="np.concatenate([self.z, z])", read="return self.z[-last:]") + "Book().recall(int(arg))\n",
        None,
    ),
    "all but the first": (BOOK.format(joined="np.concatenate([self.z, z])", read="return self.z[last:]"), None),
}


@pytest.mark.parametrize("name", ENDS)
def test_only_the_end(name: str) -> None:
    script, part = ENDS[name]
    text = source_file.parse_source("train.py", script)
    assert text is not None
    line = next(i for i, row in enumerate(script.split("\n"), 1) if row.startswith("        self.z =") and i > 6)
    found = histories.only_the_end(text, line)
    assert bool(found) == (part is not None)
    if part is not None:
        assert part in edits.edited_text(text, found)
