"""Which arrays hold no more than bytes with a scale would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slowtrain.capture.inspection.container_contents import quantised_level_count

RANDOM = np.random.default_rng(0)
BYTES = RANDOM.integers(0, 256, (200, 32, 32, 3), dtype=np.uint8)
FLOATS = BYTES.astype("float32")


@pytest.mark.parametrize(
    "array",
    [FLOATS / 255, FLOATS / 127.5 - 1, (FLOATS - 120.3) / 57.1, FLOATS, BYTES / 255.0, (FLOATS / 255)[:, ::2]],
    ids=["0 to 1", "-1 to 1", "standardised", "as they were", "float64", "a view"],
)
def test_bytes_that_were_cast(array: Any) -> None:
    assert quantised_level_count(array) == 256


@pytest.mark.parametrize(
    "array",
    [
        RANDOM.normal(size=(200, 1000)).astype("float32"),
        RANDOM.integers(0, 1000, (200, 1000)).astype("float32"),
        (FLOATS / 255) ** 2,  # of 256 kinds, but not evenly spaced
        FLOATS - np.array([100.1, 110.7, 120.2], np.float32),  # 768 kinds
        np.eye(500, dtype="float32"),  # two kinds may be what happened to be looked at
        np.full((200, 1000), np.nan),
    ],
    ids=["normal", "wider", "uneven", "by channel", "flags", "not finite"],
)
def test_numbers_that_bytes_cannot_hold(array: Any) -> None:
    assert quantised_level_count(array) == 0


@pytest.mark.parametrize("array", [None, BYTES, FLOATS[:2], FLOATS.reshape(-1), [1.0, 2.0]])
def test_what_is_not_looked_at(array: Any) -> None:
    assert quantised_level_count(array) is None
