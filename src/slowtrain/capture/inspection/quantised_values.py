"""Detects float arrays that hold at most 256 evenly spaced values, i.e. uint8 data stored as float."""

from __future__ import annotations

import sys
from typing import Any

MIN_ARRAY_NUMBERS = 1 << 16  # numbers in an array; smaller arrays do not matter
SAMPLED_ROWS, SAMPLED_NUMBERS_A_ROW = 64, 128  # read: rows from the whole array, and numbers from the whole of each row
MIN_LEVELS, MAX_LEVELS = 16, 256  # different numbers; fewer may be flags, or chance
MAX_SPACING_ERROR = 0.05  # of the spacing; the rounding error of 1/255 in float32 is below it


def quantised_level_count(array: Any) -> int | None:
    """Returns the number of different values if a uint8 with a scale can hold them all, else 0.

    Returns None if ``array`` is not a NumPy array in memory, or is too small to matter. Reads some thousand numbers.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or type(array) is not numpy.ndarray or array.dtype.name not in ("float32", "float64"):
        return None
    if array.ndim < 2 or array.size < MIN_ARRAY_NUMBERS:
        return None
    # No constant stride: it would read one channel of three, or one column of a table.
    within = numpy.arange(SAMPLED_NUMBERS_A_ROW) * 2_654_435_761 % (array.size // array.shape[0])
    rows = numpy.linspace(0, array.shape[0] - 1, min(SAMPLED_ROWS, array.shape[0])).astype(int)
    found = numpy.unique(numpy.concatenate([array[i].flat[within] for i in rows]))
    if not MIN_LEVELS <= len(found) <= MAX_LEVELS or not numpy.isfinite(found).all():
        return 0
    places = (found - found[0]) / numpy.diff(found).min()
    even = numpy.abs(places - numpy.round(places)).max() < MAX_SPACING_ERROR
    return len(found) if even and places[-1] < MAX_LEVELS - 0.5 else 0
