"""Windows of a table: which forms are known, and that the elements are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slowtrain.causes.input.per_element_map import fix
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source
from tests.source.cures.executed import executed_names

HEAD = "import numpy as np\nimport tensorflow as tf\ntable = np.arange(60.0).reshape(20, 3)\nN = 4\n"
LINES = """
class Task:
    span = 5

    def windows(self, table):
        ds = tf.data.Dataset.from_tensor_slices(table)
        ds = ds.window(self.span, shift=2, drop_remainder=True)
        ds = ds.flat_map(lambda w: w.batch(self.span, drop_remainder=True))
        return ds.map(lambda b: (b[:3], b[3:, 0])).shuffle(5, seed=1)

ds = Task().windows(table.astype("float32"))
"""
CHAIN = """
{before}ds = tf.data.Dataset.from_tensor_slices({data}).window({window}).flat_map({function})
"""


def chain(window: str, function: str, data: str = "table", before: str = "") -> str:
    return CHAIN.format(window=window, function=function, data=data, before=before)


DONE = {
    "line by line in a method": LINES,
    "a chain": chain("N, 1, drop_remainder=True", "lambda w: w.batch(N)"),
    "of its own length": chain("4, drop_remainder=True", "lambda one: one.batch(4, True)", "table[:, 0]"),
    "far apart": chain("size=N, shift=7, stride=1, drop_remainder=True", "lambda w: w.batch(N)"),
    "a function": chain(
        "N, 1, drop_remainder=True",
        "whole",
        before='def whole(rows):\n    """Rows."""\n    return rows.batch(batch_size=N)\n\n',
    ),
    "too long for the table": chain("40, 1, drop_remainder=True", "lambda w: w.batch(40)"),
}
NOT = {
    "the rest as well": chain("N, 1", "lambda w: w.batch(N)"),
    "every second row": chain("N, 1, 2, drop_remainder=True", "lambda w: w.batch(N)"),
    "two batches for a window": chain("N, 1, drop_remainder=True", "lambda w: w.batch(2)"),
    "several tables": chain("N, 1, drop_remainder=True", "lambda w: w.batch(N)", "(table, table)"),
    "windows kept apart": chain("N, 1, drop_remainder=True", "lambda w: w.skip(1).batch(N)"),
    "a function of elsewhere": chain("N, 1, drop_remainder=True", "whole"),
    "shuffled rows": chain("N, 1, drop_remainder=True", "lambda w: w.batch(N)").replace(".win", ".shuffle(3).win"),
    "another use of the rows": LINES.replace("        ds = ds.flat", "        other = ds\n        ds = ds.flat"),
}


def changed(text: str) -> str | None:
    source = parse_source("train.py", HEAD + text)
    assert source is not None
    line = next(i for i, row in enumerate(source.text.splitlines(), 1) if ".flat_map" in row)
    found = fix.gather_windows(source, line)
    return edits.edited_text(source, found) if found else None


@pytest.mark.parametrize("name", NOT)
def test_other_windows_stay(name: str) -> None:
    assert changed(NOT[name]) is None


@pytest.mark.tensorflow
def test_the_windows_are_the_same(tmp_path: Path) -> None:
    texts = {name: [HEAD + text, changed(text) or ""] for name, text in DONE.items()}
    assert all("flat_map" not in new.partition("windows_of(table")[2] for _, new in texts.values())
    assert all("windows_of" in new for _, new in texts.values())
    import tensorflow as tf

    def given(text: str) -> list[Any]:
        batches = executed_names(text, tmp_path)["ds"].as_numpy_iterator()
        return [tf.nest.map_structure(lambda a: (str(a.dtype), a.tolist()), batch) for batch in batches]

    for name, (old, new) in texts.items():
        before = given(old)
        assert before == given(new), name
        assert len(before) > 2 or "too long" in name, name
