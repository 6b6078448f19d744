"""Numbers as sentences hold them."""

from __future__ import annotations

import pytest

from slowtrain.number_text import format_count, format_number


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [
        (1234.5, 3, "1,230"),
        (218.0, 2, "220"),
        (0.01234, 3, "0.0123"),
        (12.345, 3, "12.3"),
        (99.96, 3, "100"),
        (1e9, 1, "1,000,000,000"),
        (0.0, 3, "0"),
        (-1500.0, 2, "-1,500"),
        (5, 3, "5"),
    ],
)
def test_a_number_has_no_exponent(value: float, digits: int, said: str) -> None:
    assert format_number(value, digits) == said


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_what_is_no_number_is_said_as_it_is(value: float) -> None:
    assert format_number(value) == str(value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1, "1 step"),
        (1.0001, "1 step"),
        (0, "0 steps"),
        (1.3, "1.3 steps"),
        (1234, "1,234 steps"),
        (1234.5, "1,230 steps"),
    ],
)
def test_one_of_a_thing_is_no_plural(value: float, said: str) -> None:
    assert format_count(value, "step") == said
