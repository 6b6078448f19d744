"""Spans of one lane, asked for by time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.trace import Spans

moments = st.lists(st.integers(0, 50).map(float), max_size=20).map(sorted)


@given(moments, st.integers(0, 50), st.integers(0, 50))
def test_between_are_those_that_start_in_the_stretch(starts: list[float], begin: int, end: int) -> None:
    zero = np.zeros(len(starts), dtype=np.int64)
    spans = Spans(np.array(starts), np.array(starts) + 1.0, zero, zero, zero)
    assert spans.between(begin, end).start_ms.tolist() == [s for s in starts if begin <= s < end]
