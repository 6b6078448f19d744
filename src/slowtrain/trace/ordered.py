"""Which numbers there are and which of others, the middle one, and quantiles: as NumPy tells, without masked arrays.

``np.unique``, ``np.isin`` (of many), ``np.median`` and ``np.quantile`` ask whether they were given such arrays, and the
first question imports them: that takes longer than any module of ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def unique(values: ArrayLike, axis: int | None = None) -> NDArray[Any]:
    """``np.unique``: sorted; asked for counts as well, it does not ask about masks."""
    return np.unique(np.asarray(values), return_counts=True, axis=axis)[0]


def among(values: NDArray[Any], others: NDArray[Any]) -> NDArray[np.bool_]:
    """``np.isin``: for each value whether it is one of the others."""
    if not len(others):
        return np.zeros(values.shape, dtype=bool)
    ascending = np.sort(others)
    found = ascending[np.minimum(np.searchsorted(ascending, values), len(others) - 1)] == values
    return np.asarray(found, dtype=bool)


def halfway(values: ArrayLike) -> np.float64:
    """``np.median`` of all values: NaN where one of them is, and where there are none."""
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
    """``np.quantile`` of all values, between two of them in proportion: NaN where one is, and where there are none."""
    given = np.asarray(values, dtype=np.float64).ravel()
    if not len(given):
        return np.float64("nan")
    at = share * (len(given) - 1)
    low = int(at)
    parted = np.partition(given, (low, min(low + 1, len(given) - 1), len(given) - 1))
    if np.isnan(parted[-1]):
        return np.float64("nan")
    below, above, part = parted[low], parted[min(low + 1, len(given) - 1)], at - low
    # From the nearer of the two, as NumPy does: the last digit is the same.
    return np.float64(below + (above - below) * part if part < 0.5 else above - (above - below) * (1 - part))
