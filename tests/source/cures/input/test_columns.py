"""Records picked out one by one: the same batches out of one array a field, or left alone."""

from __future__ import annotations

import numpy as np
import pytest

from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source
from slowtrain.source.cures.input import columns

LOG = """import numpy as np

class Log:
    def __init__(self, n):
        rng = np.random.default_rng(0)
        obs = rng.normal(size=(n + 1, 3))
        self.records = [{made} for i in range(n)]
        self.rng = rng

    def sample(self, size):
        rows = [self.records[i] for i in {drawn}]
        return (np.array([r["obs"] for r in rows], "float32"),
                np.asarray([{field} for r in rows], dtype=np.int32){more})

log = Log(9)
found = log.sample(4), log.sample(20)
left = log.rng.random()
"""


def script(**other: str) -> str:
    given = {"made": '{"obs": obs[i].tolist(), "action": int(i % 2)}', "field": 'r["action"]', "more": ""}
    return LOG.format(**(given | {"drawn": "self.rng.integers(0, len(self.records), size)"} | other))


def changed(text: str) -> str | None:
    source = parse_source("train.py", text)
    assert source is not None
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "rows = [" in row)
    found = columns.kept(source, line)
    return edits.edited_text(source, found) if found else None


def values(text: str) -> tuple[object, ...]:
    space: dict[str, object] = {}
    exec(compile(text, "train.py", "exec"), space)
    return space["found"], space["left"]


@pytest.mark.parametrize("text", [script(), script(drawn="self.rng.choice(len(self.records), size)")])
def test_batches_are_the_same(text: str) -> None:
    new = changed(text)
    assert new is not None
    assert "for r in rows" not in new
    one, other = values(text), values(new)
    assert one[1] == other[1]
    np.testing.assert_equal(one[0], other[0])
    for before, after in zip(one[0], other[0], strict=True):  # type: ignore[call-overload]
        assert [a.dtype for a in before] == [a.dtype for a in after]


@pytest.mark.parametrize(
    "text",
    [
        script(made='{"obs": obs[i], "action": int(i)}'),  # a view, which may change later
        script(drawn="range(size)"),
        script(drawn="self.rng.integers(0, 9)"),
        script(drawn="self.rng.choice(self.order, size)"),
        script(more=", len(rows)"),
        script(more=', np.array([r["obs"] for r in rows])'),  # no number format
        script(more=', np.array([r["action"] for r in rows], "int64")'),  # two formats of one field
        script(field='r["action"] + 1'),
        script() + "log.records.append(3)\n",
        script() + "log.records[0]['obs'] = 3\n",
        script() + "log.records = []\n",
        script().replace("self.records = [", "self.records = list(").replace("range(n)]", "range(n))"),
    ],
)
def test_other_records_stay(text: str) -> None:
    assert changed(text) is None
