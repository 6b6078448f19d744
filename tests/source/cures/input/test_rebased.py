"""Data sets built on the last turn's: a name of their own for each turn, or left alone."""

from __future__ import annotations

import pytest

from slowtrain.causes.drift.growing_step import fix
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

METHOD = """class Run:
    def __init__(self, ds):
        self.ds = ds.shuffle(8){also}

    def epoch(self):
        {first}
        self.ds = self.ds{operations}
        for x in self.ds:
            step(x){after}
"""
LOOP = """ds = make()
for epoch in range(9):
    ds = ds{operations}
    for x in ds:
        step(x){after}
"""


def method(
    operations: str = ".map(jitter).prefetch(2)", also: str = "", first: str = "reset()", after: str = ""
) -> str:
    return METHOD.format(operations=operations, also=also, first=first, after=after)


def loop(operations: str = ".map(jitter)", after: str = "") -> str:
    return LOOP.format(operations=operations, after=after)


def changed(text: str) -> tuple[str, bool] | None:
    source = parse_source("train.py", text)
    assert source is not None
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "ds = self.ds" in row or " ds = ds" in row)
    found, same = fix.rebase_dataset(source, line)
    return (edits.edited_text(source, found), same) if found else None


@pytest.mark.parametrize(("operations", "same"), [(".map(jitter).prefetch(2)", False), (".prefetch(2)", True)])
def test_each_turn_begins_with_the_first_one(operations: str, same: bool) -> None:
    new = method(operations).replace("self.ds = self.ds", "this_ds = self.ds").replace("in self.ds", "in this_ds")
    assert changed(method(operations)) == (new, same)
    new = loop(operations).replace("    ds = ds", "    this_ds = ds").replace("in ds", "in this_ds")
    assert changed(loop(operations)) == (new, same)


@pytest.mark.parametrize(
    "text",
    [
        method(after="\n\n    def test(self):\n        return len(self.ds)"),
        method(also="\n        self.all = self.ds"),
        method(operations=".concatenate(self.ds)"),
        method(operations=".map(jitter)") + "\nrun.ds = other\n",
        method(operations=".items()"),
        loop(after="\nprint(ds)"),
        loop().replace("for epoch in range(9):", "if True:"),  # once
        loop() + "def again():\n    return ds\nagain()\n",
    ],
)
def test_what_else_uses_it_keeps_it(text: str) -> None:
    assert changed(text) is None
