"""Formats numbers for sentences."""

from __future__ import annotations

from collections.abc import Sequence


def plain(value: float, digits: int = 3) -> str:
    """``value`` with that many significant digits, written out: 1,230, not 1.23e+03."""
    return f"{float(f'{value:.{digits}g}'):,.12g}"


FORETOLD = 100.0  # times as fast: beyond it the replay's minimum step decides, not the prediction


def times(speedup: float, digits: int = 2) -> str:
    """How many times as fast something would be."""
    return f"over {FORETOLD:g}x" if speedup >= FORETOLD else f"{plain(speedup, digits)}x"


def counted(value: float, noun: str, digits: int = 3) -> str:
    """A number and its noun: ``1 step``, ``1,234 steps``, ``2.5 processors``; ``digits`` for fractions."""
    said = f"{value:,.0f}" if float(value).is_integer() else plain(value, digits)
    return f"{said} {noun}" if said == "1" else f"{said} {noun}s"


def few(names: Sequence[str], most: int) -> list[str]:
    """The first names, and the number of the others."""
    left = len(names) - most
    return [*names[:most], *([f"{left} more"] if left > 0 else [])]
