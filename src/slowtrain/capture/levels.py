"""Detects float arrays that hold at most 256 evenly spaced values, i.e. uint8 data stored as float."""

from __future__ import annotations

import sys
from typing import Any

LEAST = 1 << 16  # numbers in an array; smaller arrays do not matter
ROWS, EACH = 64, 128  # read: rows from the whole array, and numbers from the whole of each row
FEW, MOST = 16, 256  # different numbers; fewer may be flags, or chance
EVEN = 0.05  # of the spacing; the rounding error of 1/255 in float32 is below it


def levels(array: Any) -> int | None:
    """Returns the number of different values if a uint8 with a scale can hold them all, else 0.

    Returns None if ``array`` is not a NumPy array in memory, or is too small to matter. Reads some thousand numbers.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or type(array) is not numpy.ndarray or array.dtype.name not in ("float32", "float64"):
        return None
    if array.ndim < 2 or array.size < LEAST:
        return None
    # No constant stride: it would read one channel of three, or one column of a table.
    within = numpy.arange(EACH) * 2_654_435_761 % (array.size // array.shape[0])
    rows = numpy.linspace(0, array.shape[0] - 1, min(ROWS, array.shape[0])).astype(int)
    found = numpy.unique(numpy.concatenate([array[i].flat[within] for i in rows]))
    if not FEW <= len(found) <= MOST or not numpy.isfinite(found).all():
        return 0
    places = (found - found[0]) / numpy.diff(found).min()
    even = numpy.abs(places - numpy.round(places)).max() < EVEN
    return len(found) if even and places[-1] < MOST - 0.5 else 0
