"""Batches of a PyDataset by several threads; text in, text out, or no edit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slowtrain.model import Edit
from slowtrain.script.fixes.input import background_batches
from slowtrain.script.locations.edits import input_edits
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source, parse_source

SCRIPT = """import keras
import numpy as np

rng = np.random.default_rng(0)


def smooth(row):
    return np.convolve(row, [0.5, 0.5], mode="same")


class Batches(keras.utils.PyDataset):
    {start}

    def __len__(self):
        return 9

    def __getitem__(self, index):
        {body}


model.fit(Batches({given}))
"""
START = "def __init__(self, rows, **kwargs):\n        {handed}\n        self.rows = rows"
SAME = "x = np.stack([smooth(r) for r in self.rows[index * 8 : index * 8 + 8]])  #@\n        return x"


def _edited(text: str, edit: Callable[[Source, int], list[Edit]] = background_batches.add_workers) -> str | None:
    line = next(n for n, row in enumerate(text.split("\n"), 1) if "#@" in row)
    source = parse_source("train.py", text)
    assert source is not None
    found = edit(source, line)
    new = edits.edited_text(source, found) if found else None
    assert new is None or parse_source("train.py", new) is not None
    return new


START_TEXT = START.format(handed="super().__init__(**kwargs)")


def test_it_is_told_of_workers() -> None:
    text = SCRIPT.format(start=START_TEXT, body=SAME, given="rows")
    assert _edited(text) == text.replace("(**kwargs)", "(workers=4, **kwargs)")


ALONE = {
    "a file that goes on": "return smooth(self.file.read(index))  #@",
    "what it made, kept": "self.rows.append(smooth(self.rows[index]))  #@\n        return self.rows[-1]",
    "its array filled": "self.rows[index] = 1  #@\n        return self.rows[index]",
    "a global": "global n  #@\n        n = index\n        return self.rows[n]",
    "a model asked": "return model.predict(self.rows[index])  #@",
}


@pytest.mark.parametrize("body", ALONE.values(), ids=ALONE)
def test_what_goes_on_from_batch_to_batch_stays(body: str) -> None:
    text = SCRIPT.format(start=START_TEXT, body=body, given="rows")
    assert _edited(text) is None
    assert _edited(text, background_batches.add_workers_to_drawing) is None


def test_draws_are_another_promise() -> None:
    body = "return self.rows[index] + rng.normal(size=50)  #@"
    text = SCRIPT.format(start=START_TEXT, body=body, given="rows")
    assert _edited(text) is None
    assert _edited(text, background_batches.add_workers_to_drawing) is not None


def test_workers_that_are_there_stay() -> None:
    text = SCRIPT.format(start=START_TEXT, body=SAME, given="rows, workers=2")
    assert _edited(text) is None


@pytest.mark.parametrize(("kind", "helped"), [("work", True), ("once", True), ("samples", True), ("loop", False)])
def test_threads_are_no_cure_of_a_loop_in_bytecode(kind: str, helped: bool) -> None:
    """It holds the interpreter's lock: what one of them does the others wait for."""
    assert (
        any(says.startswith(input_edits.WORKERS_TEXT) for _, says, _ in input_edits.python_input_fixes(16.0, kind))
        is helped
    )
