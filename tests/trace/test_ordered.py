from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.columns.array_statistics import is_member, median_value, quantile, unique_values

NUMBERS = st.lists(st.sampled_from([0.0, 1.5, -2.0, 1e300, 7.25, float("nan"), float("inf")]))


@given(NUMBERS)
def test_unique(values: list[float]) -> None:
    assert np.array_equal(unique_values(values), np.unique(np.asarray(values)), equal_nan=True)


def test_unique_columns() -> None:
    rows = np.array([[1, 1, 2], [3, 3, 4]])
    assert unique_values(rows, axis=1).tolist() == np.unique(rows, axis=1).tolist() == [[1, 2], [3, 4]]


@given(NUMBERS, NUMBERS)
def test_among(values: list[float], others: list[float]) -> None:
    these, those = np.array(values, dtype=float), np.array(others, dtype=float)
    assert is_member(these, those).tolist() == np.isin(these, those).tolist()


@given(NUMBERS)
def test_halfway(values: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of none, and of infinities that meet
        assert np.array_equal(median_value(values), np.median(values), equal_nan=True)


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1))
def test_halfway_of_whole_numbers(values: list[int]) -> None:
    assert median_value(values) == np.median(np.array(values, dtype=np.int64))


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1), st.sampled_from([0.0, 0.025, 0.05, 0.25, 0.5, 0.9, 0.95, 0.975, 1.0])
)
def test_quantile(values: list[float], share: float) -> None:
    assert quantile(values, share) == np.quantile(values, share)


def test_quantile_of_what_has_none() -> None:
    assert np.isnan([quantile([], 0.5), quantile([1.0, float("nan")], 0.1)]).all()


@pytest.mark.parametrize(
    "call",
    ["unique_values([2.0, 1.0])", "is_member(many, many)", "median_value([2.0, 1.0])", "quantile([2.0, 1.0], 0.5)"],
)
def test_masked_arrays_are_not_imported(call: str) -> None:
    code = (
        "import sys, numpy\nbrought = 'numpy.ma' in sys.modules\n"
        "from slowtrain.columns.array_statistics import is_member, median_value, quantile, unique_values\n"
        f"many = numpy.arange(99) * 1.5\n{call}\nprint(brought or 'numpy.ma' not in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
