"""Formats numbers for sentences."""

from __future__ import annotations

from collections.abc import Sequence


def format_number(value: float, digits: int = 3) -> str:
    """``value`` with that many significant digits, written out: 1,230, not 1.23e+03."""
    return f"{float(f'{value:.{digits}g}'):,.12g}"


MAX_PREDICTED_SPEEDUP = 100.0  # times as fast: beyond it the replay's minimum step decides, not the prediction


def format_speedup(speedup: float, digits: int = 2) -> str:
    """How many times as fast something would be."""
    return (
        f"over {MAX_PREDICTED_SPEEDUP:g}x" if speedup >= MAX_PREDICTED_SPEEDUP else f"{format_number(speedup, digits)}x"
    )


def format_count(value: float, noun: str, digits: int = 3) -> str:
    """A number and its noun: ``1 step``, ``1,234 steps``, ``2.5 processors``; ``digits`` for fractions."""
    number = f"{value:,.0f}" if float(value).is_integer() else format_number(value, digits)
    return f"{number} {noun}" if number == "1" else f"{number} {noun}s"


def first_names(names: Sequence[str], most: int) -> list[str]:
    """The first names, and the number of the others."""
    left = len(names) - most
    return [*names[:most], *([f"{left} more"] if left > 0 else [])]
