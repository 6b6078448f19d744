"""How a number stands in a sentence."""

from __future__ import annotations


def plain(value: float, digits: int = 3) -> str:
    """``value`` to so many significant digits, written out: 1,230 and not 1.23e+03."""
    return f"{float(f'{value:.{digits}g}'):,.12g}"
