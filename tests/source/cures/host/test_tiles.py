"""Rows worked on piece by piece are worked on at once, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.host import tiles

ROWS = """\
import numpy as np
x = np.random.default_rng(0).normal(size=(3, {width}))
at = np.sort(np.random.default_rng(1).uniform(0, 9, {width}))
out = np.zeros_like(x)
for i, row in enumerate(x):
    for j in range(0, {stop}, {step}):
        {put}
"""


def script(put: str, width: int = 10, stop: str = "len(row)", step: str = "4") -> str:
    return ROWS.format(width=width, stop=stop, step=step, put=put)


ALIKE = {
    "interpolated": script("out[i, j:j+4] = np.interp(at[j:j+4], np.arange(len(row)), row)"),
    "no whole number of pieces": script("out[i, j:j + 4] = np.sqrt(at[j:j + 4])", width=11, stop="9"),
    "a whole number of pieces": script("out[i, j:j + 4] = at[j:j + 4] * 2 - row[j:4 + j]", width=8, stop="8"),
    "clipped": script("out[i, j:j+4] = np.clip(row[j:j+4], 0, 1)"),
}


@pytest.mark.parametrize("name", ALIKE)
def test_results_stay(name: str) -> None:
    text = source_file.parse_source("train.py", ALIKE[name])
    assert text is not None
    found = tiles.untiled(text, 7)
    after = edits.edited_text(text, found)
    assert "for j" not in after
    results: list[dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]] = [{}, {}]
    for code, names in zip((ALIKE[name], after), results, strict=True):
        exec(code, names)  # the test's own text
    assert results[0]["out"].any()
    assert np.array_equal(results[0]["out"], results[1]["out"])


OTHER = {
    "a mean of the piece": script("out[i, j:j+4] = row[j:j+4].mean()"),
    "sorted within the piece": script("out[i, j:j+4] = np.sort(row[j:j+4])"),
    "summed up": script("out[i, j:j+4] = np.cumsum(row[j:j+4])"),
    "pieces that overlap": script("out[i, j:j+4] = np.sqrt(at[j:j+4])", step="2"),
    "a piece of the neighbour": script("out[i, j:j+4] = np.sqrt(at[j+1:j+5])"),
    "the number of the piece": script("out[i, j:j+4] = at[j:j+4] * j"),
    "an array beside it": script("out[i, j:j+4] = at[j:j+4] * np.ones(4)"),
    "of itself": script("out[i, j:j+4] = np.abs(out[i, j:j+4])"),
    "a table that it writes to": script("out[i, j:j+4] = np.interp(at[j:j+4], np.arange(len(row)), row)").replace(
        "np.zeros_like(x)", "x[:]"
    ),
    "two lines": script("a = 1\n        out[i, j:j+4] = np.sqrt(at[j:j+4])"),
}


@pytest.mark.parametrize("name", OTHER)
def test_others_stay(name: str) -> None:
    text = source_file.parse_source("train.py", OTHER[name])
    assert text is not None
    assert tiles.untiled(text, 7) == []


def test_in_a_function_that_the_loop_calls() -> None:
    before = """\
import numpy as np
def half(rows, out):
    for i, row in enumerate(rows):
        for j in range(0, 8, 4):
            out[i, j:j+4] = row[j:j+4] / 2
for lo in range(9):
    batch = data[lo]
    if lo > 3:
        batch = half(batch, out)
"""
    text = source_file.parse_source("train.py", before)
    assert text is not None
    assert "        out[i, :8] = row[:8] / 2\n" in edits.edited_text(text, tiles.untiled(text, 7))
