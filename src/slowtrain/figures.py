"""How a number stands in a sentence."""

from __future__ import annotations


def plain(value: float, digits: int = 3) -> str:
    """``value`` to so many significant digits, written out: 1,230 and not 1.23e+03."""
    return f"{float(f'{value:.{digits}g}'):,.12g}"


FORETOLD = 100.0  # times as fast: beyond it stands what a replay leaves of a step at least, and nothing foretold


def times(speedup: float, digits: int = 2) -> str:
    """How many times as fast something would be."""
    return f"over {FORETOLD:g}x" if speedup >= FORETOLD else f"{plain(speedup, digits)}x"


def counted(value: float, noun: str, digits: int = 3) -> str:
    """A number with what it counts: ``1 step``, ``1,234 steps``, ``2.5 processors``; ``digits`` are a float's."""
    said = f"{value:,}" if isinstance(value, int) else plain(value, digits)
    return f"{said} {noun}" if said == "1" else f"{said} {noun}s"
