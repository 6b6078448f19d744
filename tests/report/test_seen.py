"""What lint sees in the script's files, in each report."""

from __future__ import annotations

import json as stdlib

from msgspec.structs import replace

from slowtrain.model import Place, SeenInSource
from slowtrain.report import documents, pages, text

from . import checkups

SEEN = (
    SeenInSource(
        "input/sequential-map", Place("train.py", 41, "ds.map(a < b)"), "one at a time", "confirmed", 7.9, 900.0
    ),
    SeenInSource("host/eager-step", Place("train.py", 9, ""), "op by op", "not reached"),
    SeenInSource("host/retracing", Place("train.py", 12, ""), "a number", None),
)
FOUND = replace(checkups.input_bound(), seen=SEEN)


def test_text_has_a_line_for_each_within_the_screen() -> None:
    shown = text.checkup_text(FOUND, height=None)
    assert "Seen in the source: 1 confirmed, 1 not reached, 1 not measured" in shown
    line = next(row for row in shown.splitlines() if row.strip().startswith("train.py:41 input/sequential-map"))
    assert line.endswith("confirmed: 7.90 ms a step")
    assert max(map(len, shown.splitlines())) <= 80


def test_the_page_escapes_what_it_quotes() -> None:
    page = pages.checkup_page(FOUND, {})
    assert "<code>ds.map(a &lt; b)</code>" in page


def test_json_says_null_where_the_run_cannot_tell() -> None:
    found = stdlib.loads(documents.checkup_json(FOUND))["findings"]
    assert [f["runtime"] and f["runtime"]["state"] for f in found] == ["confirmed", "not reached", None]
    assert "findings" not in stdlib.loads(documents.checkup_json(checkups.input_bound()))
