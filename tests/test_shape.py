"""The measures of the code's shape stay within their limits (``tests/shape.py``)."""

from __future__ import annotations

import pytest

from . import shape


def test_every_measure_stays_within_its_limit() -> None:
    beyond = [f"{one.name}: {one.value:,.1f} of {one.limit:,.1f}" for one in shape.measures() if one.value > one.limit]
    assert beyond == [], "make shape prints all measures"


@pytest.mark.parametrize(
    ("name", "bare"),
    [("told", True), ("_held", True), ("anew", True), ("finished", True), ("speed", False), ("seed", False),
     ("held_ms", False), ("render", False), ("find_steps", False)],
)  # fmt: skip
def test_a_bare_participle_or_adverb_is_recognised(name: str, bare: bool) -> None:
    assert shape.is_bare(name) is bare
