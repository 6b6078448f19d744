"""Types of NumPy columns; medians and quantiles that are NaN, without a warning, where there are no values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.signedinteger[Any]]  # rows of a table, in the narrowest type that fits

NO_FLOATS: Floats = np.zeros(0)
NO_INTS: Ints = np.zeros(0, dtype=np.int64)
BUCKETS_PER_DOUBLING = 32  # of a histogram of durations, per doubling of the duration; each is 2.2 % wide


def median_value(values: ArrayLike) -> np.float64:
    """The median of all values; NaN if there are none or one of them is NaN."""
    array = np.asarray(values)
    return np.float64(np.median(array)) if array.size else np.float64("nan")


def quantile(values: ArrayLike, share: float) -> np.float64:
    """The quantile with linear interpolation; NaN if there are no values or one of them is NaN."""
    array = np.asarray(values, dtype=np.float64)
    return np.float64(np.quantile(array, share)) if array.size else np.float64("nan")


def distinct_with_codes(ids: Ints) -> tuple[Ints, Codes]:
    """Return the distinct numbers in order, and each one's code; a faster ``np.unique`` with inverse."""
    most = int(ids.max(initial=0))
    if int(ids.min(initial=0)) < 0 or most > 4 * len(ids) + 1024:
        found, code = np.unique(ids, return_inverse=True)
        return found, code.astype(np.int32)
    there = np.zeros(most + 1, dtype=bool)
    there[ids] = True
    return np.flatnonzero(there), (np.cumsum(there, dtype=np.int32) - np.int32(1))[ids]
