"""What counts as the samples of a pass, and as those of a batch, where data sets are drawn from or joined."""

from __future__ import annotations

import pytest

from slowtrain.causes.host import miscounted_steps
from slowtrain.columns.input_pipeline import Pipeline, WrittenDataset

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

TRACE = parse_drawing("step 1111111111")


def source(rows: int) -> WrittenDataset:
    return WrittenDataset("TensorSliceDataset", (), None, {"cardinality": rows})


def batch(inputs: int, size: int) -> WrittenDataset:
    return WrittenDataset("BatchDataset", (inputs,), None, {"batch_size": size})


def test_what_chooses_a_data_set_is_no_data() -> None:
    """``sample_from_datasets`` draws the number of the next one from random numbers, two at a time."""
    chosen = WrittenDataset("DirectedInterleaveDataset", (2, 3, 4))
    plan = (
        WrittenDataset("RandomDataset"),
        batch(0, 2),
        WrittenDataset("MapDataset", (1,)),
        source(120),
        source(60),
        chosen,
    )
    pipe = Pipeline((*plan, batch(5, 24)))
    assert miscounted_steps._samples_per_step(TRACE, pipe) == 24
    assert miscounted_steps._source_sizes(pipe) == [180]


@pytest.mark.parametrize(("joined", "sizes"), [("Concatenate", [180]), ("Zip", [120, 60])])
def test_data_sets_one_behind_the_other_are_a_pass_together(joined: str, sizes: list[int]) -> None:
    pipe = Pipeline((source(120), source(60), WrittenDataset(f"{joined}Dataset", (0, 1)), batch(2, 24)))
    assert miscounted_steps._source_sizes(pipe) == sizes
