"""Types of NumPy columns; medians and quantiles that are NaN, without a warning, where there are no values."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.signedinteger[Any]]  # rows of a table, in the narrowest type that fits
Number = TypeVar("Number", bound=np.number[Any])

NO_FLOATS: Floats = np.zeros(0)
NO_INTS: Ints = np.zeros(0, dtype=np.int64)
BUCKETS_PER_DOUBLING = 32  # of a histogram of durations, per doubling of the duration; each is 2.2 % wide


def median_value(values: ArrayLike) -> np.float64:
    """The median of all values; NaN if there are none or one of them is NaN."""
    low, high, _ = _values_around(values, 0.5)
    return (low + high) / 2


def quantile(values: ArrayLike, share: float) -> np.float64:
    """The quantile with linear interpolation; NaN if there are no values or one of them is NaN."""
    low, high, beyond = _values_around(values, share)
    # As np.quantile, from the nearer one
    return high - (high - low) * (1 - beyond) if beyond >= 0.5 else low + (high - low) * beyond


def _values_around(values: ArrayLike, share: float) -> tuple[np.float64, np.float64, float]:
    """Return the sorted values before and after the place of a quantile, and how far it lies between them, 0 to 1.

    ``np.median`` and ``np.quantile`` import ``numpy.ma``, which takes 10 ms, and are slower for few values.
    """
    array = np.array(values, dtype=np.float64).ravel()
    last = array.size - 1
    if last < 0:
        return np.float64("nan"), np.float64("nan"), 0.0
    low, beyond = divmod(last * share, 1)
    high = min(int(low) + 1, last) if beyond else int(low)
    array.partition((int(low), high, last))  # NaN is sorted last
    if np.isnan(array[-1]):
        return array[-1], array[-1], 0.0
    return array[int(low)], array[high], beyond


def distinct_values(values: NDArray[Number]) -> NDArray[Number]:
    """Return the distinct numbers in order, none of them NaN. ``np.unique`` imports ``numpy.ma``, which takes 10 ms."""
    ordered = np.sort(values, axis=None)
    found: NDArray[Number] = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return found


def distinct_with_codes(ids: Ints) -> tuple[Ints, Codes]:
    """Return the distinct numbers in order, and each one's code; a faster ``np.unique`` with inverse."""
    most = int(ids.max(initial=0))
    if int(ids.min(initial=0)) < 0 or most > 4 * len(ids) + 1024:
        found, code = np.unique(ids, return_inverse=True)
        return found, code.astype(np.int32)
    there = np.zeros(most + 1, dtype=bool)
    there[ids] = True
    return np.flatnonzero(there), (np.cumsum(there, dtype=np.int32) - np.int32(1))[ids]
