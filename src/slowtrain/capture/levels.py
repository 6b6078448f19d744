"""Whether numbers of an array are bytes in wide clothes: as few different ones, evenly spaced, as one byte tells."""

from __future__ import annotations

import sys
from typing import Any

LEAST = 1 << 16  # numbers in an array that is worth a look
ROWS, EACH = 64, 128  # looked at: rows from all over the array, and numbers from all over each
FEW, MOST = 16, 256  # different numbers: fewer may be flags, or happen to be what was looked at
EVEN = 0.05  # of a step: what float32 leaves of 1/255


def levels(array: Any) -> int | None:
    """How many different numbers were met, where a byte with a scale could hold them all; 0 where it could not.

    None for what is no array of NumPy's in memory, or too small to matter. Some thousand numbers are read.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or type(array) is not numpy.ndarray or array.dtype.name not in ("float32", "float64"):
        return None
    if array.ndim < 2 or array.size < LEAST:
        return None
    # No even stride: it would meet one channel of three, or one column of a table.
    within = numpy.arange(EACH) * 2_654_435_761 % (array.size // array.shape[0])
    rows = numpy.linspace(0, array.shape[0] - 1, min(ROWS, array.shape[0])).astype(int)
    found = numpy.unique(numpy.concatenate([array[i].flat[within] for i in rows]))
    if not FEW <= len(found) <= MOST or not numpy.isfinite(found).all():
        return 0
    places = (found - found[0]) / numpy.diff(found).min()
    even = numpy.abs(places - numpy.round(places)).max() < EVEN
    return len(found) if even and places[-1] < MOST - 0.5 else 0
