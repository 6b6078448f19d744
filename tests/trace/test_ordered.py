"""Medians and quantiles of columns."""

from __future__ import annotations

import warnings

import numpy as np

from slowtrain.columns.arrays import median_value, quantile


def test_median_and_quantile() -> None:
    assert median_value([4, 1, 3, 2]) == 2.5
    assert quantile([1.0, 2.0, 3.0], 0.25) == 1.5


def test_without_values_the_result_is_nan_and_nothing_is_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan([median_value([]), quantile([], 0.5)]).all()


def test_a_nan_makes_the_result_nan() -> None:
    assert np.isnan([median_value([1.0, float("nan")]), quantile([1.0, float("nan")], 0.1)]).all()
