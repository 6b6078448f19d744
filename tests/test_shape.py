"""The measures of the code's shape stay within their limits (``tests/shape.py``)."""

from __future__ import annotations

import pytest

from . import shape

MEASURES = {one.name: one for one in shape.measures()}


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_stays_within_its_limit(name: str) -> None:
    one = MEASURES[name]
    assert one.value <= one.limit, f"{name}: {one.value:,.1f}; make shape prints all measures"


@pytest.mark.parametrize(
    ("name", "bare"),
    [("told", True), ("_held", True), ("anew", True), ("finished", True), ("speed", False), ("seed", False),
     ("held_ms", False), ("render", False), ("find_steps", False)],
)  # fmt: skip
def test_a_bare_participle_or_adverb_is_recognised(name: str, bare: bool) -> None:
    assert shape.is_bare(name) is bare
