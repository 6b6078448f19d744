"""Of a list that grows the rows that a step uses are taken before they become an array."""

from __future__ import annotations

import pytest

from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.host import rowsfirst

TABLE = """\
import numpy as np

class Memory:
    def __init__(self):
        self.rows = []

    def add(self, row):
        self.rows.append(row)

    def draw(self, n):
        table = np.array(self.rows, dtype=np.float32)
        pick = np.random.randint(0, len(table), n)
        part = table[pick]
        return part[:, :2], part[:, 2]
"""
COLUMNS = """\
import numpy as np

class Memory:
    def __init__(self):
        self.rng, self.items = np.random.default_rng(0), []

    def add(self, *row):
        self.items.append(row)

    def draw(self, n):
        s, a = (np.array(c) for c in zip(*self.items))
        i = self.rng.integers(0, len(self.items), n)
        return [v[i] * 2 for v in (s, a)]
"""


def taken(text: str) -> str | None:
    read = source_file.parse_source("train.py", text)
    assert read is not None
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "def draw" in row) + 1
    found = rowsfirst.taken(read, line)
    return edits.edited_text(read, found) if found else None


def drawn(text: str, *rows: tuple[float, ...]) -> str:
    space: dict[str, object] = {}
    calls = "np.random.seed(1)\nmemory = Memory()\nfor row in rows:\n    memory.add(%s)\ndrawn = memory.draw(5)\n"
    space["rows"] = rows
    exec(compile(text + calls % ("*row" if "*row" in text else "row"), "train.py", "exec"), space)
    return repr(space["drawn"])


def test_rows_of_a_table() -> None:
    after = taken(TABLE)
    assert after is not None
    assert "pick = np.random.randint(0, len(self.rows), n)" in after
    assert "part = np.array([self.rows[k] for k in pick], dtype=np.float32)" in after
    assert "table" not in after
    rows = [(k, k + 0.5, k * 2) for k in range(9)]
    assert drawn(after, *rows) == drawn(TABLE, *rows)


def test_columns_of_rows() -> None:
    after = taken(COLUMNS)
    assert after is not None
    assert "s, a = (np.array(c) for c in zip(*[self.items[k] for k in i]))" in after
    assert after.index("i = self.rng") < after.index("s, a = ")
    rows = [(k, k + 0.5) for k in range(9)]
    assert drawn(after, *rows) == drawn(COLUMNS, *rows)


def test_columns_that_are_taken_by_name() -> None:
    after = taken(COLUMNS.replace("[v[i] * 2 for v in (s, a)]", "s[i], a[i]"))
    assert after is not None
    assert "return s, a" in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return part[:, :2]", "return table.mean(axis=0)"),  # all rows are used
        ("len(table), n)", "len(table))"),  # one row
        ("len(table), n)", "len(table), (n, 2))"),
        ("self.rows.append(row)", "self.rows[0] = row"),  # no list that grows
        ("pick = np.random.randint(0, len(table), n)", "pick = n > 3"),
        ("np.array(", "load("),
        ("[v[i] * 2 for v in (s, a)]", "[v[i] * 2 for v in (s, a)], s.mean()"),
        ("[v[i] * 2 for v in (s, a)]", "[v[i + 1] for v in (s, a)]"),
        ("        i = self.rng", "        print(n)\n        i = self.rng"),
        ("len(self.items), n)", "len(s), n)"),
    ],
)
def test_left_alone(old: str, new: str) -> None:
    text = TABLE if old in TABLE else COLUMNS
    assert old in text
    assert taken(text.replace(old, new)) is None
