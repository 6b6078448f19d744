"""How a number stands in a sentence."""

from __future__ import annotations


def plain(value: float, digits: int = 3) -> str:
    """``value`` to so many significant digits, written out: 1,230 and not 1.23e+03."""
    return f"{float(f'{value:.{digits}g}'):,.12g}"


def counted(count: int, noun: str) -> str:
    """``1 step``, ``1,234 steps``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
