"""How many samples a step trains on, where no ``batch`` and no array tells: Keras takes each element for a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from slowtrain.columns.input_pipeline import Pipeline, WrittenDataset
from slowtrain.trace.loading import recording_trace

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

IMAGE = {"shape": [1, 24, 24, 1], "dtype": "float32", "bytes": 4}


@pytest.mark.parametrize(
    ("element", "keras", "expected"),
    [
        pytest.param([IMAGE, {**IMAGE, "shape": [1]}], True, 1, id="expand_dims in a map: batches of one"),
        pytest.param([{**IMAGE, "shape": [16, 8000]}], True, 16, id="a generator's batches"),
        pytest.param([{**IMAGE, "shape": [None, 8000]}], True, 0, id="of no fixed size"),
        pytest.param([IMAGE, {**IMAGE, "shape": [5]}], True, 0, id="parts of different lengths"),
        pytest.param([IMAGE, {**IMAGE, "shape": []}], True, 0, id="a part without rows"),
        pytest.param([IMAGE], False, 0, id="in a loop an element may be anything"),
    ],
)
def test_the_rows_of_an_element(element: list[dict[str, Any]], keras: bool, expected: int) -> None:
    steps = parse_drawing("step 1\ndevice k\n@repeat 20\n@steps source=fit").steps
    unknown = replace(steps, size=np.zeros(len(steps), dtype=np.int64))
    plan = (WrittenDataset("MapDataset", (), None, {"element": element}),)
    found = recording_trace._with_batch_size(unknown, [Pipeline(plan, batches=20, keras=keras)], 1)
    assert set(found.size.tolist()) == {expected}
