"""Replacements for ``np.unique``, ``np.isin``, ``np.median`` and ``np.quantile`` that do not import masked arrays.

NumPy's own functions check whether their argument is a masked array, and the first such check imports ``numpy.ma``.
That import takes longer than any module of this package.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def unique_values(values: ArrayLike, axis: int | None = None) -> NDArray[Any]:
    """Return the sorted distinct values, as ``np.unique`` does."""
    return np.unique(np.asarray(values), return_counts=True, axis=axis)[0]


def is_member(values: NDArray[Any], others: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each value whether it occurs in ``others``, as ``np.isin`` does."""
    if not len(others):
        return np.zeros(values.shape, dtype=bool)
    ascending = np.sort(others)
    found = ascending[np.minimum(np.searchsorted(ascending, values), len(others) - 1)] == values
    return np.asarray(found, dtype=bool)


def median_value(values: ArrayLike) -> np.float64:
    """Return the median of all values; NaN if there are none or one of them is NaN."""
    given = np.asarray(values).ravel()
    if not len(given):
        return np.float64("nan")
    half = len(given) // 2
    first = half - 1 + len(given) % 2
    parted = np.partition(given, (first, half, len(given) - 1))
    if np.isnan(parted[-1]):  # sorted to the end
        return np.float64("nan")
    return np.float64(parted[first : half + 1].mean())


def quantile(values: ArrayLike, share: float) -> np.float64:
    """Return the quantile with linear interpolation; NaN if there are no values or one of them is NaN."""
    given = np.asarray(values, dtype=np.float64).ravel()
    if not len(given):
        return np.float64("nan")
    at = share * (len(given) - 1)
    low = int(at)
    parted = np.partition(given, (low, min(low + 1, len(given) - 1), len(given) - 1))
    if np.isnan(parted[-1]):
        return np.float64("nan")
    below, above, part = parted[low], parted[min(low + 1, len(given) - 1)], at - low
    # Interpolates from the nearer neighbour, as NumPy does, so that the results are equal to the last digit.
    return np.float64(below + (above - below) * part if part < 0.5 else above - (above - below) * (1 - part))
